// A product of matrices that lie in memory with strides, for kernels of which it is a part.
#pragma once

#include <cstdint>

#include "runtime/products/gemm.h"

namespace mt::cpu {

// c[m, n] = a[m, k] b[k, n]; the epilogue is called for each finished tile of c.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs, const T* b, int64_t b_rs,
              int64_t b_cs, T* c, int64_t c_rs, MtEpilogue epilogue = nullptr, void* epilogue_ctx = nullptr) {
    if (m == 0) return;
    MtGemm g{};
    g.m = m;
    g.n = n;
    g.k = k;
    g.batch = 1;
    g.a = a;
    g.a_rs = a_rs;
    g.a_cs = a_cs;
    g.b = b;
    g.b_rs = b_rs;
    g.b_cs = b_cs;
    g.c = c;
    g.c_rs = c_rs;
    g.c_cs = 1;
    g.epilogue = epilogue;
    g.epilogue_ctx = epilogue_ctx;
    gemm<T>(&g);
}

}  // namespace mt::cpu
