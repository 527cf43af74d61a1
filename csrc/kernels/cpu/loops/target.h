// What follows in a file that includes this is compiled once for each instruction set: setup.py defines which by
// MT_TARGET_*, and this chooses the instructions, a namespace and the size of a vector. It stands after the standard
// headers and those that declare the tables, and everything after it has internal linkage or is in MT_ISA_NS: nothing
// compiled for one instruction set may be merged by the linker with the same function compiled for another.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")

#if defined(MT_TARGET_AVX512)
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c,prefer-vector-width=512")
#define MT_ISA_NS avx512
#define MT_VECTOR_BYTES 64
#elif defined(MT_TARGET_AVX2)
#pragma GCC target("avx2,fma,f16c")
#define MT_ISA_NS avx2
#define MT_VECTOR_BYTES 32
#elif defined(MT_TARGET_BASELINE)
#define MT_ISA_NS baseline
#define MT_VECTOR_BYTES 16
#else
#error "setup.py compiles this file once for each instruction set, with MT_TARGET_BASELINE, _AVX2 or _AVX512 defined"
#endif
