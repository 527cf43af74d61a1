// index_select, index_add and index_copy: whole slices along one dimension.
#include <algorithm>
#include <cstring>

#include "dispatch/infer_index.h"
#include "dispatch/op.h"
#include "kernels/cpu/index_bounds.h"

namespace mt::cpu {

namespace {

// A tensor as [outer, n, inner] around the indexed dimension.
struct Slices {
    int64_t outer = 1, n = 1, inner = 1;
    Slices(const Dims& sizes, size_t dim) {
        for (size_t d = 0; d < dim; ++d) outer *= sizes[d];
        if (!sizes.empty()) n = sizes[dim];
        for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
    }
};

template <class T>
void select_elements(T* out, const T* in, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; ++i) out[i] = in[i * stride];
}

void index_select_kernel(Call& call) {
    const Tensor &t = call.in(0), &index = call.in(1);
    Tensor& out = *call.outputs[0];
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    Slices shape(t.sizes, dim);
    Packed indices(index, DType::I64);
    const auto* at = indices.as<int64_t>();
    check_bounds(at, index.numel, -shape.n, shape.n, static_cast<int64_t>(dim), ErrorKind::Index);
    if (out.numel == 0) return;
    ContiguousOut target(out, t.dtype);
    auto* to = static_cast<char*>(target.data());
    auto size = static_cast<int64_t>(itemsize(t.dtype));

    // The slices' elements must be a fixed distance apart; the outer dimensions keep their strides.
    int64_t step = 1, expected = 0;
    bool regular = true;
    for (size_t d = t.ndim(); d-- > dim + 1;) {
        if (t.sizes[d] == 1) continue;
        if (!expected) expected = step = t.strides[d];
        regular &= t.strides[d] == expected;
        expected *= t.sizes[d];
    }
    Scratch packed;
    const char* from = static_cast<const char*>(t.data());
    Dims strides = t.strides;
    if (!regular) {
        void* copy = packed.reserve(static_cast<size_t>(t.numel * size));
        pack(copy, t.dtype, t);
        from = static_cast<const char*>(copy);
        strides = contiguous_strides(t.sizes);
        step = 1;
    }
    int64_t along = t.ndim() ? strides[dim] : 0, count = index.numel;
    parallel_for(shape.outer * count, grain_of(shape.inner), [&](int64_t begin, int64_t end) {
        int64_t last_outer = -1, base = 0;
        for (int64_t i = begin; i < end; ++i) {
            int64_t o = i / count, k = at[i - o * count];
            if (o != last_outer) {
                last_outer = o;
                base = 0;
                for (size_t d = dim; d-- > 0;) {
                    base += o % t.sizes[d] * strides[d];
                    o /= t.sizes[d];
                }
            }
            const char* source = from + (base + (k < 0 ? k + shape.n : k) * along) * size;
            char* destination = to + i * shape.inner * size;
            if (step == 1 || shape.inner == 1) {
                std::memcpy(destination, source, static_cast<size_t>(shape.inner * size));
                continue;
            }
            switch (size) {
                case 1:
                    select_elements(reinterpret_cast<uint8_t*>(destination), reinterpret_cast<const uint8_t*>(source),
                                    shape.inner, step);
                    break;
                case 4:
                    select_elements(reinterpret_cast<uint32_t*>(destination), reinterpret_cast<const uint32_t*>(source),
                                    shape.inner, step);
                    break;
                case 2:
                    select_elements(reinterpret_cast<uint16_t*>(destination), reinterpret_cast<const uint16_t*>(source),
                                    shape.inner, step);
                    break;
                case 8:
                    select_elements(reinterpret_cast<uint64_t*>(destination), reinterpret_cast<const uint64_t*>(source),
                                    shape.inner, step);
                    break;
                default:
                    select_elements(reinterpret_cast<complex128*>(destination),
                                    reinterpret_cast<const complex128*>(source), shape.inner, step);
            }
        }
    });
    target.store();
}

template <class T>
void add_slice(T* out, const T* src, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        if constexpr (__is_same(T, bool)) out[i] = out[i] | src[i];
        else out[i] = static_cast<T>(out[i] + src[i]);
    }
}

template <class T>
void copy_slice(T* out, const T* src, int64_t n) {
    std::memcpy(out, src, static_cast<size_t>(n) * sizeof(T));
}

// Slices in the order of the index; threads share out the outer and inner dimensions, never the index.
template <class T, void (*write)(T*, const T*, int64_t)>
void write_slices(void* out, const void* src, const int64_t* index, int64_t count, const Slices& shape) {
    constexpr int64_t least = 64;  // elements of a slice for one task
    int64_t pieces = std::clamp<int64_t>(shape.inner / least, 1, num_threads());
    int64_t length = (shape.inner + pieces - 1) / pieces;
    parallel_for(shape.outer * pieces, grain_of(count * length), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
            int64_t o = task / pieces, first = task % pieces * length, n = std::min(length, shape.inner - first);
            if (n <= 0) continue;
            T* to = static_cast<T*>(out) + o * shape.n * shape.inner + first;
            const T* from = static_cast<const T*>(src) + o * count * shape.inner + first;
            for (int64_t i = 0; i < count; ++i)
                write(to + (index[i] < 0 ? index[i] + shape.n : index[i]) * shape.inner, from + i * shape.inner, n);
        }
    });
}

template <bool Add>
void index_write_kernel(Call& call) {
    const Tensor &t = call.in(0), &index = call.in(1), &src = call.in(2);
    Tensor& out = *call.outputs[0];
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    Slices shape(t.sizes, dim);
    Packed indices(index, DType::I64, shares_memory(index, out));
    const auto* at = indices.as<int64_t>();
    int64_t count = index.numel;
    check_bounds(at, count, -shape.n, shape.n, static_cast<int64_t>(dim), ErrorKind::Index);
    Packed values(src, t.dtype, shares_memory(src, out));
    ContiguousOut target(out, t.dtype);
    if (t.numel && target.data() != t.data()) pack(target.data(), t.dtype, t);
    if (src.numel) {
        void* to = target.data();
        const void* from = values.data();
        if constexpr (Add) {
            switch (t.dtype) {
                // Signed sums wrap around.
                case DType::Bool: write_slices<bool, add_slice<bool>>(to, from, at, count, shape); break;
                case DType::U8: write_slices<uint8_t, add_slice<uint8_t>>(to, from, at, count, shape); break;
                case DType::I32: write_slices<uint32_t, add_slice<uint32_t>>(to, from, at, count, shape); break;
                case DType::I64: write_slices<uint64_t, add_slice<uint64_t>>(to, from, at, count, shape); break;
                case DType::F32: write_slices<float, add_slice<float>>(to, from, at, count, shape); break;
                default: write_slices<double, add_slice<double>>(to, from, at, count, shape);
            }
        } else {
            switch (itemsize(t.dtype)) {
                case 1: write_slices<uint8_t, copy_slice<uint8_t>>(to, from, at, count, shape); break;
                case 2: write_slices<uint16_t, copy_slice<uint16_t>>(to, from, at, count, shape); break;
                case 4: write_slices<uint32_t, copy_slice<uint32_t>>(to, from, at, count, shape); break;
                case 8: write_slices<uint64_t, copy_slice<uint64_t>>(to, from, at, count, shape); break;
                default: write_slices<complex128, copy_slice<complex128>>(to, from, at, count, shape);
            }
        }
    }
    target.store();
}

const RegisterNative registered{
    {"index_select", infer_index_select, index_select_kernel, Takes::Any},
    {"index_add", infer_index_add, index_write_kernel<true>},
    {"index_copy", infer_index_copy, index_write_kernel<false>, Takes::Any},
};

}  // namespace

}  // namespace mt::cpu
