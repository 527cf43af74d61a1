// argmax, argmin, and max and min along a dimension with their indices.
#include <algorithm>
#include <cstring>

#include "dispatch/infer/reduction.h"
#include "dispatch/op.h"
#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cpu/reduce/step.h"

namespace mt::cpu {

namespace {

constexpr int64_t kTileRows = 16, kTileCols = 1024, kPiece = 1 << 16;

struct Task {
    const ArgLoops& loops;
    const ReduceStep& step;
    int64_t* index;
    int64_t size;  // of an element and of a key
};

// Rows row .. row + count lie `stride` apart and are contiguous.
void direct_rows(const Task& task) {
    const ReduceStep& step = task.step;
    if (step.n > kPiece && step.outer < num_threads()) {
        int64_t pieces = ceil_div(step.n, kPiece);
        Scratch memory(static_cast<size_t>(pieces) * 16);
        auto* keys = memory.as<char>() + pieces * 8;
        auto* at = memory.as<int64_t>();
        for (int64_t o = 0; o < step.outer; ++o) {
            const char* data = step.at(o);
            parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i)
                    task.loops.rows(keys + i * 8, at + i, data + i * kPiece * task.size, 1, 0,
                                    std::min(kPiece, step.n - i * kPiece));
            });
            int64_t best = 0;
            for (int64_t i = 1; i < pieces; ++i)
                if (task.loops.better(keys + i * 8, keys + best * 8)) best = i;
            task.index[o] = best * kPiece + at[best];
        }
        return;
    }
    parallel_for(step.outer, grain_of(step.n), [&](int64_t begin, int64_t end) {
        uint64_t keys[256];
        for (int64_t i = begin; i < end;) {
            int64_t count = step.regular() ? std::min<int64_t>(256, end - i) : 1;
            task.loops.rows(keys, task.index + i, step.at(i), count, step.stride(), step.n);
            i += count;
        }
    });
}

void indirect_rows(const Task& task) {
    const ReduceStep& step = task.step;
    int64_t last = step.outer_dims ? step.outer_size[step.outer_dims - 1] : 1;
    int64_t row_stride = step.outer_dims ? step.outer_stride[step.outer_dims - 1] : 0;
    int64_t groups = ceil_div(last, kTileRows);
    auto size = static_cast<int64_t>(itemsize(step.dtype));
    parallel_for(step.outer / last * groups, grain_of(kTileRows * step.n), [&](int64_t begin, int64_t end) {
        Scratch tile(kTileRows * kTileCols * 8);
        uint64_t best[kTileRows], keys[kTileRows];
        int64_t at[kTileRows];
        for (int64_t i = begin; i < end; ++i) {
            int64_t row = i / groups * last + i % groups * kTileRows;
            int64_t count = std::min(kTileRows, last - i % groups * kTileRows);
            const char* data = step.at(row);
            for (int64_t r = 0; r < step.n; r += kTileCols) {
                int64_t length = std::min(step.n - r, kTileCols);
                load_tile(tile.data(), step.dtype, data + r * step.n_stride * size, step.dtype, count, row_stride,
                          length, step.n_stride, nullptr);
                task.loops.rows(keys, at, tile.data(), count, length, length);
                for (int64_t k = 0; k < count; ++k) {
                    const char* key = reinterpret_cast<const char*>(keys) + k * task.size;
                    if (r && !task.loops.better(key, best + k)) continue;
                    std::memcpy(best + k, key, static_cast<size_t>(task.size));
                    task.index[row + k] = r + at[k];
                }
            }
        }
    });
}

void columns(const Task& task) {
    const ReduceStep& step = task.step;
    constexpr int64_t chunk = 256, tile_rows = 64;
    int64_t chunks = ceil_div(step.inner, chunk);
    parallel_for(step.outer * chunks, grain_of(step.n * std::min(step.inner, chunk)), [&](int64_t begin, int64_t end) {
        uint64_t keys[chunk];
        bool direct = step.inner_stride == 1;
        Scratch tile(direct ? 0 : chunk * tile_rows * 8);
        for (int64_t i = begin; i < end; ++i) {
            int64_t o = i / chunks, c0 = i % chunks * chunk, cols = std::min(chunk, step.inner - c0);
            const char* data = step.at(o) + c0 * step.inner_stride * task.size;
            int64_t* index = task.index + o * step.inner + c0;
            if (direct) {
                task.loops.columns(keys, index, data, 0, step.n, step.n_stride, cols);
                continue;
            }
            for (int64_t r = 0; r < step.n; r += tile_rows) {
                int64_t rows = std::min(tile_rows, step.n - r);
                load_tile(tile.data(), step.dtype, data + r * step.n_stride * task.size, step.dtype, rows,
                          step.n_stride, cols, step.inner_stride, nullptr);
                task.loops.columns(keys, index, tile.data(), r, rows, cols, cols);
            }
        }
    });
}

// index[...] of the first extreme element over the dimensions of `mask`, which are one group.
void arg_reduce(int64_t* index, int64_t count, const Tensor& t, uint64_t mask, bool max) {
    ReduceDims dims(t.sizes, t.strides, mask);
    if (!dims.any_reduced()) {
        std::memset(index, 0, static_cast<size_t>(count) * sizeof(int64_t));
        return;
    }
    const ArgLoops& loops = reductions().arg[max ? 0 : 1][dtype_index(t.dtype)];
    ReduceStep step;
    step.dtype = loops.in;
    step.data = static_cast<const char*>(t.data());
    Scratch packed;
    if (t.dtype != step.dtype || !dims.take_step(step)) {
        void* copy = packed.reserve(static_cast<size_t>(t.numel) * itemsize(step.dtype));
        pack(copy, step.dtype, t);
        step.data = static_cast<const char*>(copy);
        dims = ReduceDims(t.sizes, contiguous_strides(t.sizes), mask);
        dims.take_step(step);
    }
    Task task{loops, step, index, static_cast<int64_t>(itemsize(step.dtype))};
    if (step.inner > 1) columns(task);
    else if (step.n_stride == 1) direct_rows(task);
    else indirect_rows(task);
}

template <bool Max>
void arg_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    arg_reduce(out.ptr<int64_t>(), out.numel, t, reduced_dims(call.param(0), t.ndim()), Max);
}

template <class T>
void take_values(T* out, const int64_t* index, const Tensor& t, size_t dim, int64_t count) {
    const T* p = t.ptr<T>();
    int64_t along = t.ndim() ? t.strides[dim] : 0;
    for (int64_t i = 0; i < count; ++i) {
        int64_t offset = index[i] * along, rest = i;
        for (size_t d = t.ndim(); d-- > 0;) {
            if (d == dim) continue;
            offset += rest % t.sizes[d] * t.strides[d];
            rest /= t.sizes[d];
        }
        out[i] = p[offset];
    }
}

template <bool Max>
void extreme_dim_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor &values = *call.outputs[0], &indices = *call.outputs[1];
    if (values.numel == 0) return;
    auto dim = static_cast<size_t>(normalize_dim(call.param(0).as_int(), t.ndim()));
    auto* index = indices.ptr<int64_t>();
    arg_reduce(index, indices.numel, t, uint64_t(1) << dim, Max);
    switch (itemsize(t.dtype)) {
        case 1: return take_values(values.ptr<uint8_t>(), index, t, dim, values.numel);
        case 2: return take_values(values.ptr<uint16_t>(), index, t, dim, values.numel);
        case 4: return take_values(values.ptr<uint32_t>(), index, t, dim, values.numel);
        default: return take_values(values.ptr<uint64_t>(), index, t, dim, values.numel);
    }
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"argmax", infer_argmax, arg_kernel<true>},
                                    {"argmin", infer_argmin, arg_kernel<false>},
                                    {"max_dim", infer_max_dim, extreme_dim_kernel<true>},
                                    {"min_dim", infer_min_dim, extreme_dim_kernel<false>},
                                }};

}  // namespace

}  // namespace mt::cpu
