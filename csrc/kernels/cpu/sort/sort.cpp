// sort: stable, by radix. The result of a stable sort is unique, so it does not depend on how the work is cut.
#include "kernels/cpu/sort/sort.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dispatch/infer/shape/order.h"
#include "dispatch/memory/memory_order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"

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
    interruptible_for(0, n, [&](int64_t i) {
        auto key = key_of(from[i]);
        for (int pass = 0; pass < passes; ++pass) ++counts[pass][key >> (pass * Bits) & (buckets - 1)];
    });
    for (int pass = 0; pass < passes; ++pass) {
        uint32_t* count = counts[pass];
        int shift = pass * Bits;
        if (count[key_of(from[0]) >> shift & (buckets - 1)] == n) continue;
        uint32_t place = 0;
        for (int64_t b = 0; b < buckets; ++b) place += std::exchange(count[b], place);
        interruptible_for(0, n, [&](int64_t i) { spare[count[key_of(from[i]) >> shift & (buckets - 1)]++] = from[i]; });
        std::swap(from, spare);
    }
    return from;
}

// One long row, of which every thread counts and moves a part. `Items` tells where the keys are, in which of two
// places.
template <class Items>
void parallel_radix_sort(Items& items, int64_t n, int key_bits) {
    constexpr int Bits = kMaxBits;
    constexpr int64_t buckets = int64_t(1) << Bits;
    int64_t parts = std::clamp<int64_t>(num_threads(), 1, kMaxParts), length = (n + parts - 1) / parts;
    Scratch memory(static_cast<size_t>(parts * buckets) * sizeof(int64_t));
    auto* places = memory.as<int64_t>();
    auto each = [&](auto&& body) {  // body(part, begin, end)
        check_interrupt();
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t part = begin; part < end; ++part) body(part, part * length, std::min(n, (part + 1) * length));
        });
    };
    // Digits that are the same everywhere need no pass.
    uint64_t different[kMaxParts] = {}, varies = 0;
    each([&](int64_t part, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) different[part] |= items.key(i) ^ items.key(0);
    });
    for (int64_t part = 0; part < parts; ++part) varies |= different[part];
    for (int shift = 0; shift < key_bits; shift += Bits) {
        if (!(varies >> shift & (buckets - 1))) continue;
        each([&](int64_t part, int64_t begin, int64_t end) {
            uint32_t count[buckets] = {};
            interruptible_for(begin, end, [&](int64_t i) { ++count[items.key(i) >> shift & (buckets - 1)]; });
            std::copy(count, count + buckets, places + part * buckets);
        });
        int64_t place = 0;
        for (int64_t b = 0; b < buckets; ++b)
            for (int64_t part = 0; part < parts; ++part) place += std::exchange(places[part * buckets + b], place);
        each([&](int64_t part, int64_t begin, int64_t end) {
            int64_t* to = places + part * buckets;
            interruptible_for(begin, end,
                              [&](int64_t i) { items.move(i, to[items.key(i) >> shift & (buckets - 1)]++); });
        });
        items.swap();
    }
}

// Keys and indices together.
template <class Item>
struct Joined {
    Item *from, *spare;
    auto key(int64_t i) const { return key_of(from[i]); }
    void move(int64_t i, int64_t place) { spare[place] = from[i]; }
    void swap() { std::swap(from, spare); }
};

// Wide keys apart from their indices, which takes less memory.
struct Apart {
    uint64_t *from, *spare;
    uint32_t *index, *spare_index;
    uint64_t key(int64_t i) const { return from[i]; }
    void move(int64_t i, int64_t place) {
        spare[place] = from[i];
        spare_index[place] = index[i];
    }
    void swap() {
        std::swap(from, spare);
        std::swap(index, spare_index);
    }
};

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
    Joined<Item> joined{items, spare};
    parallel_radix_sort(joined, n, task.key_bits);
    Item* sorted = joined.from;
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

// The element with a key; `original` where several elements have it.
uint64_t element_of(uint64_t key, DType dtype, uint64_t original) {
    constexpr uint64_t sign = uint64_t(1) << 63;
    if (dtype == DType::U64) return key;
    if (dtype == DType::I64) return key ^ sign;
    return key == sign || key == UINT64_MAX ? original : key & sign ? key ^ sign : ~key;
}

// A long contiguous row of elements of 8 bytes, sorted in the memory of its results and as much again as its values.
void long_wide_row(const Task& task, int64_t base) {
    int64_t n = task.shape.n;
    auto* in = reinterpret_cast<const uint64_t*>(task.in) + base;
    auto* values = reinterpret_cast<uint64_t*>(task.values) + base;
    int64_t* indices = task.indices + base;
    Scratch memory(static_cast<size_t>(n) * sizeof(uint64_t));
    auto* halves = reinterpret_cast<uint32_t*>(indices);
    Apart apart{values, memory.as<uint64_t>(), halves, halves + n};
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        load_keys(values + begin, task.dtype, in + begin, 1, end - begin, task.descending);
        for (int64_t i = begin; i < end; ++i) halves[i] = static_cast<uint32_t>(i);
    });
    parallel_radix_sort(apart, n, task.key_bits);
    uint64_t flip = task.descending ? ~uint64_t(0) : 0;
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            values[i] = element_of(apart.from[i] ^ flip, task.dtype, in[apart.index[i]]);
    });
    // Widened where they are: from the end if they are the first half, which is written over last.
    auto widen = [&](int64_t i) {
        uint32_t index;
        std::memcpy(&index, reinterpret_cast<const char*>(apart.index) + i * 4, sizeof index);
        auto wide = static_cast<int64_t>(index);
        std::memcpy(reinterpret_cast<char*>(indices) + i * 8, &wide, sizeof wide);
    };
    if (apart.index == halves)
        for (int64_t i = n; i-- > 0;) widen(i);
    else
        for (int64_t i = 0; i < n; ++i) widen(i);
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
        bool wide = task.size == 8 && shape.inner == 1 && shape.n <= UINT32_MAX;
        for (int64_t i = 0; i < shape.rows(); ++i)
            wide ? long_wide_row(task, shape.base(i)) : long_row<Key>(task, shape.base(i));
        return;
    }
    using Item = ItemOf<Key>;
    parallel_for(shape.rows(), grain_of(shape.n * 16), [&](int64_t begin, int64_t end) {
        Scratch memory(static_cast<size_t>(shape.n) * (2 * sizeof(Item) + sizeof(Key)));
        Item* items = memory.as<Item>();
        Key* keys = reinterpret_cast<Key*>(items + 2 * shape.n);
        for (int64_t i = begin; i < end; ++i) {
            if (shape.n > kWideDigits) check_interrupt();
            short_row<Key>(task, shape.base(i), keys, items, items + shape.n);
        }
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

const RegisterOrder ordered{Order::Kept, {"sort"}};
const RegisterNative registered{Takes::Any, {{"sort", infer_sort, sort_kernel}}};

}  // namespace

}  // namespace mt::cpu
