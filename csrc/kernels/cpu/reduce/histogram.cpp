// bincount, histogramdd (which also makes histogram and histc), and segment_reduce.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "dispatch/infer/shape/order.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

// The counts, or the sums of the weights in the order of the elements.
void bincount_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    const Tensor* weights = call.operands[1].tensor;
    Packed places(t, DType::I64);
    const auto* at = places.as<int64_t>();
    auto check = [&](int64_t i) {
        if (at[i] < 0 || at[i] >= out.numel) fail("bincount only supports 1-d non-negative integral inputs.");
        return at[i];
    };
    auto add = [&](auto* sums, const auto* weight) {
        std::fill(sums, sums + out.numel, 0);
        for (int64_t i = 0; i < t.numel; ++i) sums[check(i)] += weight[i];
    };
    if (!weights) {
        auto* counts = out.ptr<int64_t>();
        std::fill(counts, counts + out.numel, 0);
        for (int64_t i = 0; i < t.numel; ++i) ++counts[check(i)];
        return;
    }
    Packed weight(*weights, out.dtype);
    out.dtype == DType::F32 ? add(out.ptr<float>(), weight.as<float>()) : add(out.ptr<double>(), weight.as<double>());
}

// The bin of x, or -1. The last bin contains its right edge. Edges at equal distances give the bin by division; with
// `search`, that is put right by the edges themselves.
template <class T>
int64_t bin_of(T x, const T* edges, int64_t bins, bool uniform, bool search) {
    T low = edges[0], high = edges[bins];
    if (!(x >= low && x <= high)) return -1;
    int64_t bin;
    if (uniform) {
        bin = static_cast<int64_t>((x - low) / (high - low) * static_cast<T>(bins));
        if (search) {
            int64_t begin = std::max<int64_t>(0, bin - 1), end = std::min(bin + 2, bins + 1);
            bin = std::upper_bound(edges + begin, edges + end, x) - edges - 1;
        }
    } else {
        bin = std::upper_bound(edges, edges + bins + 1, x) - edges - 1;
    }
    return std::min(bin, bins - 1);
}

// bin_of for elements begin .. end, counted.
template <class T>
void count_uniform(T* counts, const T* x, int64_t begin, int64_t end, const T* edges, int64_t bins) {
    T low = edges[0], high = edges[bins], width = high - low, scale = static_cast<T>(bins);
    for (int64_t i = begin; i < end; ++i) {
        if (!(x[i] >= low && x[i] <= high)) continue;
        counts[std::min(static_cast<int64_t>((x[i] - low) / width * scale), bins - 1)] += 1;
    }
}

template <class T>
void histogram(Call& call, DType dtype) {
    const Tensor& t = call.in(0);
    Tensor& out = *call.outputs[0];
    const Dims& bins = call.param(0).ints;
    bool uniform = call.param(1).as_bool(), search = call.param(2).as_bool();
    Packed points(t, dtype), edges(call.in(1), dtype);
    const Tensor* weights = call.operands[2].tensor;
    Packed weight(weights ? *weights : t, dtype);
    auto axes = static_cast<int64_t>(bins.size());
    // Counts of single threads, added in their order: whole numbers, which are exact. Weights are added in the order of
    // the points.
    constexpr int64_t part = 1 << 16;
    int64_t n = t.sizes[0], parts = weights || out.numel > part ? 1 : std::min<int64_t>(num_threads(), n / part + 1);
    std::vector<T> sums(static_cast<size_t>(out.numel * parts), T(0));
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
            T* sum = sums.data() + p * out.numel;
            if (axes == 1 && uniform && !search && !weights) {
                count_uniform(sum, points.as<T>(), p * n / parts, (p + 1) * n / parts, edges.as<T>(), bins[0]);
                continue;
            }
            for (int64_t i = p * n / parts; i < (p + 1) * n / parts; ++i) {
                int64_t place = 0;
                const T* edge = edges.as<T>();
                for (int64_t d = 0; d < axes && place >= 0; ++d) {
                    int64_t count = bins[static_cast<size_t>(d)];
                    int64_t bin = bin_of(points.as<T>()[i * axes + d], edge, count, uniform, search);
                    place = bin < 0 ? -1 : place * count + bin;
                    edge += count + 1;
                }
                if (place >= 0) sum[place] += weights ? weight.as<T>()[i] : T(1);
            }
        }
    });
    ContiguousOut target(out, dtype);
    T* result = target.template as<T>();
    for (int64_t i = 0; i < out.numel; ++i) {
        result[i] = sums[static_cast<size_t>(i)];
        for (int64_t p = 1; p < parts; ++p) result[i] += sums[static_cast<size_t>(p * out.numel + i)];
    }
    target.store();
}

void histogramdd_kernel(Call& call) {
    call.in(0).dtype == DType::F64 ? histogram<double>(call, DType::F64) : histogram<float>(call, DType::F32);
}

enum class Segment : int64_t { Sum, Mean, Max, Min, Prod };

// Reduces rows begin .. end, each of `inner` elements, into `out`.
template <class T>
void segment(T* out, const T* in, int64_t begin, int64_t end, int64_t inner, Segment kind, const Value& initial) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    T start = kind == Segment::Max ? -infinity : kind == Segment::Min ? infinity : T(kind == Segment::Prod);
    if (!initial.is_none()) start = static_cast<T>(initial.as_double());
    std::fill(out, out + inner, start);
    for (int64_t r = begin; r < end; ++r)
        for (int64_t c = 0; c < inner; ++c) {
            T x = in[r * inner + c], &a = out[c];
            switch (kind) {
                case Segment::Max: a = x != x || x > a ? x : a; break;
                case Segment::Min: a = x != x || x < a ? x : a; break;
                case Segment::Prod: a *= x; break;
                default: a += x;
            }
        }
    if (kind != Segment::Mean) return;
    for (int64_t c = 0; c < inner; ++c) {
        if (end > begin && out[c] == out[c]) out[c] /= static_cast<T>(end - begin);
        else if (initial.is_none()) out[c] = std::numeric_limits<T>::quiet_NaN();
    }
}

template <class T>
void segments(Call& call, DType dtype) {
    const Tensor& t = call.in(0);
    auto axis = static_cast<size_t>(call.param(2).as_int());
    int64_t outer = 1, inner = 1, n = t.sizes[axis], count = call.in(1).sizes[axis] - 1;
    for (size_t d = 0; d < axis; ++d) outer *= t.sizes[d];
    for (size_t d = axis + 1; d < t.ndim(); ++d) inner *= t.sizes[d];
    Packed data(t, dtype), bounds(call.in(1), DType::I64);
    const auto* at = bounds.as<int64_t>();
    for (int64_t i = 0; i < outer * (count + 1); ++i)
        if (at[i] < 0 || at[i] > n) fail("segment_reduce(): offsets out of bounds");
    for (int64_t i = 0; i < outer * (count + 1); ++i)
        if (i % (count + 1) && at[i] < at[i - 1]) fail("segment_reduce(): offsets must not decrease");
    ContiguousOut target(*call.outputs[0], dtype);
    T* out = target.template as<T>();
    int64_t cost = count > 0 ? n * inner / count + 1 : 1;
    parallel_for(outer * count, grain_of(cost), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t* bound = at + i / count * (count + 1) + i % count;
            segment(out + i * inner, data.as<T>() + i / count * n * inner, bound[0], bound[1], inner,
                    static_cast<Segment>(call.param(0).as_int()), call.param(1));
        }
    });
    target.store();
}

void segment_reduce_kernel(Call& call) {
    if (call.outputs[0]->numel == 0) return;
    call.in(0).dtype == DType::F64 ? segments<double>(call, DType::F64) : segments<float>(call, DType::F32);
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"_bincount", infer_bincount, bincount_kernel},
                                    {"_histogramdd", infer_histogramdd, histogramdd_kernel},
                                    {"_segment_reduce", infer_segment_reduce, segment_reduce_kernel},
                                }};

}  // namespace

}  // namespace mt::cpu
