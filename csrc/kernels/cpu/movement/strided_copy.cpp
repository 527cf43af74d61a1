#include "kernels/cpu/movement/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/elementwise/loops.h"
#include "kernels/cpu/movement/transpose.h"

namespace mt::cpu {

namespace {

struct LoopDim {
    int64_t size, dst, src;  // strides in elements
};

constexpr int64_t kTile = 32;

// dst[i] = src[-i].
template <class T>
void copy_reversed(T* dst, const T* src, int64_t n) {
    int64_t i = 0;
    if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
        constexpr int64_t N = 16 / sizeof(T);
        typedef T V __attribute__((vector_size(16)));
        typedef std::conditional_t<sizeof(T) == 4, int32_t, int64_t> I;
        typedef I Order __attribute__((vector_size(16)));
        for (; i + N <= n; i += N) {
            V v;
            std::memcpy(&v, src - i - (N - 1), sizeof v);
            if constexpr (N == 4) v = __builtin_shuffle(v, Order{3, 2, 1, 0});
            else v = __builtin_shuffle(v, Order{1, 0});
            std::memcpy(dst + i, &v, sizeof v);
        }
    }
    for (; i < n; ++i) dst[i] = src[-i];
}

// A plane of a x b elements, walked in tiles so that both sides' cache lines are used whole.
template <class T>
void copy_plane(T* dst, const T* src, const LoopDim& a, const LoopDim& b) {
    if (b.dst == 1 && b.src == 1) {
        for (int64_t i = 0; i < a.size; ++i)
            copy_row(dst + i * a.dst, src + i * a.src, static_cast<size_t>(b.size) * sizeof(T));
        return;
    }
    if (b.dst == 1 && b.src == -1) {
        for (int64_t i = 0; i < a.size; ++i) copy_reversed(dst + i * a.dst, src + i * a.src, b.size);
        return;
    }
    if constexpr (sizeof(T) <= 8)
        if (b.dst == 1 && a.src == 1) return transpose_plane(dst, a.dst, src, b.src, a.size, b.size);
    for (int64_t j0 = 0; j0 < b.size; j0 += kTile) {
        int64_t j1 = std::min(b.size, j0 + kTile);
        for (int64_t i = 0; i < a.size; ++i) {
            T* d = dst + i * a.dst;
            const T* s = src + i * a.src;
            for (int64_t j = j0; j < j1; ++j) d[j * b.dst] = s[j * b.src];
        }
    }
}

template <class T>
void copy_loops(void* dst, const void* src, const LoopDim* outer, size_t outer_count, LoopDim a, LoopDim b) {
    if (outer_count == 0 && a.size == 1) {  // one row, which may be long
        parallel_for(b.size, kGrain, [&](int64_t begin, int64_t end) {
            copy_plane(static_cast<T*>(dst) + begin * b.dst, static_cast<const T*>(src) + begin * b.src, a,
                       {end - begin, b.dst, b.src});
        });
        return;
    }
    int64_t planes = 1;
    for (size_t i = 0; i < outer_count; ++i) planes *= outer[i].size;
    int64_t tiles = (a.size + kTile - 1) / kTile;
    parallel_for(planes * tiles, grain_of(std::min(a.size, kTile) * b.size), [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end;) {
            int64_t plane = task / tiles, tile = task % tiles, d = 0, s = 0;
            for (size_t i = outer_count; i-- > 0;) {
                int64_t index = plane % outer[i].size;
                plane /= outer[i].size;
                d += index * outer[i].dst;
                s += index * outer[i].src;
            }
            int64_t many = std::min(tiles - tile, end - task);
            int64_t first = tile * kTile;
            LoopDim part{std::min(a.size, first + many * kTile) - first, a.dst, a.src};
            copy_plane(static_cast<T*>(dst) + d + first * a.dst, static_cast<const T*>(src) + s + first * a.src, part,
                       b);
            task += many;
        }
    });
}

struct Wide {
    uint64_t low, high;
};

}  // namespace

void strided_copy(void* dst, const Dims& dst_strides, const void* src, const Dims& src_strides, const Dims& sizes,
                  size_t itemsize) {
    LoopDim loops[kMaxDims + 2];
    size_t n = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 0) return;
        if (sizes[i] == 1) continue;
        LoopDim loop{sizes[i], dst_strides[i], src_strides[i]};
        if (n && loops[n - 1].dst == loop.dst * loop.size && loops[n - 1].src == loop.src * loop.size)
            loops[n - 1] = {loops[n - 1].size * loop.size, loop.dst, loop.src};
        else loops[n++] = loop;
    }
    constexpr int64_t kOneCopy = 1 << 14;  // bytes; more may be worth several threads
    int64_t bytes = (n ? loops[0].size : 1) * static_cast<int64_t>(itemsize);
    if (n <= 1 && bytes <= kOneCopy && (n == 0 || (loops[0].dst == 1 && loops[0].src == 1))) {
        std::memcpy(dst, src, static_cast<size_t>(bytes));
        return;
    }
    // Innermost goes the destination's fastest dimension, next to it the source's.
    auto magnitude = [](int64_t stride) { return stride < 0 ? -stride : stride; };
    size_t fast = 0;
    for (size_t i = 1; i < n; ++i)
        if (magnitude(loops[i].dst) <= magnitude(loops[fast].dst)) fast = i;
    LoopDim b = n ? loops[fast] : LoopDim{1, 1, 1};
    if (n) std::copy(loops + fast + 1, loops + n--, loops + fast);
    size_t next = 0;
    for (size_t i = 1; i < n; ++i)
        if (magnitude(loops[i].src) <= magnitude(loops[next].src)) next = i;
    LoopDim a = n ? loops[next] : LoopDim{1, 0, 0};
    if (n) std::copy(loops + next + 1, loops + n--, loops + next);
    switch (itemsize) {
        case 1: return copy_loops<uint8_t>(dst, src, loops, n, a, b);
        case 2: return copy_loops<uint16_t>(dst, src, loops, n, a, b);
        case 4: return copy_loops<uint32_t>(dst, src, loops, n, a, b);
        case 8: return copy_loops<uint64_t>(dst, src, loops, n, a, b);
        default: return copy_loops<Wide>(dst, src, loops, n, a, b);
    }
}

void convert_contiguous(void* dst, DType to, const void* src, DType from, int64_t n) {
    auto* d = static_cast<char*>(dst);
    auto* s = static_cast<const char*>(src);
    auto to_size = static_cast<int64_t>(itemsize(to)), from_size = static_cast<int64_t>(itemsize(from));
    ConvertFn convert = to == from ? nullptr : get_convert(from, to);
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        if (convert) convert(d + begin * to_size, s + begin * from_size, end - begin);
        else std::memcpy(d + begin * to_size, s + begin * from_size, static_cast<size_t>((end - begin) * to_size));
    });
}

void pack(void* dst, DType to, const Strided& t) {
    if (t.numel == 0) return;
    if (t.contiguous()) return convert_contiguous(dst, to, t.data, t.dtype, t.numel);
    Dims dense = contiguous_strides(t.sizes);
    if (to == t.dtype) return strided_copy(dst, dense, t.data, t.strides, t.sizes, itemsize(to));
    Scratch same(static_cast<size_t>(t.numel) * itemsize(t.dtype));
    strided_copy(same.data(), dense, t.data, t.strides, t.sizes, itemsize(t.dtype));
    convert_contiguous(dst, to, same.data(), t.dtype, t.numel);
}

Packed::Packed(const Strided& t, DType to, bool copy) {
    if (!copy && t.dtype == to && t.contiguous()) {
        data_ = t.data;
        return;
    }
    void* packed = copy_.reserve(static_cast<size_t>(t.numel) * itemsize(to));
    pack(packed, to, t);
    data_ = packed;
}

ContiguousOut::ContiguousOut(Tensor& out, DType dtype) : out_(out), dtype_(dtype) {
    data_ = out.dtype == dtype && out.contiguous() ? out.data()
                                                   : copy_.reserve(static_cast<size_t>(out.numel) * itemsize(dtype));
}

void ContiguousOut::store() {
    if (out_.numel == 0 || data_ == out_.data()) return;
    if (out_.contiguous()) return convert_contiguous(out_.data(), out_.dtype, data_, dtype_, out_.numel);
    Scratch converted;
    const void* source = data_;
    if (dtype_ != out_.dtype) {
        void* copy = converted.reserve(static_cast<size_t>(out_.numel) * itemsize(out_.dtype));
        convert_contiguous(copy, out_.dtype, data_, dtype_, out_.numel);
        source = copy;
    }
    strided_copy(out_.data(), out_.strides, source, contiguous_strides(out_.sizes), out_.sizes, itemsize(out_.dtype));
}

}  // namespace mt::cpu
