#include "core/parallel.h"
#include "runtime/abi.h"
#include "runtime/gemm.h"

extern "C" const MtRuntime* mt_runtime(void) {
    static const MtRuntime runtime = {
        MT_RUNTIME_VERSION,
        [](int64_t n, int64_t grain, void (*fn)(void*, int64_t, int64_t), void* ctx) {
            mt::parallel_for(n, grain, fn, ctx);
        },
        mt::gemm<float>,
        mt::gemm<double>,
        mt::gemm<int32_t>,
        mt::gemm<int64_t>,
        mt::gemm<uint8_t>,
    };
    return &runtime;
}
