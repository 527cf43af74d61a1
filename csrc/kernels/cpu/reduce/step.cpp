#include "kernels/cpu/reduce/step.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/reduce/narrow_sums.h"
#include "kernels/cpu/reduce/reduce.h"

namespace mt::cpu {

ReduceDims::ReduceDims(const Dims& sizes, const Dims& strides, uint64_t mask) {
    for (size_t d = 0; d < sizes.size(); ++d) {
        if (sizes[d] == 1) continue;
        bool reduce = mask >> d & 1;
        if (count && reduced[count - 1] == reduce && stride[count - 1] == strides[d] * sizes[d]) {
            size[count - 1] *= sizes[d];
            stride[count - 1] = strides[d];
        } else {
            size[count] = sizes[d];
            stride[count] = strides[d];
            reduced[count++] = reduce;
        }
    }
}

bool ReduceDims::any_reduced() const { return std::find(reduced, reduced + count, true) != reduced + count; }

bool ReduceDims::take_step(ReduceStep& step) {
    bool rows = reduced[count - 1];
    size_t at = rows ? count - 1 : count - 2;  // of the reduced dimension
    if (!reduced[at] || (at > 0 && reduced[at - 1])) return false;
    step.n = size[at];
    step.n_stride = stride[at];
    step.inner = rows ? 1 : size[count - 1];
    step.inner_stride = rows ? 1 : stride[count - 1];
    step.outer = 1;
    step.outer_dims = at;
    for (size_t d = 0; d < at; ++d) {
        step.outer_size[d] = size[d];
        step.outer_stride[d] = stride[d];
        step.outer *= size[d];
    }
    for (size_t d = at; d + 1 < count; ++d) {
        size[d] = size[d + 1];
        reduced[d] = reduced[d + 1];
    }
    --count;
    return true;
}

void ReduceDims::make_contiguous() {
    size_t merged = 0;
    for (size_t d = 0; d < count; ++d) {
        if (merged && reduced[merged - 1] == reduced[d]) {
            size[merged - 1] *= size[d];
        } else {
            size[merged] = size[d];
            reduced[merged++] = reduced[d];
        }
    }
    count = merged;
    int64_t step = 1;
    for (size_t d = count; d-- > 0;) {
        stride[d] = step;
        step *= size[d];
    }
}

namespace {

template <class T>
void gather_tile(T* dst, const T* src, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride) {
    if (col_stride == 1) {
        for (int64_t i = 0; i < rows; ++i)
            std::memcpy(dst + i * cols, src + i * row_stride, static_cast<size_t>(cols) * sizeof(T));
    } else if (row_stride == 1) {
        transpose_plane(dst, cols, src, col_stride, rows, cols);
    } else {
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < cols; ++j) dst[i * cols + j] = src[i * row_stride + j * col_stride];
    }
}

struct Task {
    const ReduceLoops& loops;
    const ReduceStep& step;
    char* out;
    int64_t in_size, out_size;
    const NarrowSums* narrow;  // for sums of 16-bit numbers, which need no tiles

    char* out_at(int64_t i) const { return out + i * out_size; }
};

// A row that needn't be gathered or converted.
void direct_row(const Task& task, const char* data, void* acc) {
    int64_t n = task.step.n, block = row_block(n);
    task.loops.rows(acc, data, 1, 0, std::min(n, block));
    for (int64_t r = block; r < n; r += block) {
        uint64_t part;
        task.loops.rows(&part, data + r * task.in_size, 1, 0, std::min(n - r, block));
        task.loops.combine(acc, &part, 1);
    }
}

// One or few long rows: the blocks in parallel, then their results in order.
void split_rows(const Task& task) {
    const ReduceStep& step = task.step;
    int64_t n = step.n, block = row_block(n), blocks = ceil_div(n, block);
    Scratch partial(static_cast<size_t>(step.outer * blocks * task.out_size));
    char* parts = partial.as<char>();
    parallel_for(step.outer * blocks, grain_of(block), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t r = i % blocks * block;
            const char* data = step.at(i / blocks) + r * task.in_size;
            task.loops.rows(parts + i * task.out_size, data, 1, 0, std::min(n - r, block));
        }
    });
    for (int64_t o = 0; o < step.outer; ++o) {
        std::memcpy(task.out_at(o), parts + o * blocks * task.out_size, static_cast<size_t>(task.out_size));
        for (int64_t j = 1; j < blocks; ++j)
            task.loops.combine(task.out_at(o), parts + (o * blocks + j) * task.out_size, 1);
    }
}

void direct_rows(const Task& task) {
    const ReduceStep& step = task.step;
    int64_t n = step.n;
    if (n <= kRowBlock && step.regular()) {
        if (step.outer * n <= kGrain) return task.loops.rows(task.out, step.data, step.outer, step.stride(), n);
        return parallel_for(step.outer, grain_of(n), [&](int64_t begin, int64_t end) {
            task.loops.rows(task.out_at(begin), step.data + begin * step.stride() * task.in_size, end - begin,
                            step.stride(), n);
        });
    }
    if (n > kRowBlock && step.outer < 2 * num_threads()) return split_rows(task);
    parallel_for(step.outer, grain_of(n), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) direct_row(task, step.at(i), task.out_at(i));
    });
}

// Rows that are gathered or converted, several at a time for the sake of the cache lines.
constexpr int64_t kTileRows = 16, kTileCols = 1024;

struct RowTiles {
    alignas(64) char elements[kTileRows * kTileCols * 8];
    alignas(64) char spare[kTileRows * kTileCols * 8];
    alignas(64) char lanes[kTileRows * kLanes * 8];
};

// Rows first .. first + count, one block of theirs: acc[i * acc_stride] in elements.
void indirect_block(const Task& task, RowTiles& tiles, const char* data, int64_t row_stride, int64_t count,
                    int64_t begin, int64_t end, char* acc) {
    const ReduceStep& step = task.step;
    auto source_size = static_cast<int64_t>(itemsize(step.dtype));
    if (task.narrow && step.n_stride == 1) {
        for (int64_t i = 0; i < count; ++i) {
            task.loops.lanes_init(tiles.lanes);
            auto* row = reinterpret_cast<const uint16_t*>(data) + i * row_stride;
            task.narrow->lanes(reinterpret_cast<float*>(tiles.lanes), row + begin, end - begin);
            task.loops.lanes_finish(acc + i * task.out_size, tiles.lanes);
        }
        return;
    }
    for (int64_t i = 0; i < count; ++i) task.loops.lanes_init(tiles.lanes + i * kLanes * 8);
    for (int64_t r = begin; r < end; r += kTileCols) {
        int64_t length = std::min(end - r, kTileCols);
        load_tile(tiles.elements, task.loops.in, data + r * step.n_stride * source_size, step.dtype, count, row_stride,
                  length, step.n_stride, tiles.spare);
        for (int64_t i = 0; i < count; ++i)
            task.loops.lanes_add(tiles.lanes + i * kLanes * 8, tiles.elements + i * length * task.in_size, length);
    }
    for (int64_t i = 0; i < count; ++i) task.loops.lanes_finish(acc + i * task.out_size, tiles.lanes + i * kLanes * 8);
}

void indirect_rows(const Task& task) {
    const ReduceStep& step = task.step;
    int64_t last = step.outer_dims ? step.outer_size[step.outer_dims - 1] : 1;
    int64_t row_stride = step.outer_dims ? step.outer_stride[step.outer_dims - 1] : 0;
    // Rows that lie next to each other are taken as the elements of a vector.
    bool adjacent = task.loops.adjacent && step.dtype == task.loops.in && row_stride == 1 && last > 1;
    // Long rows of contiguous elements one by one: their tiles stay in the first-level cache.
    bool long_rows = step.n_stride == 1 && step.n >= kTileCols / 4;
    int64_t at_once = adjacent ? kAdjacentRows : long_rows ? 1 : kTileRows;
    int64_t groups = ceil_div(last, at_once), tasks = step.outer / last * groups;
    int64_t n = step.n, block = row_block(n), blocks = ceil_div(n, block);
    Scratch partial(static_cast<size_t>(step.outer * blocks * task.out_size));  // [blocks, outer]
    char* parts = blocks == 1 ? task.out : partial.as<char>();
    parallel_for(
        tasks * blocks, grain_of(std::min(last, at_once) * std::min(n, block)), [&](int64_t begin, int64_t end) {
            Scratch memory(adjacent ? 0 : sizeof(RowTiles));
            for (int64_t i = begin; i < end; ++i) {
                int64_t group = i / blocks, j = i % blocks;
                int64_t row = group / groups * last + group % groups * at_once;
                int64_t count = std::min(at_once, last - group % groups * at_once);
                int64_t r0 = j * block, r1 = std::min(n, r0 + block);
                char* acc = parts + (j * step.outer + row) * task.out_size;
                const char* data = step.at(row);
                if (adjacent)
                    task.loops.adjacent(acc, data + r0 * step.n_stride * task.in_size, r1 - r0, step.n_stride, count);
                else indirect_block(task, *memory.as<RowTiles>(), data, row_stride, count, r0, r1, acc);
            }
        });
    if (blocks == 1) return;
    std::memcpy(task.out, parts, static_cast<size_t>(step.outer * task.out_size));
    for (int64_t j = 1; j < blocks; ++j)
        task.loops.combine(task.out, parts + j * step.outer * task.out_size, step.outer);
}

bool contiguous_columns(const Task& task) {
    return task.step.dtype == task.loops.in && task.step.n_stride == 1 && task.loops.contiguous_columns;
}

// Columns c0 .. c0 + cols of blocks first .. last into acc [last - first, cols].
void column_blocks(const Task& task, const char* data, int64_t c0, int64_t cols, int64_t first, int64_t last,
                   char* acc) {
    const ReduceStep& step = task.step;
    int64_t block = column_block(step.n), r0 = first * block, r1 = std::min(step.n, last * block);
    if (step.dtype == task.loops.in && step.inner_stride == 1) {
        task.loops.columns(acc, data + (r0 * step.n_stride + c0) * task.in_size, r1 - r0, step.n_stride, cols, block);
        return;
    }
    if (contiguous_columns(task)) {
        for (int64_t j = first; j < last; ++j)
            task.loops.contiguous_columns(acc + (j - first) * cols * task.out_size,
                                          data + (j * block + c0 * step.inner_stride) * task.in_size,
                                          std::min(block, step.n - j * block), step.inner_stride, cols);
        return;
    }
    if (task.narrow && step.inner_stride == 1) {
        for (int64_t j = first; j < last; ++j, acc += cols * task.out_size) {
            auto* from = reinterpret_cast<const uint16_t*>(data) + j * block * step.n_stride + c0;
            task.loops.fill(acc, cols);
            task.narrow->columns(reinterpret_cast<float*>(acc), from, std::min(block, step.n - j * block),
                                 step.n_stride, cols);
        }
        return;
    }
    // Gathered: tiles as long as a block, so that a column's accumulator never leaves its loop.
    // Wider ones where nothing has to be gathered, only converted: then rows are read in long pieces.
    const bool only_converted = step.inner_stride == 1;
    const int64_t tile_cols = std::clamp<int64_t>((only_converted ? 1 << 17 : 1 << 16) / block, 1,
                                                  only_converted ? 512 : 64);
    auto source_size = static_cast<int64_t>(itemsize(step.dtype));
    Scratch tile(static_cast<size_t>(block * tile_cols * 16) + static_cast<size_t>(tile_cols * 8));
    char *elements = tile.as<char>(), *spare = elements + block * tile_cols * 8,
         *result = spare + block * tile_cols * 8;
    for (int64_t j = first; j < last; ++j)
        for (int64_t c = c0; c < c0 + cols; c += tile_cols) {
            int64_t width = std::min(tile_cols, c0 + cols - c), rows = std::min(block, step.n - j * block);
            load_tile(elements, task.loops.in, data + (j * block * step.n_stride + c * step.inner_stride) * source_size,
                      step.dtype, rows, step.n_stride, width, step.inner_stride, spare);
            task.loops.columns(result, elements, rows, width, width, block);
            std::memcpy(acc + ((j - first) * cols + c - c0) * task.out_size, result,
                        static_cast<size_t>(width * task.out_size));
        }
}

void reduce_columns(const Task& task) {
    const ReduceStep& step = task.step;
    constexpr int64_t most = 1024;
    // Contiguous columns are read as so many streams.
    const int64_t chunk = contiguous_columns(task) ? 16 : most;
    int64_t n = step.n, inner = step.inner, blocks = ceil_div(n, column_block(n)), chunks = ceil_div(inner, chunk);
    if (blocks > 1 && step.outer * chunks < 2 * num_threads()) {
        // Few columns: the blocks in parallel.
        Scratch partial(static_cast<size_t>(blocks * inner * task.out_size));
        char* parts = partial.as<char>();
        for (int64_t o = 0; o < step.outer; ++o) {
            const char* data = step.at(o);
            parallel_for(blocks, grain_of(column_block(n) * inner), [&](int64_t begin, int64_t end) {
                column_blocks(task, data, 0, inner, begin, end, parts + begin * inner * task.out_size);
            });
            std::memcpy(task.out_at(o * inner), parts, static_cast<size_t>(inner * task.out_size));
            for (int64_t j = 1; j < blocks; ++j)
                task.loops.combine(task.out_at(o * inner), parts + j * inner * task.out_size, inner);
        }
        return;
    }
    parallel_for(step.outer * chunks, grain_of(n * std::min(inner, chunk)), [&](int64_t begin, int64_t end) {
        alignas(64) char part[most * 8];
        for (int64_t i = begin; i < end; ++i) {
            int64_t o = i / chunks, c0 = i % chunks * chunk, cols = std::min(chunk, inner - c0);
            const char* data = step.at(o);
            column_blocks(task, data, c0, cols, 0, 1, task.out_at(o * inner + c0));
            for (int64_t j = 1; j < blocks; ++j) {
                column_blocks(task, data, c0, cols, j, j + 1, part);
                task.loops.combine(task.out_at(o * inner + c0), part, cols);
            }
        }
    });
}

void run_step(const ReduceStep& step, const ReduceLoops& loops, void* out) {
    bool sum = loops.rows == reductions().get(ReduceOp::Sum, DType::F32).rows;
    Task task{loops,
              step,
              static_cast<char*>(out),
              static_cast<int64_t>(itemsize(loops.in)),
              static_cast<int64_t>(itemsize(loops.out)),
              sum ? narrow_sums(step.dtype) : nullptr};
    if (step.inner > 1) reduce_columns(task);
    else if (step.dtype == loops.in && step.n_stride == 1) direct_rows(task);
    else indirect_rows(task);
    if (loops.finish) loops.finish(out, step.outer * step.inner);
}

}  // namespace

void load_tile(void* dst, DType to, const char* src, DType from, int64_t rows, int64_t row_stride, int64_t cols,
               int64_t col_stride, void* spare) {
    void* gathered = to == from ? dst : spare;
    if (to != from && col_stride == 1) {  // nothing to gather
        ConvertFn convert = get_convert(from, to);
        auto to_size = static_cast<int64_t>(itemsize(to)), from_size = static_cast<int64_t>(itemsize(from));
        for (int64_t i = 0; i < rows; ++i)
            convert(static_cast<char*>(dst) + i * cols * to_size, src + i * row_stride * from_size, cols);
        return;
    }
    switch (itemsize(from)) {
        case 1:
            gather_tile(static_cast<uint8_t*>(gathered), reinterpret_cast<const uint8_t*>(src), rows, row_stride, cols,
                        col_stride);
            break;
        case 2:
            gather_tile(static_cast<uint16_t*>(gathered), reinterpret_cast<const uint16_t*>(src), rows, row_stride,
                        cols, col_stride);
            break;
        case 4:
            gather_tile(static_cast<uint32_t*>(gathered), reinterpret_cast<const uint32_t*>(src), rows, row_stride,
                        cols, col_stride);
            break;
        default:
            gather_tile(static_cast<uint64_t*>(gathered), reinterpret_cast<const uint64_t*>(src), rows, row_stride,
                        cols, col_stride);
    }
    if (to != from) get_convert(from, to)(dst, spare, rows * cols);
}

namespace {

// What a reduction of several groups of dimensions may have in memory at a time; it stays in the second-level cache.
constexpr int64_t kMostBetween = 1 << 19;

// Into how many pieces of the first kept dimension, `dim`, a reduction is cut so that what lies between its steps is
// small. A piece has at least two slices: a dimension of size 1 would no longer part the reduced ones around it.
int64_t pieces_of(const Strided& t, uint64_t mask, const ReduceDims& dims, int64_t result_size, size_t& dim) {
    if (std::count(dims.reduced, dims.reduced + dims.count, true) < 2) return 1;
    size_t innermost = dims.count - 1;
    while (!dims.reduced[innermost]) --innermost;
    int64_t between = t.numel / dims.size[innermost] * result_size;
    for (dim = 0; dim < t.sizes.size() && (mask >> dim & 1 || t.sizes[dim] == 1);) ++dim;
    if (dim == t.sizes.size()) return 1;
    return std::clamp<int64_t>(ceil_div(between, kMostBetween), 1, std::max<int64_t>(t.sizes[dim] / 2, 1));
}

}  // namespace

void reduce_tensor(void* out, const Strided& t, uint64_t mask, const ReduceLoops& loops, const ReduceLoops& next) {
    if (t.numel == 0) {
        int64_t kept = 1;
        for (size_t d = 0; d < t.sizes.size(); ++d)
            if (!(mask >> d & 1)) kept *= t.sizes[d];
        loops.fill(out, kept);
        if (loops.finish) loops.finish(out, kept);
        return;
    }
    ReduceDims dims(t.sizes, t.strides, mask);
    if (!dims.any_reduced()) {
        pack(out, loops.out, t);
        // Every element is a row of one, as far as the loops do more than the steps after them.
        if (&loops != &next && loops.in == loops.out) loops.rows(out, out, t.numel, 1, 1);
        return;
    }
    size_t dim;
    if (int64_t pieces = pieces_of(t, mask, dims, static_cast<int64_t>(itemsize(loops.out)), dim); pieces > 1) {
        int64_t size = t.sizes[dim], kept = 1;
        for (size_t d = dim + 1; d < t.sizes.size(); ++d)
            if (!(mask >> d & 1)) kept *= t.sizes[d];
        Dims sizes = t.sizes;
        for (int64_t i = 0; i < pieces; ++i) {
            int64_t begin = size * i / pieces, end = size * (i + 1) / pieces;
            sizes[dim] = end - begin;
            auto* data = static_cast<const char*>(t.data) +
                         begin * t.strides[dim] * static_cast<int64_t>(itemsize(t.dtype));
            Strided piece(data, t.dtype, sizes, t.strides, t.numel / size * (end - begin));
            reduce_tensor(static_cast<char*>(out) + begin * kept * static_cast<int64_t>(itemsize(loops.out)), piece,
                          mask, loops, next);
        }
        return;
    }
    ReduceStep step;
    step.data = static_cast<const char*>(t.data);
    step.dtype = t.dtype;
    Scratch packed;
    if (!dims.take_step(step)) {
        void* copy = packed.reserve(static_cast<size_t>(t.numel) * itemsize(t.dtype));
        pack(copy, t.dtype, t);
        step.data = static_cast<const char*>(copy);
        dims = ReduceDims(t.sizes, contiguous_strides(t.sizes), mask);
        dims.take_step(step);
    }
    if (!dims.any_reduced()) return run_step(step, loops, out);
    // Further groups, from the innermost to the outermost.
    Scratch buffers[2];
    buffers[0].reserve(static_cast<size_t>(step.outer * step.inner) * itemsize(loops.out));
    run_step(step, loops, buffers[0].data());
    dims.make_contiguous();
    dims.take_step(step);
    step.data = buffers[0].as<const char>();
    step.dtype = loops.out;
    if (dims.any_reduced()) {
        buffers[1].reserve(static_cast<size_t>(step.outer * step.inner) * itemsize(loops.out));
        int target = 1;
        while (true) {
            run_step(step, next, buffers[target].data());
            step.data = buffers[target].as<const char>();
            dims.make_contiguous();
            dims.take_step(step);
            if (!dims.any_reduced()) break;
            target ^= 1;
        }
    }
    run_step(step, next, out);
}

}  // namespace mt::cpu
