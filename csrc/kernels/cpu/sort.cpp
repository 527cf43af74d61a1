// sort: stable, by radix. The result of a stable sort is unique, so it does not depend on how the work is cut.
#include "kernels/cpu/sort.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dispatch/infer_order.h"
#include "dispatch/op.h"
#include "kernels/cpu/index_strided.h"

namespace mt::cpu {

namespace {

constexpr int64_t kSmall = 96;           // shorter rows are sorted by comparing
constexpr int64_t kWideDigits = 1 << 15;  // longer rows take more bits at a time
constexpr int64_t kParallel = 1 << 17;   // longer rows are sorted by all threads together
constexpr int kMaxBits = 11, kMaxParts = 64;

// Every row has n elements: `from` and `spare` have room for as many items. Returns the one that has the sorted ones.
// Digits of `Bits` bits of the lowest `key_bits`, the last one first.
template <class Item, int Bits>
Item* radix_sort(Item* from, Item* spare, int64_t n, int key_bits) {
    constexpr int64_t buckets = int64_t(1) << Bits;
    constexpr int most = (static_cast<int>(sizeof(key_of(Item()))) * 8 + Bits - 1) / Bits;
    int passes = (key_bits + Bits - 1) / Bits;
    uint32_t counts[most][buckets];
    std::memset(counts, 0, sizeof(counts[0]) * static_cast<size_t>(passes));
    for (int64_t i = 0; i < n; ++i) {
        auto key = key_of(from[i]);
        for (int pass = 0; pass < passes; ++pass) ++counts[pass][key >> (pass * Bits) & (buckets - 1)];
    }
    for (int pass = 0; pass < passes; ++pass) {
        uint32_t* count = counts[pass];
        int shift = pass * Bits;
        if (count[key_of(from[0]) >> shift & (buckets - 1)] == n) continue;
        uint32_t place = 0;
        for (int64_t b = 0; b < buckets; ++b) place += std::exchange(count[b], place);
        for (int64_t i = 0; i < n; ++i) spare[count[key_of(from[i]) >> shift & (buckets - 1)]++] = from[i];
        std::swap(from, spare);
    }
    return from;
}

// The same for one long row: every thread counts and moves a part of it.
template <class Item>
Item* parallel_radix_sort(Item* from, Item* spare, int64_t n, int key_bits) {
    constexpr int Bits = kMaxBits;
    constexpr int64_t buckets = int64_t(1) << Bits;
    int64_t parts = std::clamp<int64_t>(num_threads(), 1, kMaxParts), length = (n + parts - 1) / parts;
    Scratch memory(static_cast<size_t>(parts * buckets) * sizeof(int64_t));
    auto* places = memory.as<int64_t>();
    for (int shift = 0; shift < key_bits; shift += Bits) {
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t part = begin; part < end; ++part) {
                uint32_t count[buckets] = {};
                for (int64_t i = part * length; i < std::min(n, (part + 1) * length); ++i)
                    ++count[key_of(from[i]) >> shift & (buckets - 1)];
                std::copy(count, count + buckets, places + part * buckets);
            }
        });
        int64_t place = 0;
        bool moves = true;
        for (int64_t b = 0; b < buckets; ++b) {
            int64_t before = place;
            for (int64_t part = 0; part < parts; ++part) place += std::exchange(places[part * buckets + b], place);
            moves &= place - before != n;
        }
        if (!moves) continue;
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t part = begin; part < end; ++part) {
                int64_t* to = places + part * buckets;
                for (int64_t i = part * length; i < std::min(n, (part + 1) * length); ++i)
                    spare[to[key_of(from[i]) >> shift & (buckets - 1)]++] = from[i];
            }
        });
        std::swap(from, spare);
    }
    return from;
}

struct Task {
    DType dtype;
    Along shape;
    bool descending;
    const char* in;
    char* values;
    int64_t* indices;
    int64_t size;
    int key_bits;
};

// Items begin .. end of the row in their order to the results. `items` may be the memory of the row's indices.
template <class Item>
void store_row(const Task& task, int64_t base, const Item* items, int64_t begin, int64_t end) {
    int64_t inner = task.shape.inner;
    for (int64_t r = begin; r < end; ++r) {
        int64_t index = index_of(items[r]);
        copy_element(task.values + (base + r * inner) * task.size, task.in + (base + index * inner) * task.size,
                     task.size);
        task.indices[base + r * inner] = index;
    }
}

// float32, whose elements are their keys' except for zeros and NaN: without a second look at the row.
void store_float_row(const Task& task, const NarrowItem* items, int64_t begin, int64_t end) {
    constexpr uint32_t sign = 0x80000000;
    auto* in = reinterpret_cast<const uint32_t*>(task.in);
    auto* values = reinterpret_cast<uint32_t*>(task.values);
    for (int64_t r = begin; r < end; ++r) {
        NarrowItem item = items[r];
        uint32_t key = task.descending ? ~key_of(item) : key_of(item);
        int64_t index = index_of(item);
        values[r] = key == sign || key == UINT32_MAX ? in[index] : key & sign ? key ^ sign : ~key;
        task.indices[r] = index;
    }
}

template <class Key>
void long_row(const Task& task, int64_t base) {
    using Item = ItemOf<Key>;
    int64_t n = task.shape.n, inner = task.shape.inner;
    // Narrow items of a whole contiguous row are built where its indices will be.
    bool in_place = sizeof(Item) == sizeof(int64_t) && inner == 1;
    Scratch memory(static_cast<size_t>(n) * sizeof(Item) * (in_place ? 1 : 2));
    Item* spare = memory.as<Item>();
    Item* items = in_place ? reinterpret_cast<Item*>(task.indices + base) : spare + n;
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        Key keys[1024];
        for (int64_t r = begin; r < end; r += 1024) {
            int64_t count = std::min<int64_t>(1024, end - r);
            load_keys(keys, task.dtype, task.in + (base + r * inner) * task.size, inner, count, task.descending);
            for (int64_t i = 0; i < count; ++i) items[r + i] = make_item(keys[i], r + i);
        }
    });
    Item* sorted = parallel_radix_sort(items, spare, n, task.key_bits);
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        if constexpr (sizeof(Key) == 4) {
            if (task.dtype == DType::F32 && inner == 1) {
                Task row = task;
                row.in += base * task.size;
                row.values += base * task.size;
                row.indices += base;
                return store_float_row(row, sorted, begin, end);
            }
        }
        store_row(task, base, sorted, begin, end);
    });
}

template <class Key>
void short_row(const Task& task, int64_t base, Key* keys, ItemOf<Key>* items, ItemOf<Key>* spare) {
    int64_t n = task.shape.n, inner = task.shape.inner;
    load_keys(keys, task.dtype, task.in + base * task.size, inner, n, task.descending);
    for (int64_t r = 0; r < n; ++r) items[r] = make_item(keys[r], r);
    ItemOf<Key>* sorted = items;
    if (n <= kSmall) std::sort(items, items + n);
    else if (n <= kWideDigits) sorted = radix_sort<ItemOf<Key>, 8>(items, spare, n, task.key_bits);
    else sorted = radix_sort<ItemOf<Key>, kMaxBits>(items, spare, n, task.key_bits);
    store_row(task, base, sorted, 0, n);
}

template <class Key>
void sort_rows(const Task& task) {
    const Along& shape = task.shape;
    if (shape.n >= kParallel && shape.rows() < 2 * num_threads()) {
        for (int64_t i = 0; i < shape.rows(); ++i) long_row<Key>(task, shape.base(i));
        return;
    }
    using Item = ItemOf<Key>;
    parallel_for(shape.rows(), grain_of(shape.n * 16), [&](int64_t begin, int64_t end) {
        Scratch memory(static_cast<size_t>(shape.n) * (2 * sizeof(Item) + sizeof(Key)));
        Item* items = memory.as<Item>();
        Key* keys = reinterpret_cast<Key*>(items + 2 * shape.n);
        for (int64_t i = begin; i < end; ++i) short_row<Key>(task, shape.base(i), keys, items, items + shape.n);
    });
}

void sort_kernel(Call& call) {
    const Tensor& t = call.in(0);
    if (t.numel == 0) return;
    Packed in(t, t.dtype);
    Along shape(t.sizes, static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim())));
    auto size = static_cast<int64_t>(itemsize(t.dtype));
    Task task{t.dtype,
              shape,
              call.param_count > 1 && call.param(1).as_bool(),
              in.as<char>(),
              call.outputs[0]->ptr<char>(),
              call.outputs[1]->ptr<int64_t>(),
              size,
              t.dtype == DType::Bool ? 8 : static_cast<int>(size) * 8};
    narrow_keys(t.dtype, shape.n) ? sort_rows<uint32_t>(task) : sort_rows<uint64_t>(task);
}

const RegisterNative registered{Takes::Any, {{"sort", infer_sort, sort_kernel}}};

}  // namespace

}  // namespace mt::cpu
