// run_elementwise and copy_elements: brings strided, broadcast and differently typed operands to the inner loops.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/isa.h"
#include "core/memory/streamed_copy.h"
#include "core/process/parallel.h"
#include "kernels/cpu/elementwise/loops.h"
#include "kernels/cpu/loops/strided_loop.h"

namespace mt::cpu {

const ElementwiseTable& select_elementwise_table() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512::elementwise_table;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2::elementwise_table;
#endif
        default: break;
    }
    return baseline::elementwise_table;
}

int64_t streaming_threshold() {
    // The system may report the sum over all cores' slices, of which one thread fills only its own.
    static const int64_t threshold = [] {
        constexpr int64_t most = 32 << 20;
        int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
        return cache > 0 ? std::min(cache, most) : most;
    }();
    return threshold;
}

LoopOperand scalar_operand(const void* value, DType dtype) {
    static const Dims none{};
    return {const_cast<void*>(value), &none, &none, dtype, dtype};
}

namespace {

constexpr int64_t kBufferBytes = 4096;
constexpr int64_t kStreamBytes = 2048;
// A tile has at most kTileColumns columns, and as many rows as whole cache lines of a transposed input fill: two lines,
// since they are fetched in pairs.
constexpr int64_t kTileColumns = 64;
constexpr int64_t kTileBytes = kTileColumns * 128;
int64_t tile_rows(int64_t item) { return 128 / item; }

struct alignas(64) Buffer {
    char bytes[kBufferBytes];
};

// Rows that share cache lines are not streamed: a line that is written in two parts costs more so.
void stream_or_copy(char* to, const char* from, int64_t bytes) {
    if (reinterpret_cast<uintptr_t>(to) % 64 == 0) streamed_copy(to, from, static_cast<size_t>(bytes));
    else std::memcpy(to, from, static_cast<size_t>(bytes));
}

// From one type to another, rounding to or wrapping around a third one between them where the op's type is not the
// loop's: an int64 added to a float16 tensor becomes float16 first, and is computed with in float32.
struct Conversion {
    ConvertFn first = nullptr, second = nullptr;
    explicit operator bool() const { return first; }

    static Conversion to_loop(DType stored, DType wanted, DType loop) {
        Conversion c{stored == wanted ? nullptr : get_convert(stored, wanted),
                     wanted == loop ? nullptr : get_convert(wanted, loop)};
        return c.first ? c : Conversion{c.second, nullptr};
    }
    static Conversion from_loop(DType loop, DType wanted, DType stored) { return to_loop(loop, wanted, stored); }
    void run(void* out, const void* in, int64_t n, Buffer& between) const {
        if (!second) return first(out, in, n);
        first(between.bytes, in, n);
        second(out, between.bytes, n);
    }
};

// How the parts of one call are computed; shared by all threads.
struct Driver {
    StridedLoop loop;
    const ElementwiseTable& table = elementwise();
    BlockFn fn;
    void* context;
    Conversion convert[kMaxOperands];  // of inputs to what the loop wants, of the output to what is stored
    int64_t wanted_item[kMaxOperands];
    int64_t block = 0;  // elements in a buffer
    bool stream = false;
    unsigned singles = 0;              // inputs that are one element everywhere, bit k-1 for operand k
    alignas(16) char values[kMaxOperands][16];  // those elements, converted

    Driver(const LoopOperand& out, const LoopOperand* in, size_t count, BlockFn block_fn, void* block_context)
        : fn(block_fn), context(block_context) {
        int64_t widest = 1;
        auto add = [&](size_t k, const LoopOperand& operand) {
            size_t stored = itemsize(operand.stored);
            DType computed = operand.raw ? operand.wanted : loop_dtype(operand.wanted);
            wanted_item[k] = static_cast<int64_t>(itemsize(computed));
            widest = std::max(
                {widest, static_cast<int64_t>(stored), wanted_item[k], static_cast<int64_t>(itemsize(operand.wanted))});
            if (operand.stored != operand.wanted || operand.wanted != computed)
                convert[k] = k ? Conversion::to_loop(operand.stored, operand.wanted, computed)
                               : Conversion::from_loop(computed, operand.wanted, operand.stored);
            if (k == 0) {
                loop.set_output(operand.data, stored, *operand.sizes, *operand.strides);
            } else {
                loop.add_input(operand.data, stored, *operand.sizes, *operand.strides);
            }
        };
        add(0, out);
        for (size_t k = 0; k < count; ++k) add(k + 1, in[k]);
        if (loop.numel == 0) return;
        loop.simplify();
        block = kBufferBytes / widest;
        bool in_place = false;
        for (size_t k = 1; k <= count; ++k) {
            in_place |= loop.data[k] == loop.data[0];
            if (!loop.single(k)) continue;
            singles |= 1u << (k - 1);
            Buffer between;
            if (convert[k]) convert[k].run(values[k], loop.data[k], 1, between);
            else std::memcpy(values[k], loop.data[k], static_cast<size_t>(wanted_item[k]));
        }
        stream = !convert[0] && !in_place && loop.inner_stride(0) == loop.item[0] &&
                 loop.numel * loop.item[0] >= streaming_threshold();
        // Short bursts: with 4 KB the reads stall behind them, and the whole takes half as long again.
        if (stream) block = std::min(block, kStreamBytes / loop.item[0]);
    }

    // Computes n <= block elements; `in[k]` are contiguous elements as stored, or one where `scalars` has a bit.
    void compute(void* out, const void* const* in, int64_t n, unsigned scalars, Buffer* converted) const {
        const void* ready[kMaxOperands];
        Buffer between;
        for (size_t k = 1; k < loop.operands; ++k) {
            unsigned bit = 1u << (k - 1);
            if (singles & bit) {
                ready[k - 1] = values[k];
            } else if (convert[k]) {
                convert[k].run(converted[k].bytes, in[k], scalars & bit ? 1 : n, between);
                ready[k - 1] = converted[k].bytes;
            } else {
                ready[k - 1] = in[k];
            }
        }
        fn(context, out, ready, n, scalars | singles);
    }

    // As compute, to `to`, which holds elements as stored `stride` bytes apart.
    void compute_to(char* to, int64_t stride, const void* const* in, int64_t n, unsigned scalars, Buffer* buffers,
                    Buffer* converted) const {
        bool contiguous = stride == loop.item[0];
        if (contiguous && stream) {
            compute(buffers[0].bytes, in, n, scalars, converted);
            stream_or_copy(to, buffers[0].bytes, n * loop.item[0]);
        } else if (contiguous && !convert[0]) {
            compute(to, in, n, scalars, converted);
        } else {
            compute(buffers[0].bytes, in, n, scalars, converted);
            const char* result = buffers[0].bytes;
            if (convert[0]) {
                Buffer between;
                convert[0].run(contiguous ? to : converted[0].bytes, result, n, between);
                result = converted[0].bytes;
            }
            if (!contiguous) scatter_row(to, stride, loop.item[0], n, result);
        }
    }

    // Row by row.
    void rows(int64_t begin, int64_t end) const {
        Buffer buffers[kMaxOperands], converted[kMaxOperands];
        bool direct = !convert[0] && !stream && loop.inner_stride(0) == loop.item[0];
        for (size_t k = 1; k < loop.operands; ++k) {
            int64_t stride = loop.inner_stride(k);
            direct &= stride == 0 ? true : stride == loop.item[k] && !convert[k];
        }
        loop.for_each_run(begin, end, direct ? INT64_MAX : block, [&](char* const* at, const int64_t*, int64_t n) {
            const void* in[kMaxOperands];
            unsigned scalars = 0;
            for (size_t k = 1; k < loop.operands; ++k) {
                int64_t stride = loop.inner_stride(k);
                in[k] = at[k];
                if (stride == 0) {
                    scalars |= 1u << (k - 1);
                } else if (stride != loop.item[k]) {
                    gather_row(at[k], stride, loop.item[k], n, buffers[k].bytes);
                    in[k] = buffers[k].bytes;
                }
            }
            compute_to(at[0], loop.inner_stride(0), in, n, scalars, buffers, converted);
        });
    }

    // Rows too short to be worth a call each: blocks of several.
    void blocks(int64_t begin, int64_t end) const {
        Buffer buffers[kMaxOperands], converted[kMaxOperands];
        bool dense[kMaxOperands];
        for (size_t k = 0; k < loop.operands; ++k) dense[k] = loop.dense(k);
        for (int64_t start = begin; start < end; start += block) {
            int64_t n = std::min(block, end - start);
            int64_t index[kMaxDims];
            char* at[kMaxOperands] = {};
            loop.locate(start, index, at);
            const void* in[kMaxOperands];
            for (size_t k = 1; k < loop.operands; ++k) {
                in[k] = at[k];
                if (dense[k] || singles & 1u << (k - 1)) continue;
                gather_run(loop, k, at[k], index, n, buffers[k].bytes);
                in[k] = buffers[k].bytes;
            }
            if (dense[0]) {
                compute_to(at[0], loop.item[0], in, n, 0, buffers, converted);
                continue;
            }
            compute(buffers[0].bytes, in, n, 0, converted);
            const char* result = buffers[0].bytes;
            if (convert[0]) {
                Buffer between;
                convert[0].run(converted[0].bytes, result, n, between);
                result = converted[0].bytes;
            }
            scatter_run(loop, 0, at[0], index, n, result);
        }
    }

    // Tiles of rows, for inputs that are contiguous along the last but one dimension.
    void tiles(int64_t begin, int64_t end, int64_t height) const;
};

// The tiles of a loop after prepare_tiles.
struct Tiling {
    int64_t height, width, down, across, count;

    Tiling(const StridedLoop& loop, int64_t tile_height) : height(tile_height), width(kTileColumns) {
        int64_t rows = loop.sizes[loop.ndim - 2], columns = loop.inner();
        down = (rows + height - 1) / height;
        across = (columns + width - 1) / width;
        count = loop.numel / (rows * columns) * down * across;
    }
    int64_t grain() const { return std::max<int64_t>(1, kElementwiseGrain / (height * width)); }

    // f(pointers of the tile's corner, rows, columns)
    template <class F> void for_each(const StridedLoop& loop, int64_t begin, int64_t end, F&& f) const {
        int64_t rows = loop.sizes[loop.ndim - 2], columns = loop.inner();
        for (int64_t t = begin; t < end; ++t) {
            // Downwards first: the next tile continues the lines of the transposed input, on the same pages.
            int64_t r = t % down * height, c = t / down % across * width;
            int64_t start = t / across / down * rows * columns + r * columns + c;
            int64_t index[kMaxDims];
            char* at[kMaxOperands];
            loop.locate(start, index, at);
            f(static_cast<char* const*>(at), std::min(height, rows - r), std::min(width, columns - c));
        }
    }
};

void Driver::tiles(int64_t begin, int64_t end, int64_t height) const {
    Buffer buffers[kMaxOperands], converted[kMaxOperands];
    alignas(64) char turned[kMaxOperands - 1][kTileBytes];
    size_t down = loop.ndim - 2;
    Tiling(loop, height).for_each(loop, begin, end, [&](char* const* at, int64_t rows, int64_t columns) {
        for (size_t k = 1; k < loop.operands; ++k)
            if (loop.transposed(k))
                transpose_tile(at[k], loop.inner_stride(k), turned[k - 1], columns * loop.item[k], loop.item[k], rows,
                               columns);
        for (int64_t r = 0; r < rows; ++r) {
            const void* in[kMaxOperands];
            unsigned scalars = 0;
            for (size_t k = 1; k < loop.operands; ++k) {
                int64_t stride = loop.inner_stride(k);
                char* row = at[k] + r * loop.strides[k][down];
                in[k] = row;
                if (loop.transposed(k)) {
                    in[k] = turned[k - 1] + r * columns * loop.item[k];
                } else if (stride == 0) {
                    scalars |= 1u << (k - 1);
                } else if (stride != loop.item[k]) {
                    gather_row(row, stride, loop.item[k], columns, buffers[k].bytes);
                    in[k] = buffers[k].bytes;
                }
            }
            compute_to(at[0] + r * loop.strides[0][down], loop.inner_stride(0), in, columns, scalars, buffers,
                       converted);
        }
    });
}

constexpr int64_t kShortRow = 32;

}  // namespace

void run_elementwise(const LoopOperand& out, const LoopOperand* in, size_t count, BlockFn fn, void* context,
                     BlockFn stream_fn) {
    Driver driver(out, in, count, fn, context);
    StridedLoop& loop = driver.loop;
    if (loop.numel == 0) return;
    bool fenced = driver.stream;
    if (driver.stream && stream_fn) {
        driver.fn = stream_fn;
        driver.stream = false;
    }
    auto finish = [&] {
        if (fenced) streaming_fence();
    };
    if (loop.prepare_tiles()) {
        int64_t item = 8;
        for (size_t k = 1; k < loop.operands; ++k)
            if (loop.transposed(k)) item = std::min(item, loop.item[k]);
        int64_t widest = *std::max_element(loop.item, loop.item + loop.operands);
        int64_t height = std::min(tile_rows(item), kTileBytes / (kTileColumns * widest));
        Tiling tiling(loop, height);
        parallel_for(tiling.count, tiling.grain(), [&](int64_t begin, int64_t end) {
            driver.tiles(begin, end, height);
            finish();
        });
    } else if (loop.ndim > 1 && loop.inner() < kShortRow) {
        parallel_for(loop.numel, kElementwiseGrain, [&](int64_t begin, int64_t end) {
            driver.blocks(begin, end);
            finish();
        });
    } else {
        parallel_for(loop.numel, kElementwiseGrain, [&](int64_t begin, int64_t end) {
            driver.rows(begin, end);
            finish();
        });
    }
}

void copy_elements(const LoopOperand& out, const LoopOperand& in) {
    StridedLoop loop;
    loop.set_output(out.data, itemsize(out.stored), *out.sizes, *out.strides);
    loop.add_input(in.data, itemsize(in.stored), *in.sizes, *in.strides);
    if (loop.numel == 0) return;
    loop.simplify();
    const ElementwiseTable& table = elementwise();
    bool same = out.stored == in.stored;
    // Runs of bytes, and squares of elements, go straight to their place; everything else through the general driver.
    if (same && loop.inner_stride(0) == loop.item[0] && loop.inner_stride(1) == loop.item[1] &&
        (loop.ndim == 1 || loop.inner() >= kShortRow)) {
        int64_t item = loop.item[0];
        bool stream = loop.numel * item >= streaming_threshold();
        parallel_for(loop.numel, kElementwiseGrain, [&](int64_t begin, int64_t end) {
            loop.for_each_run(begin, end, INT64_MAX, [&](char* const* at, const int64_t*, int64_t n) {
                if (stream) stream_or_copy(at[0], at[1], n * item);
                else std::memmove(at[0], at[1], static_cast<size_t>(n * item));
            });
            if (stream) streaming_fence();
        });
        return;
    }
    if (same && loop.inner_stride(0) == loop.item[0] && loop.prepare_tiles()) {
        Tiling tiling(loop, tile_rows(loop.item[0]));
        size_t down = loop.ndim - 2;
        bool stream = loop.numel * loop.item[0] >= streaming_threshold();
        parallel_for(tiling.count, tiling.grain(), [&](int64_t begin, int64_t end) {
            tiling.for_each(loop, begin, end, [&](char* const* at, int64_t rows, int64_t columns) {
                // By way of a buffer, so that whole lines are written: rows a power of two apart share few places in a
                // cache.
                alignas(64) char turned[kTileBytes];
                int64_t bytes = columns * loop.item[0];
                transpose_tile(at[1], loop.inner_stride(1), turned, bytes, loop.item[0], rows, columns);
                for (int64_t r = 0; r < rows; ++r) {
                    char* to = at[0] + r * loop.strides[0][down];
                    if (stream) stream_or_copy(to, turned + r * bytes, bytes);
                    else std::memcpy(to, turned + r * bytes, static_cast<size_t>(bytes));
                }
            });
            if (stream) streaming_fence();
        });
        return;
    }
    if (!same && loop.ndim == 1 && loop.inner_stride(0) == loop.item[0] && loop.inner_stride(1) == loop.item[1] &&
        loop.numel * loop.item[0] < streaming_threshold()) {
        ConvertFn convert = get_convert(in.stored, out.stored);
        parallel_for(loop.numel, kElementwiseGrain, [&](int64_t begin, int64_t end) {
            convert(loop.data[0] + begin * loop.item[0], loop.data[1] + begin * loop.item[1], end - begin);
        });
        return;
    }
    LoopOperand to = out, from = in;
    to.wanted = from.wanted = out.stored;
    to.raw = from.raw = true;
    struct Item {
        int64_t bytes;
    } item{loop.item[0]};
    run_elementwise(
        to, &from, 1,
        [](void* context, void* result, const void* const* source, int64_t n, unsigned scalars) {
            int64_t bytes = static_cast<Item*>(context)->bytes;
            if (!(scalars & 1)) std::memmove(result, source[0], static_cast<size_t>(n * bytes));
            else gather_row(static_cast<const char*>(source[0]), 0, bytes, n, result);
        },
        &item);
}

}  // namespace mt::cpu
