// Chooses the table of loops.h.
#include "kernels/cpu/nn/loops.h"

#include "core/isa.h"

namespace mt::cpu {

const NnTable& nn_table() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512::nn_table;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2::nn_table;
#endif
        default: break;
    }
    return baseline::nn_table;
}

}  // namespace mt::cpu
