/* The runtime's C interface: what generated machine code may call. Plain C, so that a code generator can lay out the
 * structures itself; change MT_RUNTIME_VERSION with any change of layout. */
#ifndef MT_RUNTIME_ABI_H
#define MT_RUNTIME_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MT_RUNTIME_VERSION 8

/* What is done with a finished part of a result, in place: rows [row0, row0 + rows) and columns [col0, col0 + cols) of
 * matrix `batch`. It is called exactly once for each of the parts, which cover the result, possibly from several
 * threads at once, and must not call the runtime. */
typedef void (*MtEpilogue)(void* ctx, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols);

/* One matrix product, or a batch of them: C[m, n] = A[m, k] * B[k, n]. Every element of C is written; k = 0 writes
 * zeros.
 *
 * Strides count elements, not bytes; `rs` leads to the next row, `cs` to the next column, `bs` to the next matrix
 * of the batch. Those of A and B may have any value, zero and negative included. The elements of C must be distinct and
 * must not overlap A or B.
 *
 * `epilogue`, if not null, is called for each finished tile of C.
 *
 * `add`, if not null, has the strides of C, and is added to the product: C = add + A * B, where k is at most the length
 * of a block (kGemmBlockK). It may be C itself, and must not overlap it otherwise. */
typedef struct MtGemm {
    int64_t m, n, k, batch;
    const void* a;
    int64_t a_rs, a_cs, a_bs;
    const void* b;
    int64_t b_rs, b_cs, b_bs;
    void* c;
    int64_t c_rs, c_cs, c_bs;
    MtEpilogue epilogue;
    void* epilogue_ctx;
    const void* add;
} MtGemm;

typedef struct MtRuntime {
    int64_t version; /* MT_RUNTIME_VERSION */
    /* Calls fn on chunks of [0, n) whose boundaries are multiples of grain; returns when all are done. */
    void (*parallel_for)(int64_t n, int64_t grain, void (*fn)(void*, int64_t, int64_t), void* ctx);
    /* Floating point: fused multiply-adds in the documented order. Integers: wrap around. */
    void (*gemm_f32)(const MtGemm*);
    void (*gemm_f64)(const MtGemm*);
    void (*gemm_s32)(const MtGemm*);
    void (*gemm_s64)(const MtGemm*);
    void (*gemm_u8)(const MtGemm*);
    /* Runs the eager kernel of an op on whole row-major arrays. `pointers` has those of the operands that are there, of
     * two uint64, seed and offset, for an op that draws random numbers, and of the results. The words say:
     *   the op's name and the default dtype (TEXT), the number of parameters and each of them (VALUE), the number of
     * operands and for each 0 (none), or 1 (an array) with its type (TEXT) and dimensions (LIST), or 2 (a number) with
     * its type (TEXT); then the number of results, and the type and dimensions of each. TEXT: the number of bytes, and
     * the bytes in whole words. LIST: the length, and the integers. VALUE: 0 (None), 1 and a bool, 2 and an integer, 3
     * and a double, 4 and two doubles (complex), 5 and a type, 6 and a list. */
    void (*call_kernel)(const int64_t* words, void** pointers);
    /* Products with m = 1 or n = 1, which have an order of their own; without an epilogue. */
    void (*gemv_f32)(const MtGemm*);
    void (*gemv_f64)(const MtGemm*);
    /* Sorts arrays together along one dimension. The words say: the product of the dimensions before it, its length,
     * the product of those behind it, the number of arrays, how many elements of each lane are wanted, whether their
     * numbers are, and the bytes of an element of each array. `pointers` has the arrays, the results, and an array of
     * int32 for the numbers. `less(lane, i, j)` tells whether element i goes before element j of the lane whose
     * first elements are at `lane`, one for each array. Equal elements stay in their order. */
    void (*sort)(const int64_t* words, void** pointers, uint8_t (*less)(void** lane, int64_t i, int64_t j));
    /* Has Python compute the instruction that the text describes, a line of HLO, from operands to results. */
    void (*call_host)(const char* text, int64_t length, void** pointers);
    /* call_kernel for a convolution of floats or doubles, with an epilogue for its result, which is a matrix for each
     * image, of filters and output positions. */
    void (*convolve)(const int64_t* words, void** pointers, MtEpilogue epilogue, void* ctx);
    /* `count` products with the sizes and strides of `each`, one after the other, without epilogues. Each has `width`
     * pointers: a, b, c and, if there are four, add. What one writes others may only read as `add`: no thread waits for
     * another between them. */
    void (*gemms_f32)(const MtGemm* each, void** pointers, int64_t count, int64_t width);
    void (*gemms_f64)(const MtGemm* each, void** pointers, int64_t count, int64_t width);
} MtRuntime;

/* The process's runtime; never null, and valid for the life of the process. */
const MtRuntime* mt_runtime(void);

#ifdef __cplusplus
}
#endif

#endif
