// cumsum and sort: ops that run along one dimension in order.
#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>
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

// An unsigned integer of the same order: equal for the two zeros, and greatest for every NaN.
template <class T>
auto order_key(T x) {
    if constexpr (std::is_floating_point_v<T>) {
        using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
        constexpr U sign = U(1) << (sizeof(T) * 8 - 1);
        if (x != x) return ~U(0);
        U bits = std::bit_cast<U>(x + T(0));
        return bits & sign ? ~bits : bits | sign;
    } else if constexpr (std::is_same_v<T, int64_t>) {
        return static_cast<uint64_t>(x) ^ (uint64_t(1) << 63);
    } else if constexpr (std::is_same_v<T, int32_t>) {
        return static_cast<uint32_t>(x) ^ (uint32_t(1) << 31);
    } else {
        return static_cast<uint32_t>(x);
    }
}

template <class Key, class Index>
struct Item {
    Key key;
    Index index;
    bool operator<(const Item& other) const { return key != other.key ? key < other.key : index < other.index; }
};

// Sorts by key and keeps the order of equal ones: by radix where that pays.
template <class Key, class Index>
void sort_items(Item<Key, Index>* items, Item<Key, Index>* spare, int64_t n) {
    constexpr int bits = 8, passes = static_cast<int>(sizeof(Key)) * 8 / bits;
    constexpr int64_t buckets = 1 << bits;
    if (n < 512) return std::sort(items, items + n);
    Item<Key, Index>*from = items, *to = spare;
    for (int pass = 0; pass < passes; ++pass) {
        int64_t counts[buckets] = {};
        for (int64_t i = 0; i < n; ++i) ++counts[from[i].key >> (pass * bits) & (buckets - 1)];
        if (counts[from[0].key >> (pass * bits) & (buckets - 1)] == n) continue;
        int64_t place = 0;
        for (int64_t& count : counts) place += std::exchange(count, place);
        for (int64_t i = 0; i < n; ++i) to[counts[from[i].key >> (pass * bits) & (buckets - 1)]++] = from[i];
        std::swap(from, to);
    }
    if (from != items) std::copy(from, from + n, items);
}

template <class T, class Index>
void sort_all(T* values, int64_t* indices, const T* in, const Along& shape, bool descending) {
    using Key = decltype(order_key(T()));
    parallel_for(shape.outer * shape.inner, grain_of(shape.n * 16), [&](int64_t begin, int64_t end) {
        std::vector<Item<Key, Index>> items(static_cast<size_t>(shape.n) * 2);
        for (int64_t i = begin; i < end; ++i) {
            int64_t base = i / shape.inner * shape.n * shape.inner + i % shape.inner;
            for (int64_t r = 0; r < shape.n; ++r) {
                Key key = order_key(in[base + r * shape.inner]);
                items[static_cast<size_t>(r)] = {descending ? static_cast<Key>(~key) : key, static_cast<Index>(r)};
            }
            sort_items(items.data(), items.data() + shape.n, shape.n);
            for (int64_t r = 0; r < shape.n; ++r) {
                auto index = static_cast<int64_t>(items[static_cast<size_t>(r)].index);
                values[base + r * shape.inner] = in[base + index * shape.inner];
                indices[base + r * shape.inner] = index;
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
#define MT_SORT(D, T)                                                                                       \
    case DType::D:                                                                                          \
        return sizeof(T) <= 4 && shape.n <= UINT32_MAX                                                      \
                   ? sort_all<T, uint32_t>(static_cast<T*>(values), indices, in.as<T>(), shape, descending) \
                   : sort_all<T, uint64_t>(static_cast<T*>(values), indices, in.as<T>(), shape, descending);
        MT_FOREACH_LOOP_DTYPE(MT_SORT)
#undef MT_SORT
        default: return;
    }
}

const RegisterNative registered{
    {"cumsum", infer_cumsum, cumsum_kernel},
    {"sort", infer_sort, sort_kernel, Takes::Ordered},
};

}  // namespace

}  // namespace mt::cpu
