// gather and scatter_add.
#include "dispatch/infer_index.h"
#include "dispatch/op.h"
#include "kernels/cpu/index_bounds.h"

namespace mt::cpu {

namespace {

// Walks the places of an index tensor, row by row of its last dimension, with the element of `t` that each belongs to
// when its index is 0.
struct Walk {
    int64_t rows = 1, length = 1;
    int64_t step = 0;   // of t's elements along the last dimension; 0 if that is the indexed one
    int64_t along = 0;  // of t's elements along the indexed dimension
    size_t rank;
    const Dims& sizes;
    Dims strides;  // of t, 0 for the indexed dimension

    Walk(const Dims& sizes, const Dims& t_strides, size_t dim) : rank(sizes.size()), sizes(sizes), strides(t_strides) {
        if (!rank) return;
        strides.resize(rank);  // a 0-d tensor has none
        along = strides[dim];
        strides[dim] = 0;
        length = sizes[rank - 1];
        step = strides[rank - 1];
        for (size_t d = 0; d + 1 < rank; ++d) rows *= sizes[d];
    }
    int64_t base(int64_t row) const {
        int64_t offset = 0;
        for (size_t d = rank < 2 ? 0 : rank - 1; d-- > 0;) {
            offset += row % sizes[d] * strides[d];
            row /= sizes[d];
        }
        return offset;
    }
};

template <class T>
void gather(T* out, const T* in, const int64_t* index, const Walk& walk) {
    parallel_for(walk.rows, grain_of(walk.length), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            const T* from = in + walk.base(row);
            for (int64_t i = row * walk.length, k = 0; k < walk.length; ++k, ++i)
                out[i] = from[k * walk.step + index[i] * walk.along];
        }
    });
}

void gather_kernel(Call& call) {
    const Tensor &t = call.in(0), &index = call.in(1);
    Tensor& out = *call.outputs[0];
    if (index.numel == 0) return;
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    Packed indices(index, DType::I64);
    const auto* at = indices.as<int64_t>();
    check_bounds(at, index.numel, 0, t.ndim() ? t.sizes[dim] : 1, static_cast<int64_t>(dim), ErrorKind::Runtime);
    Walk walk(index.sizes, t.strides, dim);
    ContiguousOut target(out, t.dtype);
    switch (itemsize(t.dtype)) {
        case 1: gather(target.as<uint8_t>(), t.ptr<uint8_t>(), at, walk); break;
        case 2: gather(target.as<uint16_t>(), t.ptr<uint16_t>(), at, walk); break;
        case 4: gather(target.as<uint32_t>(), t.ptr<uint32_t>(), at, walk); break;
        case 8: gather(target.as<uint64_t>(), t.ptr<uint64_t>(), at, walk); break;
        default: gather(target.as<complex128>(), t.ptr<complex128>(), at, walk);
    }
    target.store();
}

// In the order of the index tensor, so that the sums are the same on any number of threads.
template <class T>
void scatter_add(T* out, const T* src, const int64_t* index, const Walk& to, const Walk& from) {
    for (int64_t row = 0; row < to.rows; ++row) {
        T* base = out + to.base(row);
        const T* values = src + from.base(row);
        for (int64_t i = row * to.length, k = 0; k < to.length; ++k, ++i) {
            T& element = base[k * to.step + index[i] * to.along];
            if constexpr (__is_same(T, bool)) element = element | values[k * from.step];
            else element = static_cast<T>(element + values[k * from.step]);
        }
    }
}

void scatter_add_kernel(Call& call) {
    const Tensor &t = call.in(0), &index = call.in(1), &src = call.in(2);
    Tensor& out = *call.outputs[0];
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    Packed indices(index, DType::I64, shares_memory(index, out));
    const auto* at = indices.as<int64_t>();
    check_bounds(at, index.numel, 0, t.ndim() ? t.sizes[dim] : 1, static_cast<int64_t>(dim), ErrorKind::Runtime);
    Packed values(src, t.dtype, shares_memory(src, out));
    ContiguousOut target(out, t.dtype);
    if (target.data() != t.data()) pack(target.data(), t.dtype, t);
    if (index.numel) {
        // Both are contiguous now; src is indexed by the places of `index` alone.
        Dims out_strides = contiguous_strides(t.sizes), src_strides = contiguous_strides(src.sizes);
        src_strides.resize(index.ndim());
        Walk to(index.sizes, out_strides, dim), from(index.sizes, src_strides, dim);
        from.strides = src_strides;
        from.step = index.ndim() ? src_strides.back() : 0;
        switch (t.dtype) {
            // Signed sums wrap around.
            case DType::Bool: scatter_add(target.as<bool>(), values.as<bool>(), at, to, from); break;
            case DType::U8: scatter_add(target.as<uint8_t>(), values.as<uint8_t>(), at, to, from); break;
            case DType::I32: scatter_add(target.as<uint32_t>(), values.as<uint32_t>(), at, to, from); break;
            case DType::I64: scatter_add(target.as<uint64_t>(), values.as<uint64_t>(), at, to, from); break;
            case DType::F32: scatter_add(target.as<float>(), values.as<float>(), at, to, from); break;
            default: scatter_add(target.as<double>(), values.as<double>(), at, to, from);
        }
    }
    target.store();
}

const RegisterNative registered{
    {"gather", infer_gather, gather_kernel, Takes::Any},
    {"scatter_add", infer_scatter_add, scatter_add_kernel},
};

}  // namespace

}  // namespace mt::cpu
