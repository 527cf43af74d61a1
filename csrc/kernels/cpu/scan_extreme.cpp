// cummax and cummin: the extreme of the elements up to each place, and where it stands last.
#include <algorithm>

#include "dispatch/infer_order.h"
#include "dispatch/op.h"
#include "kernels/cpu/index_strided.h"
#include "kernels/cpu/sort.h"

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

template <class Key>
void row(const Task& task, int64_t base) {
    Key keys[kPiece], best = 0;
    int64_t at = 0;
    const char* in = task.in + base * task.size;
    for (int64_t r = 0; r < task.shape.n; r += kPiece) {
        int64_t count = std::min(kPiece, task.shape.n - r);
        extreme_keys(keys, task, in + r * task.size, count);
        for (int64_t i = 0; i < count; ++i) {
            if (keys[i] >= best) {  // rarely, so a branch is quicker than a chain of selects
                best = keys[i];
                at = r + i;
            }
            task.indices[base + r + i] = at;
        }
        for (int64_t i = 0; i < count; ++i)
            copy_element(task.values + (base + r + i) * task.size, in + task.indices[base + r + i] * task.size,
                         task.size);
    }
}

template <class Key>
void columns(const Task& task, int64_t base, int64_t cols) {
    Key keys[kPiece], best[kPiece] = {};
    int64_t at[kPiece] = {}, inner = task.shape.inner;
    for (int64_t r = 0; r < task.shape.n; ++r) {
        extreme_keys(keys, task, task.in + (base + r * inner) * task.size, cols);
        for (int64_t c = 0; c < cols; ++c) {
            bool better = keys[c] >= best[c];
            best[c] = better ? keys[c] : best[c];
            at[c] = better ? r : at[c];
        }
        for (int64_t c = 0; c < cols; ++c) {
            int64_t place = base + r * inner + c;
            task.indices[place] = at[c];
            copy_element(task.values + place * task.size, task.in + (base + at[c] * inner + c) * task.size, task.size);
        }
    }
}

template <class Key>
void run(const Task& task) {
    const Along& shape = task.shape;
    if (shape.inner == 1) {
        parallel_for(shape.outer, grain_of(shape.n * 2), [&](int64_t begin, int64_t end) {
            for (int64_t o = begin; o < end; ++o) row<Key>(task, o * shape.n);
        });
        return;
    }
    int64_t chunks = (shape.inner + kPiece - 1) / kPiece;
    int64_t cost = shape.n * std::min(shape.inner, kPiece) * 2;
    parallel_for(shape.outer * chunks, grain_of(cost), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t c = i % chunks * kPiece;
            columns<Key>(task, i / chunks * shape.n * shape.inner + c, std::min(kPiece, shape.inner - c));
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
    narrow_keys(t.dtype, 1) ? run<uint32_t>(task) : run<uint64_t>(task);
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"cummax", infer_cummax, extreme_kernel<false>},
                                    {"cummin", infer_cummin, extreme_kernel<true>},
                                }};

}  // namespace

}  // namespace mt::cpu
