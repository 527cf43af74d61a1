// Chooses the table of nn_loops.h.
#include "kernels/cpu/nn_loops.h"

#include "core/isa.h"

namespace mt::cpu {

const NnTable& nn_table() {
#if defined(__x86_64__)
    switch (isa()) {
        case Isa::Avx512: return avx512::nn_table;
        case Isa::Avx2: return avx2::nn_table;
        default: break;
    }
#endif
    return baseline::nn_table;
}

}  // namespace mt::cpu
