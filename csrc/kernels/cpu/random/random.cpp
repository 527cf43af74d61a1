// uniform, normal, randint, randperm: counter-based, so any number of threads gives the same numbers.
#include "kernels/cpu/random/random.h"

#include <cstring>
#include <memory>

#include "core/isa.h"
#include "core/process/parallel.h"
#include "dispatch/infer/shape/creation.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/loop_library.h"
#include "kernels/cpu/loops/strided_loop.h"
#include "kernels/cpu/math/functions.h"

namespace mt::cpu {

const RandomTable& select_random_table() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512::random_table;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2::random_table;
#endif
        default: break;
    }
    return baseline::random_table;
}

namespace {

// Sine and cosine of 2 pi u for u in [0, 1], by name: what code for GPUs draws normal numbers with.
template <class T, bool sine> void turn_loop(void* out, const void* in, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const T u = static_cast<const T*>(in)[i];
        static_cast<T*>(out)[i] = sine ? math::sinpi2(u) : math::cospi2(u);
    }
}

template <bool sine> Loop turn(const void*, DType compute) {
    if (compute == DType::F32) return {reinterpret_cast<const void*>(&turn_loop<float, sine>), compute};
    if (compute == DType::F64) return {reinterpret_cast<const void*>(&turn_loop<double, sine>), compute};
    return {};
}

const RegisterLoops turns{{"_sinpi2", 1, turn<true>}, {"_cospi2", 1, turn<false>}};

constexpr int64_t kBlock = 1024;
constexpr int64_t kGrain = kElementwiseGrain / 4;

// Fills `out`, whatever its strides, with elements of type From: f(i, n, buffer) makes n <= kBlock of them from element
// i on, a multiple of kBlock. It may write one element more than n.
template <class From, class F> void generate(Tensor& out, F f) {
    bool flat = is_flat(out);
    bool direct = flat && out.dtype == DTypeOf<From>::value;
    ConvertFn convert = get_convert(DTypeOf<From>::value, out.dtype);
    auto item = static_cast<int64_t>(itemsize(out.dtype));
    auto* data = static_cast<char*>(out.data());
    // In logical order: not simplified, which would reorder the dimensions.
    StridedLoop loop;
    if (!flat) loop.set_output(data, static_cast<size_t>(item), out.sizes, out.strides);
    parallel_for(out.numel, kGrain, [&](int64_t begin, int64_t end) {
        alignas(64) From buffer[kBlock];
        alignas(64) char converted[kBlock * 8];
        for (int64_t i = begin; i < end; i += kBlock) {
            int64_t n = end - i < kBlock ? end - i : kBlock;
            if (direct && n == kBlock) {
                f(i, n, reinterpret_cast<From*>(data) + i);
                continue;
            }
            f(i, n, buffer);
            if (flat) {
                convert(data + i * item, buffer, n);
                continue;
            }
            convert(converted, buffer, n);
            int64_t index[kMaxDims];
            char* at[kMaxOperands] = {};
            loop.locate(i, index, at);
            scatter_run(loop, 0, at[0], index, n, converted);
        }
    });
}

// The words of n elements of 32 or 64 bits from element `first` on.
template <int bits> void draw(const Call& call, int64_t first, int64_t n, uint32_t* words) {
    constexpr int64_t per_block = 128 / bits;
    random_loops().philox(call.seed, call.philox_offset, static_cast<uint64_t>(first / per_block),
                          (n + per_block - 1) / per_block, words);
}

void uniform(Call& call) {
    Tensor& out = *call.outputs[0];
    double low = call.param(1).as_double(), range = call.param(2).as_double() - low;
    const RandomTable& table = random_loops();
    if (call.compute == DType::F32) {
        generate<float>(out, [&](int64_t i, int64_t n, float* to) {
            alignas(64) uint32_t words[kBlock];
            draw<32>(call, i, n, words);
            table.uniform_f32(words, n, static_cast<float>(low), static_cast<float>(range), to);
        });
    } else {
        generate<double>(out, [&](int64_t i, int64_t n, double* to) {
            alignas(64) uint32_t words[2 * kBlock];
            draw<64>(call, i, n, words);
            table.uniform_f64(words, n, low, range, to);
        });
    }
}

void normal(Call& call) {
    Tensor& out = *call.outputs[0];
    double mean = call.param(1).as_double(), std_dev = call.param(2).as_double();
    const RandomTable& table = random_loops();
    if (call.compute == DType::F32) {
        generate<float>(out, [&](int64_t i, int64_t n, float* to) {
            alignas(64) uint32_t words[kBlock];
            n += n & 1;
            draw<32>(call, i, n, words);
            table.normal_f32(words, n, static_cast<float>(mean), static_cast<float>(std_dev), to);
        });
    } else {
        generate<double>(out, [&](int64_t i, int64_t n, double* to) {
            alignas(64) uint32_t words[2 * kBlock];
            n += n & 1;
            draw<64>(call, i, n, words);
            table.normal_f64(words, n, mean, std_dev, to);
        });
    }
}

constexpr uint64_t kNarrow = uint64_t(1) << 32;

void randint(Call& call) {
    int64_t low = call.param(0).as_int();
    uint64_t range = static_cast<uint64_t>(call.param(1).as_int()) - static_cast<uint64_t>(low);
    const RandomTable& table = random_loops();
    generate<int64_t>(*call.outputs[0], [&](int64_t i, int64_t n, int64_t* to) {
        alignas(64) uint32_t words[2 * kBlock];
        if (range <= kNarrow) {
            draw<32>(call, i, n, words);
            table.integer_32(words, n, low, range, to);
        } else {
            draw<64>(call, i, n, words);
            table.integer_64(words, n, low, range, to);
        }
    });
}

// Fisher and Yates's shuffle from the inside out: element i comes in at a place j <= i, and what was there moves to i.
template <class T> void shuffle(const Call& call, T* out, int64_t count) {
    bool narrow = static_cast<uint64_t>(count) <= kNarrow;
    uint32_t words[2 * kBlock];
    int64_t places[kBlock];
    for (int64_t start = 0; start < count; start += kBlock) {
        int64_t n = count - start < kBlock ? count - start : kBlock;
        if (narrow) draw<32>(call, start, n, words);
        else draw<64>(call, start, n, words);
        for (int64_t k = 0; k < n; ++k) {
            auto range = static_cast<uint64_t>(start + k + 1);
            uint64_t word = narrow ? words[k] : words[2 * k] | static_cast<uint64_t>(words[2 * k + 1]) << 32;
            places[k] = static_cast<int64_t>(
                narrow ? word * range >> 32
                       : static_cast<uint64_t>(static_cast<unsigned __int128>(word) * range >> 64));
            __builtin_prefetch(out + places[k], 1);
        }
        for (int64_t k = 0; k < n; ++k) {
            out[start + k] = out[places[k]];
            out[places[k]] = static_cast<T>(start + k);
        }
    }
}

void randperm(Call& call) {
    Tensor& out = *call.outputs[0];
    int64_t n = out.numel;
    if (n == 0) return;
    if (is_flat(out) && out.dtype == DType::I64) return shuffle(call, out.ptr<int64_t>(), n);
    if (is_flat(out) && out.dtype == DType::I32) return shuffle(call, out.ptr<int32_t>(), n);
    auto values = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(n));
    shuffle(call, values.get(), n);
    static const Dims unit{1};
    LoopOperand from{values.get(), &out.sizes, &unit, DType::I64, DType::I64};
    copy_elements(operand_of(out, out.dtype), from);
}

const RegisterNative registered{
    {"uniform", infer_uniform, uniform},
    {"normal", infer_normal, normal},
    {"randint", infer_randint, randint},
    {"randperm", infer_randperm, randperm},
};

}  // namespace
}  // namespace mt::cpu
