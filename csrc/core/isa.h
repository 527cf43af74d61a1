// Run-time choice of the instruction set that the CPU kernels use.
#pragma once

namespace mt {

/// Instruction-set levels, in ascending order. A level implies the ones below it.
enum class Isa {
    Baseline,  ///< what every CPU of the architecture has (x86-64: SSE2)
    Avx2,      ///< AVX2 and FMA
    Avx512,    ///< AVX-512 F, VL, DQ and BW
};

/// The level in use: the best one that was built and this CPU has, or the one that the environment variable MT_ISA
/// ("baseline", "avx2", "avx512") asks for if that is possible. Read once: tables are chosen by it while the library is
/// loaded, when nothing may be thrown.
Isa isa() noexcept;

/// Throws std::invalid_argument if MT_ISA has an unknown name and std::runtime_error for a level that this CPU or this
/// build lacks.
void check_isa();

/// The best level that this CPU has, whatever MT_ISA says.
Isa detected_isa() noexcept;

/// Whether the kernels of a level were compiled: MT_ISA_BUILD said so to setup.py, which defines MT_BUILT_AVX2 and
/// MT_BUILT_AVX512 in the files that mention them.
bool isa_built(Isa isa) noexcept;

/// The name by which MT_ISA knows a level.
const char* isa_name(Isa isa) noexcept;

}  // namespace mt
