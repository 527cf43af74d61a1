// Order along one dimension, over keys: unsigned integers in the order of the elements. With them every dtype is sorted
// by two kinds of loops.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/process/interrupt.h"
#include "core/tensor.h"

namespace mt::cpu {

// [outer, n, inner] around a dimension of a contiguous tensor.
struct Along {
    int64_t outer = 1, n = 1, inner = 1;
    Along(const Dims& sizes, size_t dim) {
        for (size_t d = 0; d < dim; ++d) outer *= sizes[d];
        if (!sizes.empty()) n = sizes[dim];
        for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
    }
    int64_t rows() const { return outer * inner; }
    // The first element of row i; its elements are `inner` apart.
    int64_t base(int64_t i) const { return i / inner * n * inner + i % inner; }
};

// An element's place in the order, with the element's index: less means earlier, equal keys keep their order.
struct WideItem {
    uint64_t key;
    int64_t index;
    bool operator<(const WideItem& other) const { return key != other.key ? key < other.key : index < other.index; }
};
// Elements of at most 4 bytes: both halves in one number.
using NarrowItem = uint64_t;

inline NarrowItem make_item(uint32_t key, int64_t index) {
    return static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(index);
}
inline WideItem make_item(uint64_t key, int64_t index) { return {key, index}; }
inline int64_t index_of(NarrowItem item) { return static_cast<int64_t>(item & 0xFFFFFFFF); }
inline int64_t index_of(const WideItem& item) { return item.index; }
inline uint32_t key_of(NarrowItem item) { return static_cast<uint32_t>(item >> 32); }
inline uint64_t key_of(const WideItem& item) { return item.key; }

template <class Key>
struct ItemFor;
template <>
struct ItemFor<uint32_t> {
    using type = NarrowItem;
};
template <>
struct ItemFor<uint64_t> {
    using type = WideItem;
};
template <class Key>
using ItemOf = typename ItemFor<Key>::type;

// Whether elements of `dtype` have keys of 32 bits. Rows of 2^32 elements and more need wide keys all the same.
inline bool narrow_keys(DType dtype, int64_t n) { return itemsize(dtype) <= 4 && n <= UINT32_MAX; }

// keys[i] for the element at data[i * stride], of n. The two zeros are equal and every NaN is greatest; with
// `descending` the order is turned round. Key is uint32_t or uint64_t.
template <class Key>
void load_keys(Key* keys, DType dtype, const void* data, int64_t stride, int64_t n, bool descending);

// The key that every NaN has; for dtypes without NaN, one that no element needs to be compared with.
template <class Key>
Key nan_key(DType dtype, bool descending);

// Elements between two questions whether the computation is to end: some milliseconds of work.
inline constexpr int64_t kAsk = 1 << 20;

// body(i) for begin <= i < end, which Ctrl-C ends if it is long.
template <class F>
void interruptible_for(int64_t begin, int64_t end, F&& body) {
    for (; end - begin > kAsk; begin += kAsk) {
        for (int64_t i = begin; i < begin + kAsk; ++i) body(i);
        check_interrupt();
    }
    for (; begin < end; ++begin) body(begin);
}

// A comparison for the standard library's sorts of much, which Ctrl-C ends. The library copies it, so it counts
// elsewhere.
template <class Less>
auto interruptible(int64_t& count, Less less) {
    return [&count, less](const auto& a, const auto& b) {
        if (__builtin_expect((++count & (kAsk - 1)) == 0, 0)) check_interrupt();
        return less(a, b);
    };
}

// dst[i * dst_stride] = src[index * src_stride], elements of `size` bytes.
inline void copy_element(void* dst, const void* src, int64_t size) {
    switch (size) {
        case 1: *static_cast<uint8_t*>(dst) = *static_cast<const uint8_t*>(src); break;
        case 2: *static_cast<uint16_t*>(dst) = *static_cast<const uint16_t*>(src); break;
        case 4: *static_cast<uint32_t*>(dst) = *static_cast<const uint32_t*>(src); break;
        default: *static_cast<uint64_t*>(dst) = *static_cast<const uint64_t*>(src);
    }
}

}  // namespace mt::cpu
