#include "core/isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace mt {
namespace {

Isa best_isa() noexcept {
    Isa best = Isa::Baseline;
    for (Isa level : {Isa::Avx2, Isa::Avx512}) {
        if (isa_built(level) && level <= detected_isa()) best = level;
    }
    return best;
}

std::string built_names() {
    std::string names;
    for (Isa level : {Isa::Baseline, Isa::Avx2, Isa::Avx512}) {
        if (isa_built(level)) names += std::string(names.empty() ? "" : ", ") + isa_name(level);
    }
    return names;
}

Isa choose() {
    const char* wanted = std::getenv("MT_ISA");
    if (wanted == nullptr || *wanted == '\0') return best_isa();
    for (Isa level : {Isa::Baseline, Isa::Avx2, Isa::Avx512}) {
        if (std::string(wanted) != isa_name(level)) continue;
        if (level > detected_isa()) {
            throw std::runtime_error(std::string("MT_ISA=") + wanted +
                                     ": this CPU does not support it; the best it has is " + isa_name(detected_isa()));
        }
        if (!isa_built(level)) {
            throw std::runtime_error(std::string("MT_ISA=") + wanted + ": this build of minitensor has only " +
                                     built_names() + "; build it with MT_ISA_BUILD=all to have every one");
        }
        return level;
    }
    throw std::invalid_argument(std::string("MT_ISA=") + wanted +
                                ": unknown instruction set; use baseline, avx2 or avx512");
}

}  // namespace

Isa detected_isa() noexcept {
#if defined(__x86_64__)
    // The builtins also check that the operating system saves the wide registers.
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
        return Isa::Baseline;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw")) {
        return Isa::Avx512;
    }
    return Isa::Avx2;
#else
    return Isa::Baseline;
#endif
}

bool isa_built(Isa isa) noexcept {
    switch (isa) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return true;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return true;
#endif
        default: return isa == Isa::Baseline;
    }
}

const char* isa_name(Isa isa) noexcept {
    switch (isa) {
        case Isa::Avx2: return "avx2";
        case Isa::Avx512: return "avx512";
        default: return "baseline";
    }
}

void check_isa() { choose(); }

Isa isa() noexcept {
    static const Isa chosen = [] {
        try {
            return choose();
        } catch (const std::exception&) {  // check_isa() says it where somebody can hear it
            return best_isa();
        }
    }();
    return chosen;
}

}  // namespace mt
