// cummax and cummin: the extreme of the elements up to each place, and where it stands last.
#include <algorithm>

#include "dispatch/infer/shape/order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/sort/sort.h"

namespace mt::cpu {

namespace {

constexpr int64_t kPiece = 256;

struct Task {
    DType dtype;
    Along shape;
    const char* in;
    char* values;
    int64_t* indices;
    int64_t size;
    // Keys grow towards the extreme; NaN has the greatest.
    bool least;
};

// Keys in the order of greatness: for the minimum turned round, with NaN above all.
template <class Key>
void extreme_keys(Key* keys, const Task& task, const char* data, int64_t count) {
    load_keys(keys, task.dtype, data, 1, count, task.least);
    if (!task.least || !is_floating(task.dtype)) return;
    for (int64_t i = 0; i < count; ++i) keys[i] = keys[i] == 0 ? static_cast<Key>(~Key(0)) : keys[i];
}

// Element is any type of the elements' size.
template <class Key, class Element>
void row(const Task& task, int64_t base) {
    Key keys[kPiece], best = 0;
    int64_t at = 0, *indices = task.indices + base;
    auto* in = reinterpret_cast<const Element*>(task.in) + base;
    auto* values = reinterpret_cast<Element*>(task.values) + base;
    Element value{};
    for (int64_t r = 0; r < task.shape.n; r += kPiece) {
        int64_t count = std::min(kPiece, task.shape.n - r);
        extreme_keys(keys, task, reinterpret_cast<const char*>(in + r), count);
        for (int64_t i = 0; i < count; ++i) {
            if (keys[i] >= best) [[unlikely]] {  // a branch is quicker than a chain of selects
                best = keys[i];
                at = r + i;
                value = in[at];
            }
            indices[r + i] = at;
            values[r + i] = value;
        }
    }
}

template <class Key, class Element>
void columns(const Task& task, int64_t base, int64_t cols) {
    Key keys[kPiece], best[kPiece] = {};
    int64_t at[kPiece] = {}, inner = task.shape.inner;
    Element value[kPiece] = {};
    for (int64_t r = 0; r < task.shape.n; ++r) {
        auto* in = reinterpret_cast<const Element*>(task.in) + base + r * inner;
        auto* values = reinterpret_cast<Element*>(task.values) + base + r * inner;
        int64_t* indices = task.indices + base + r * inner;
        extreme_keys(keys, task, reinterpret_cast<const char*>(in), cols);
        for (int64_t c = 0; c < cols; ++c) {
            bool better = keys[c] >= best[c];
            best[c] = better ? keys[c] : best[c];
            at[c] = better ? r : at[c];
            value[c] = better ? in[c] : value[c];
        }
        std::copy(at, at + cols, indices);
        std::copy(value, value + cols, values);
    }
}

template <class Key, class Element>
void run(const Task& task) {
    const Along& shape = task.shape;
    if (shape.inner == 1) {
        parallel_for(shape.outer, grain_of(shape.n * 2), [&](int64_t begin, int64_t end) {
            for (int64_t o = begin; o < end; ++o) row<Key, Element>(task, o * shape.n);
        });
        return;
    }
    int64_t chunks = (shape.inner + kPiece - 1) / kPiece;
    int64_t cost = shape.n * std::min(shape.inner, kPiece) * 2;
    parallel_for(shape.outer * chunks, grain_of(cost), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t c = i % chunks * kPiece;
            columns<Key, Element>(task, i / chunks * shape.n * shape.inner + c, std::min(kPiece, shape.inner - c));
        }
    });
}

template <bool Least>
void extreme_kernel(Call& call) {
    const Tensor& t = call.in(0);
    if (t.numel == 0) return;
    Packed in(t, t.dtype);
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    Task task{t.dtype,
              Along(t.sizes, dim),
              in.as<char>(),
              call.outputs[0]->ptr<char>(),
              call.outputs[1]->ptr<int64_t>(),
              static_cast<int64_t>(itemsize(t.dtype)),
              Least};
    switch (task.size) {
        case 1: return run<uint32_t, uint8_t>(task);
        case 2: return run<uint32_t, uint16_t>(task);
        case 4: return run<uint32_t, uint32_t>(task);
        default: return run<uint64_t, uint64_t>(task);
    }
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"cummax", infer_cummax, extreme_kernel<false>},
                                    {"cummin", infer_cummin, extreme_kernel<true>},
                                }};

}  // namespace

}  // namespace mt::cpu
