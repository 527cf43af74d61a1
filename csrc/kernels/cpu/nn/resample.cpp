// Planes in other sizes: along each spatial dimension a result is a weighted sum of few elements, and the gradient of
// that. A plane goes through all its dimensions while it is in the cache.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "dispatch/infer/nn/pooling.h"
#include "dispatch/op.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

// What is read along one dimension: result i is the sum of weights[k * out + i] times element places[k * out + i].
template <class T>
struct Taps {
    const int64_t* places;
    const T* weights;
    int64_t count, in, out;
};

// [outer, in, inner] to [outer, out, inner].
template <class T>
void gather(T* to, const T* from, const Taps<T>& taps, int64_t outer, int64_t inner) {
    const int64_t *p = taps.places, *q = p + taps.out;
    const T *v = taps.weights, *w = v + taps.out;
    for (int64_t o = 0; o < outer; ++o, from += taps.in * inner, to += taps.out * inner) {
        if (inner == 1 && taps.count == 2) {
            for (int64_t i = 0; i < taps.out; ++i) to[i] = from[p[i]] * v[i] + from[q[i]] * w[i];
            continue;
        }
        for (int64_t i = 0; i < taps.out; ++i) {
            T* row = to + i * inner;
            const T* first = from + p[i] * inner;
            const T weight = v[i];
            int64_t k = 1;
            if (taps.count == 2) {
                const T *second = from + q[i] * inner, other = w[i];
#pragma GCC ivdep
                for (int64_t j = 0; j < inner; ++j) row[j] = first[j] * weight + second[j] * other;
                continue;
            }
#pragma GCC ivdep
            for (int64_t j = 0; j < inner; ++j) row[j] = first[j] * weight;
            for (; k < taps.count; ++k) {
                const T* next = from + p[k * taps.out + i] * inner;
                const T more = v[k * taps.out + i];
#pragma GCC ivdep
                for (int64_t j = 0; j < inner; ++j) row[j] += next[j] * more;
            }
        }
    }
}

// The transpose: [outer, out, inner] to [outer, in, inner].
template <class T>
void spread(T* to, const T* from, const Taps<T>& taps, int64_t outer, int64_t inner) {
    std::memset(to, 0, static_cast<size_t>(outer * taps.in * inner) * sizeof(T));
    for (int64_t o = 0; o < outer; ++o, to += taps.in * inner, from += taps.out * inner)
        for (int64_t i = 0; i < taps.out; ++i)
            for (int64_t k = 0; k < taps.count; ++k) {
                T* row = to + taps.places[k * taps.out + i] * inner;
                const T weight = taps.weights[k * taps.out + i];
                const T* g = from + i * inner;
                if (inner == 1) {
                    *row += *g * weight;
                    continue;
                }
#pragma GCC ivdep
                for (int64_t j = 0; j < inner; ++j) row[j] += g[j] * weight;
            }
}

// `small` and `large` have the spatial sizes before and after; `backward` goes from the latter to the former.
template <class T, bool backward>
void resample(const Call& call, const Dims& small, const Dims& large) {
    const Tensor& t = call.in(0);
    Tensor& result = *call.outputs[0];
    const Dims& counts = call.param(0).ints;
    Packed x(t, DTypeOf<T>::value), places(call.in(1), DType::I64), weights(call.in(2), DTypeOf<T>::value);
    ContiguousOut out(result, DTypeOf<T>::value);
    std::vector<Taps<T>> taps;
    std::vector<size_t> dims;  // in the order in which they are gone through
    int64_t at = 0;
    for (size_t d = 0; d < counts.size(); ++d) {
        taps.push_back({places.as<int64_t>() + at, weights.as<T>() + at, counts[d], small[d], large[d]});
        for (int64_t i = 0; i < counts[d] * large[d]; ++i)
            if (taps[d].places[i] < 0 || taps[d].places[i] >= small[d]) fail_index("resample: a place is out of range");
        at += counts[d] * large[d];
        if (!counts[d]) continue;
        if (backward) dims.push_back(d);
        else dims.insert(dims.begin(), d);
    }
    int64_t planes = t.sizes[0] * t.sizes[1], in_size = t.numel / planes, out_size = result.numel / planes;
    if (dims.empty()) {
        std::memcpy(out.data(), x.data(), static_cast<size_t>(t.numel) * sizeof(T));
        return out.store();
    }
    int64_t most = 0, size = in_size;
    for (size_t d : dims) {
        size = backward ? size / large[d] * small[d] : size / small[d] * large[d];
        most = std::max(most, size);
    }
    parallel_for(planes, grain_of(in_size + out_size), [&](int64_t begin, int64_t end) {
        Scratch between[2];
        for (size_t k = 1; k < std::min<size_t>(dims.size(), 3); ++k)
            between[k - 1].reserve(static_cast<size_t>(most) * sizeof(T));
        for (int64_t plane = begin; plane < end; ++plane) {
            const T* from = x.as<T>() + plane * in_size;
            Dims sizes = backward ? large : small;
            for (size_t k = 0; k < dims.size(); ++k) {
                size_t d = dims[k];
                T* to = k + 1 == dims.size() ? out.as<T>() + plane * out_size : between[k % 2].as<T>();
                int64_t outer = 1, inner = 1;
                for (size_t e = 0; e < d; ++e) outer *= sizes[e];
                for (size_t e = d + 1; e < sizes.size(); ++e) inner *= sizes[e];
                if (backward) spread(to, from, taps[d], outer, inner);
                else gather(to, from, taps[d], outer, inner);
                sizes[d] = backward ? small[d] : large[d];
                from = to;
            }
        }
    });
    out.store();
}

template <bool backward>
void resample_kernel(Call& call) {
    const Tensor &t = call.in(0), &result = *call.outputs[0];
    if (t.numel == 0 || result.numel == 0) {
        if (result.numel) std::memset(result.data(), 0, static_cast<size_t>(result.numel) * itemsize(result.dtype));
        return;
    }
    Dims before, after;
    for (size_t d = 2; d < t.ndim(); ++d) {
        before.push_back(t.sizes[d]);
        after.push_back(result.sizes[d]);
    }
    const Dims &small = backward ? after : before, &large = backward ? before : after;
    if (t.dtype == DType::F64) resample<double, backward>(call, small, large);
    else resample<float, backward>(call, small, large);
}

// input, places, weights; counts, sizes
template <bool backward>
void infer_resample(Call& call) {
    const Tensor& t = call.in(0);
    const Dims &counts = call.param(0).ints, &sizes = call.param(1).ints;
    if (!is_floating(t.dtype) || t.ndim() < 3 || counts.size() + 2 != t.ndim() || sizes.size() != counts.size())
        fail("resample: expected floating-point planes [N, C, ...], and a count and a size for each spatial dimension");
    if (call.in(1).dtype != DType::I64 || call.in(2).dtype != t.dtype)
        fail("resample: expected places of int64, and weights of the input's dtype");
    call.result_count = 1;
    call.results[0].dtype = t.dtype;
    Dims& result = call.results[0].sizes;
    result = t.sizes;
    int64_t needed = 0;
    for (size_t d = 0; d < counts.size(); ++d) {
        if (counts[d] < 0 || sizes[d] < 0) fail("resample: counts and sizes must not be negative");
        if (counts[d] == 0 && sizes[d] != t.sizes[2 + d]) fail("resample: a size changes without elements to read");
        result[2 + d] = sizes[d];
        needed += counts[d] * (backward ? t.sizes[2 + d] : sizes[d]);
    }
    if (call.in(1).numel != needed || call.in(2).numel != needed)
        fail("resample: expected as many places and weights as there are elements to read");
}

const RegisterNative registered{
    {"_resample", infer_resample<false>, resample_kernel<false>},
    {"_resample_backward", infer_resample<true>, resample_kernel<true>},
};

}  // namespace

}  // namespace mt::cpu
