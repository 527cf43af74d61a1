#include "kernels/cpu/loops/strided_loop.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mt::cpu {

void StridedLoop::set_output(void* base, size_t itemsize, const Dims& shape, const Dims& steps) {
    operands = 1;
    ndim = shape.size();
    numel = 1;
    data[0] = static_cast<char*>(base);
    item[0] = static_cast<int64_t>(itemsize);
    for (size_t d = 0; d < ndim; ++d) {
        sizes[d] = shape[d];
        strides[0][d] = steps[d] * item[0];
        numel *= shape[d];
    }
}

void StridedLoop::add_input(const void* base, size_t itemsize, const Dims& shape, const Dims& steps) {
    size_t k = operands++;
    data[k] = const_cast<char*>(static_cast<const char*>(base));
    item[k] = static_cast<int64_t>(itemsize);
    size_t lead = ndim - shape.size();
    for (size_t d = 0; d < lead; ++d) strides[k][d] = 0;
    for (size_t d = lead; d < ndim; ++d) {
        bool repeated = shape[d - lead] == 1;
        strides[k][d] = repeated ? 0 : steps[d - lead] * item[k];
    }
}

void StridedLoop::simplify() {
    // Dimensions of size 1 go; the others are sorted by the destination's stride, largest first, which leaves a
    // contiguous destination as it is.
    size_t order[kMaxDims], kept = 0;
    bool moved = false;
    auto weight = [&](size_t d) { return strides[0][d] < 0 ? -strides[0][d] : strides[0][d]; };
    for (size_t d = 0; d < ndim; ++d) {
        if (sizes[d] == 1) continue;
        size_t at = kept++;
        moved |= at != d;
        for (; at > 0 && weight(order[at - 1]) < weight(d); --at) {
            order[at] = order[at - 1];
            moved = true;
        }
        order[at] = d;
    }
    auto reorder = [&](int64_t* row) {
        int64_t old[kMaxDims];
        std::memcpy(old, row, ndim * sizeof(int64_t));
        for (size_t i = 0; i < kept; ++i) row[i] = old[order[i]];
    };
    if (moved) {
        reorder(sizes);
        for (size_t k = 0; k < operands; ++k) reorder(strides[k]);
    }
    // Neighbours over which every operand runs evenly become one.
    size_t last = 0;
    for (size_t d = 1; d < kept; ++d) {
        bool even = true;
        for (size_t k = 0; k < operands; ++k) even &= strides[k][last] == strides[k][d] * sizes[d];
        if (even) {
            sizes[last] *= sizes[d];
        } else {
            sizes[++last] = sizes[d];
        }
        for (size_t k = 0; k < operands; ++k) strides[k][last] = strides[k][d];
    }
    ndim = kept == 0 ? 0 : last + 1;
    if (ndim == 0) {
        ndim = 1;
        sizes[0] = 1;
        for (size_t k = 0; k < operands; ++k) strides[k][0] = 0;
        strides[0][0] = item[0];
    }
}

bool StridedLoop::dense(size_t k) const {
    int64_t step = item[k];
    for (size_t d = ndim; d-- > 0;) {
        if (strides[k][d] != step) return false;
        step *= sizes[d];
    }
    return true;
}

bool StridedLoop::single(size_t k) const {
    for (size_t d = 0; d < ndim; ++d)
        if (strides[k][d] != 0) return false;
    return true;
}

bool StridedLoop::prepare_tiles() {
    constexpr int64_t kWorthIt = 8;
    if (ndim < 2 || inner() < kWorthIt) return false;
    for (size_t k = 1; k < operands; ++k) {
        if (inner_stride(k) == 0 || inner_stride(k) == item[k]) continue;
        for (size_t d = 0; d + 1 < ndim; ++d) {
            if (strides[k][d] != item[k] || sizes[d] < kWorthIt) continue;
            auto move = [&](int64_t* row) {
                int64_t moved = row[d];
                for (size_t e = d; e + 2 < ndim; ++e) row[e] = row[e + 1];
                row[ndim - 2] = moved;
            };
            move(sizes);
            for (size_t j = 0; j < operands; ++j) move(strides[j]);
            return true;
        }
    }
    return false;
}

namespace {

template <class T> void gather_typed(const char* from, int64_t stride, int64_t n, void* out) {
    auto* to = static_cast<T*>(out);
    if (stride == 0) {
        T value = *reinterpret_cast<const T*>(from);
        for (int64_t i = 0; i < n; ++i) to[i] = value;
        return;
    }
    for (int64_t i = 0; i < n; ++i) to[i] = *reinterpret_cast<const T*>(from + i * stride);
}

template <class T> void scatter_typed(char* to, int64_t stride, int64_t n, const void* in) {
    auto* from = static_cast<const T*>(in);
    for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(to + i * stride) = from[i];
}

// Calls f(offset from the start in bytes, elements of one row, elements so far) along the iteration.
template <class F> void walk(const StridedLoop& loop, size_t k, const int64_t* index, int64_t n, F&& f) {
    size_t last = loop.ndim - 1;
    const int64_t* strides = loop.strides[k];
    if (n <= loop.sizes[last] - index[last]) return f(0, n, 0);
    int64_t at[kMaxDims];
    std::memcpy(at, index, loop.ndim * sizeof(int64_t));
    int64_t offset = 0, done = 0;
    while (true) {
        int64_t take = loop.sizes[last] - at[last];
        if (take > n - done) take = n - done;
        f(offset, take, done);
        done += take;
        if (done == n) return;
        // The rest of this row was taken: back to its start, and on to the next one.
        offset -= at[last] * strides[last];
        at[last] = 0;
        for (size_t d = last; d-- > 0;) {
            offset += strides[d];
            if (++at[d] < loop.sizes[d]) break;
            offset -= at[d] * strides[d];
            at[d] = 0;
        }
    }
}

template <class T> void gather_walk(const StridedLoop& loop, size_t k, const char* from, const int64_t* index,
                                    int64_t n, void* out) {
    int64_t stride = loop.inner_stride(k);
    walk(loop, k, index, n, [=](int64_t offset, int64_t take, int64_t done) {
        gather_typed<T>(from + offset, stride, take, static_cast<T*>(out) + done);
    });
}

template <class T> void scatter_walk(const StridedLoop& loop, size_t k, char* to, const int64_t* index, int64_t n,
                                     const void* in) {
    int64_t stride = loop.inner_stride(k);
    walk(loop, k, index, n, [=](int64_t offset, int64_t take, int64_t done) {
        scatter_typed<T>(to + offset, stride, take, static_cast<const T*>(in) + done);
    });
}

template <class T>
void transpose_plain(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r) {
        auto* to = reinterpret_cast<T*>(out + r * out_stride);
        const char* from = in + r * static_cast<int64_t>(sizeof(T));
        for (int64_t c = 0; c < columns; ++c) to[c] = *reinterpret_cast<const T*>(from + c * in_stride);
    }
}

#if defined(__SSE2__)
void transpose_4(const char* in, int64_t in_stride, char* out, int64_t out_stride) {
    auto load = [&](int64_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * in_stride)); };
    auto store = [&](int64_t i, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * out_stride), v); };
    __m128i a = load(0), b = load(1), c = load(2), d = load(3);
    __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
    store(0, _mm_unpacklo_epi64(ab, cd));
    store(1, _mm_unpackhi_epi64(ab, cd));
    ab = _mm_unpackhi_epi32(a, b), cd = _mm_unpackhi_epi32(c, d);
    store(2, _mm_unpacklo_epi64(ab, cd));
    store(3, _mm_unpackhi_epi64(ab, cd));
}

void transpose_8(const char* in, int64_t in_stride, char* out, int64_t out_stride) {
    auto load = [&](int64_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * in_stride)); };
    auto store = [&](int64_t i, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * out_stride), v); };
    __m128i a = load(0), b = load(1);
    store(0, _mm_unpacklo_epi64(a, b));
    store(1, _mm_unpackhi_epi64(a, b));
}

// Squares of `side` elements by `kernel`, the borders one by one.
template <class T, int64_t side, void (*kernel)(const char*, int64_t, char*, int64_t)>
void transpose_squares(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t rows,
                       int64_t columns) {
    constexpr int64_t item = sizeof(T);
    // Columns are far apart, which the hardware doesn't foresee.
    constexpr int64_t ahead = 16;
    int64_t whole_rows = rows - rows % side, whole_columns = columns - columns % side;
    for (int64_t c = 0; c < whole_columns; c += side) {
        for (int64_t k = c + ahead; k < c + ahead + side && k < columns; ++k)
            for (int64_t byte = 0; byte < rows * item; byte += 64) __builtin_prefetch(in + k * in_stride + byte);
        for (int64_t r = 0; r < whole_rows; r += side)
            kernel(in + c * in_stride + r * item, in_stride, out + r * out_stride + c * item, out_stride);
    }
    if (whole_rows < rows)
        transpose_plain<T>(in + whole_rows * item, in_stride, out + whole_rows * out_stride, out_stride,
                           rows - whole_rows, columns);
    if (whole_columns < columns)
        transpose_plain<T>(in + whole_columns * in_stride, in_stride, out + whole_columns * item, out_stride,
                           whole_rows, columns - whole_columns);
}
#endif

}  // namespace

void gather_row(const char* from, int64_t stride, int64_t item, int64_t n, void* out) {
    switch (item) {
        case 1: return gather_typed<uint8_t>(from, stride, n, out);
        case 2: return gather_typed<uint16_t>(from, stride, n, out);
        case 4: return gather_typed<uint32_t>(from, stride, n, out);
        case 8: return gather_typed<uint64_t>(from, stride, n, out);
        default: return gather_typed<complex128>(from, stride, n, out);
    }
}

void scatter_row(char* to, int64_t stride, int64_t item, int64_t n, const void* in) {
    switch (item) {
        case 1: return scatter_typed<uint8_t>(to, stride, n, in);
        case 2: return scatter_typed<uint16_t>(to, stride, n, in);
        case 4: return scatter_typed<uint32_t>(to, stride, n, in);
        case 8: return scatter_typed<uint64_t>(to, stride, n, in);
        default: return scatter_typed<complex128>(to, stride, n, in);
    }
}

void gather_run(const StridedLoop& loop, size_t k, const char* from, const int64_t* index, int64_t n, void* out) {
    switch (loop.item[k]) {
        case 1: return gather_walk<uint8_t>(loop, k, from, index, n, out);
        case 2: return gather_walk<uint16_t>(loop, k, from, index, n, out);
        case 4: return gather_walk<uint32_t>(loop, k, from, index, n, out);
        case 8: return gather_walk<uint64_t>(loop, k, from, index, n, out);
        default: return gather_walk<complex128>(loop, k, from, index, n, out);
    }
}

void scatter_run(const StridedLoop& loop, size_t k, char* to, const int64_t* index, int64_t n, const void* in) {
    switch (loop.item[k]) {
        case 1: return scatter_walk<uint8_t>(loop, k, to, index, n, in);
        case 2: return scatter_walk<uint16_t>(loop, k, to, index, n, in);
        case 4: return scatter_walk<uint32_t>(loop, k, to, index, n, in);
        case 8: return scatter_walk<uint64_t>(loop, k, to, index, n, in);
        default: return scatter_walk<complex128>(loop, k, to, index, n, in);
    }
}

void transpose_tile(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t item, int64_t rows,
                    int64_t columns) {
    switch (item) {
        case 1: return transpose_plain<uint8_t>(in, in_stride, out, out_stride, rows, columns);
        case 2: return transpose_plain<uint16_t>(in, in_stride, out, out_stride, rows, columns);
#if defined(__SSE2__)
        case 4: return transpose_squares<uint32_t, 4, transpose_4>(in, in_stride, out, out_stride, rows, columns);
        case 8: return transpose_squares<uint64_t, 2, transpose_8>(in, in_stride, out, out_stride, rows, columns);
#else
        case 4: return transpose_plain<uint32_t>(in, in_stride, out, out_stride, rows, columns);
        case 8: return transpose_plain<uint64_t>(in, in_stride, out, out_stride, rows, columns);
#endif
        default: return transpose_plain<complex128>(in, in_stride, out, out_stride, rows, columns);
    }
}

}  // namespace mt::cpu
