#include "core/error.h"
#include "core/process/parallel.h"
#include "runtime/abi.h"
#include "runtime/errors.h"
#include "runtime/host_call.h"
#include "runtime/kernel_call.h"
#include "runtime/products/gemm.h"
#include "runtime/products/gemv.h"
#include "runtime/sort.h"

namespace mt {
void (*kernel_call_callback)(const int64_t*, void**, const Epilogue*) = nullptr;
void (*host_call_callback)(const char*, int64_t, void**) = nullptr;
}  // namespace mt

namespace {

template <class T>
void gemm(const MtGemm* product) {
    mt::keeping_errors([&] { mt::gemm<T>(product); });
}

template <class T>
void gemms(const MtGemm* each, void** pointers, int64_t count, int64_t width) {
    mt::keeping_errors([&] { mt::gemms<T>(*each, pointers, count, width); });
}

template <class T>
void gemv(const MtGemm* product) {
    mt::keeping_errors([&] { mt::gemv<T>(product); });
}

void parallel_for(int64_t n, int64_t grain, void (*fn)(void*, int64_t, int64_t), void* ctx) {
    mt::keeping_errors([&] {
        mt::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
            fn(ctx, begin, end);
            mt::rethrow_runtime_error();  // from a worker to the caller
        });
    });
}

void call_kernel(const int64_t* words, void** pointers) {
    mt::keeping_errors([&] { mt::kernel_call_callback(words, pointers, nullptr); });
}

void convolve(const int64_t* words, void** pointers, MtEpilogue run, void* ctx) {
    mt::Epilogue epilogue{run, ctx};
    mt::keeping_errors([&] { mt::kernel_call_callback(words, pointers, &epilogue); });
}

void sort(const int64_t* words, void** pointers, uint8_t (*less)(void**, int64_t, int64_t)) {
    mt::keeping_errors([&] { mt::sort_lanes(words, pointers, less); });
}

void call_host(const char* text, int64_t length, void** pointers) {
    mt::keeping_errors([&] {
        if (!mt::host_call_callback) mt::fail("compiled code calls Python, which is not there");
        mt::host_call_callback(text, length, pointers);
    });
}

}  // namespace

extern "C" const MtRuntime* mt_runtime(void) {
    static const MtRuntime runtime = {
        MT_RUNTIME_VERSION, parallel_for, gemm<float>,   gemm<double>, gemm<int32_t>, gemm<int64_t>,
        gemm<uint8_t>,      call_kernel,  gemv<float>,   gemv<double>, sort,          call_host,
        convolve,           gemms<float>, gemms<double>,
    };
    return &runtime;
}
