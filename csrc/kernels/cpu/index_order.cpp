// cumsum and sort: ops that run along one dimension in order.
#include <algorithm>
#include <vector>

#include "dispatch/infer_index.h"
#include "dispatch/op.h"
#include "kernels/cpu/index_strided.h"

namespace mt::cpu {

namespace {

// [outer, n, inner] around a dimension.
struct Along {
    int64_t outer = 1, n = 1, inner = 1;
    Along(const Dims& sizes, size_t dim) {
        for (size_t d = 0; d < dim; ++d) outer *= sizes[d];
        if (!sizes.empty()) n = sizes[dim];
        for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
    }
};

// Each element becomes the sum of those up to it, added one after the other.
template <class T>
void accumulate(T* data, const Along& shape) {
    parallel_for(shape.outer, grain_of(shape.n * shape.inner), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
            T* row = data + o * shape.n * shape.inner;
            if (shape.inner == 1) {
                T sum = row[0];
                for (int64_t r = 1; r < shape.n; ++r) {
                    if constexpr (__is_same(T, bool)) sum = sum | row[r];
                    else sum = static_cast<T>(sum + row[r]);
                    row[r] = sum;
                }
                continue;
            }
            for (int64_t r = 1; r < shape.n; ++r, row += shape.inner)
                for (int64_t c = 0; c < shape.inner; ++c) {
                    T& element = row[shape.inner + c];
                    if constexpr (__is_same(T, bool)) element = element | row[c];
                    else element = static_cast<T>(row[c] + element);
                }
        }
    });
}

void cumsum_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    DType dtype = is_floating(t.dtype) ? t.dtype : DType::I64;
    if (call.param_count > 1 && !call.param(1).is_none()) dtype = call.param(1).dtype;
    ContiguousOut target(out, dtype);
    if (target.data() != t.data()) pack(target.data(), dtype, t);
    Along shape(t.sizes, static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim())));
    switch (dtype) {
        // Signed sums wrap around.
        case DType::Bool: accumulate(target.as<bool>(), shape); break;
        case DType::U8: accumulate(target.as<uint8_t>(), shape); break;
        case DType::I32: accumulate(target.as<uint32_t>(), shape); break;
        case DType::I64: accumulate(target.as<uint64_t>(), shape); break;
        case DType::F32: accumulate(target.as<float>(), shape); break;
        default: accumulate(target.as<double>(), shape);
    }
    target.store();
}

template <class T>
struct Item {
    T value;
    int64_t index;
};

// NaN is the largest; equal elements keep their order.
template <class T, bool Descending>
struct Before {
    bool operator()(const Item<T>& a, const Item<T>& b) const {
        if (Descending) return a.value > b.value || (a.value != a.value && b.value == b.value);
        return a.value < b.value || (b.value != b.value && a.value == a.value);
    }
};

template <class T>
void sort_all(T* values, int64_t* indices, const T* in, const Along& shape, bool descending) {
    parallel_for(shape.outer * shape.inner, grain_of(shape.n * 16), [&](int64_t begin, int64_t end) {
        std::vector<Item<T>> items(static_cast<size_t>(shape.n));
        for (int64_t i = begin; i < end; ++i) {
            int64_t base = i / shape.inner * shape.n * shape.inner + i % shape.inner;
            for (int64_t r = 0; r < shape.n; ++r) items[static_cast<size_t>(r)] = {in[base + r * shape.inner], r};
            if (descending)
                std::stable_sort(items.begin(), items.end(), Before<T, true>());
            else
                std::stable_sort(items.begin(), items.end(), Before<T, false>());
            for (int64_t r = 0; r < shape.n; ++r) {
                values[base + r * shape.inner] = items[static_cast<size_t>(r)].value;
                indices[base + r * shape.inner] = items[static_cast<size_t>(r)].index;
            }
        }
    });
}

void sort_kernel(Call& call) {
    const Tensor& t = call.in(0);
    if (t.numel == 0) return;
    Packed in(t, t.dtype);
    Along shape(t.sizes, static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim())));
    bool descending = call.param_count > 1 && call.param(1).as_bool();
    void* values = call.outputs[0]->data();
    auto* indices = call.outputs[1]->ptr<int64_t>();
    switch (t.dtype) {
#define MT_SORT(D, T) \
    case DType::D: return sort_all(static_cast<T*>(values), indices, in.as<T>(), shape, descending);
        MT_FOREACH_DTYPE(MT_SORT)
#undef MT_SORT
        default: return;
    }
}

const RegisterNative registered{
    {"cumsum", infer_cumsum, cumsum_kernel},
    {"sort", infer_sort, sort_kernel},
};

}  // namespace

}  // namespace mt::cpu
