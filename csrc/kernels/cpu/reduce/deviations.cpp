// The sums of squared deviations behind var and std, in the order of the sums.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/reduce/reduce.h"
#include "kernels/cpu/reduce/step.h"

namespace mt::cpu {

namespace {

constexpr int64_t kColumns = 1024, kGathered = 64;

// A first step [outer, n, inner] with the mean of every result.
struct Task {
    const DeviationLoops& loops;
    const ReduceLoops& sums;
    const ReduceStep& step;
    const char* mean;
    int64_t mean_stride[kMaxDims];  // of the outer dimensions; 0 for those that are reduced later
    char* out;
    int64_t size;

    const char* mean_of(int64_t outer) const {
        int64_t offset = 0;
        for (size_t d = step.outer_dims; d-- > 0;) {
            offset += outer % step.outer_size[d] * mean_stride[d];
            outer /= step.outer_size[d];
        }
        return mean + offset * size;
    }
};

// parts is [blocks, results]: the blocks' sums in order.
void combine(const Task& task, const char* parts, int64_t blocks, int64_t results) {
    if (parts == task.out) return;
    std::memcpy(task.out, parts, static_cast<size_t>(results * task.size));
    for (int64_t j = 1; j < blocks; ++j) task.sums.combine(task.out, parts + j * results * task.size, results);
}

void rows(const Task& task) {
    const ReduceStep& step = task.step;
    int64_t n = step.n, block = row_block(n), blocks = ceil_div(n, block), longest = std::min(n, block);
    bool direct = step.dtype == task.loops.in && step.n_stride == 1;
    Scratch partial(blocks == 1 ? 0 : static_cast<size_t>(step.outer * blocks * task.size));
    char* parts = blocks == 1 ? task.out : partial.as<char>();
    auto source_size = static_cast<int64_t>(itemsize(step.dtype));
    parallel_for(step.outer * blocks, grain_of(longest), [&](int64_t begin, int64_t end) {
        Scratch gathered(direct ? 0 : static_cast<size_t>(longest) * 16);
        for (int64_t i = begin; i < end; ++i) {
            int64_t o = i / blocks, j = i % blocks, length = std::min(n - j * block, block);
            const char* data = step.at(o) + j * block * step.n_stride * source_size;
            if (!direct) {
                load_tile(gathered.data(), task.loops.in, data, step.dtype, 1, 0, length, step.n_stride,
                          gathered.as<char>() + longest * 8);
                data = gathered.as<char>();
            }
            task.loops.row(parts + (j * step.outer + o) * task.size, data, length, task.mean_of(o));
        }
    });
    combine(task, parts, blocks, step.outer);
}

void columns(const Task& task) {
    const ReduceStep& step = task.step;
    int64_t n = step.n, block = column_block(n), blocks = ceil_div(n, block), longest = std::min(n, block);
    bool direct = step.dtype == task.loops.in && step.inner_stride == 1;
    int64_t chunk = direct ? kColumns : kGathered, chunks = ceil_div(step.inner, chunk);
    int64_t results = step.outer * step.inner;
    Scratch partial(blocks == 1 ? 0 : static_cast<size_t>(results * blocks * task.size));
    char* parts = blocks == 1 ? task.out : partial.as<char>();
    auto source_size = static_cast<int64_t>(itemsize(step.dtype));
    int64_t cost = longest * std::min(chunk, step.inner);
    parallel_for(step.outer * blocks * chunks, grain_of(cost), [&](int64_t begin, int64_t end) {
        Scratch gathered(direct ? 0 : static_cast<size_t>(longest * kGathered) * 16);
        for (int64_t i = begin; i < end; ++i) {
            int64_t c = i % chunks * chunk, j = i / chunks % blocks, o = i / chunks / blocks;
            int64_t cols = std::min(chunk, step.inner - c), length = std::min(n - j * block, block);
            const char* data = step.at(o) + (j * block * step.n_stride + c * step.inner_stride) * source_size;
            int64_t row_stride = step.n_stride;
            if (!direct) {
                load_tile(gathered.data(), task.loops.in, data, step.dtype, length, step.n_stride, cols,
                          step.inner_stride, gathered.as<char>() + longest * kGathered * 8);
                data = gathered.as<char>();
                row_stride = cols;
            }
            task.loops.columns(parts + (j * results + o * step.inner + c) * task.size, data, length, row_stride, cols,
                               task.mean_of(o) + c * task.size);
        }
    });
    combine(task, parts, blocks, results);
}

}  // namespace

void reduce_deviations(void* out, const Strided& t, uint64_t mask, const DeviationLoops& loops, const void* mean) {
    const ReduceLoops& sums = reductions().get(ReduceOp::Sum, loops.in);
    auto size = static_cast<int64_t>(itemsize(loops.in));
    ReduceDims dims(t.sizes, t.strides, mask);
    ReduceStep step;
    step.data = static_cast<const char*>(t.data);
    step.dtype = t.dtype;
    Scratch packed;
    if (t.numel == 0) return reduce_tensor(out, t, mask, sums, sums);
    if (!dims.any_reduced()) {  // every element is its own mean, unless it has none
        void* copy = packed.reserve(static_cast<size_t>(t.numel * size));
        pack(copy, loops.in, t);
        for (int64_t i = 0; i < t.numel; ++i)
            loops.row(static_cast<char*>(out) + i * size, packed.as<char>() + i * size, 1,
                      static_cast<const char*>(mean) + i * size);
        return;
    }
    if (!dims.take_step(step)) {
        void* copy = packed.reserve(static_cast<size_t>(t.numel) * itemsize(t.dtype));
        pack(copy, t.dtype, t);
        step.data = static_cast<const char*>(copy);
        dims = ReduceDims(t.sizes, contiguous_strides(t.sizes), mask);
        dims.take_step(step);
    }
    Task task{loops, sums, step, static_cast<const char*>(mean), {}, static_cast<char*>(out), size};
    int64_t stride = step.inner;
    uint64_t later = 0;
    Dims sizes;
    for (size_t d = 0; d < step.outer_dims; ++d) {
        sizes.push_back(step.outer_size[d]);
        if (dims.reduced[d]) later |= uint64_t(1) << d;
    }
    for (size_t d = step.outer_dims; d-- > 0;) {
        task.mean_stride[d] = dims.reduced[d] ? 0 : stride;
        if (!dims.reduced[d]) stride *= step.outer_size[d];
    }
    sizes.push_back(step.inner);
    int64_t results = step.outer * step.inner;
    Scratch first(later ? static_cast<size_t>(results * size) : 0);
    if (later) task.out = first.as<char>();
    step.inner > 1 ? columns(task) : rows(task);
    if (later)
        reduce_tensor(out, Strided(first.data(), loops.in, sizes, contiguous_strides(sizes), results), later, sums,
                      sums);
}

}  // namespace mt::cpu
