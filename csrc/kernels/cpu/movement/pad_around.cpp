// Padding with elements of the input itself (its reflection, its edge or its other end) in one pass, and the gradient.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "dispatch/op.h"
#include "kernels/cpu/index/axes.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

enum Mode : int64_t { Reflect, Replicate, Circular };

// Which of n elements stands at place i of the padded dimension.
int64_t source_of(int64_t i, int64_t low, int64_t n, int64_t mode) {
    int64_t j = i - low;
    if (j >= 0 && j < n) return j;
    if (mode == Reflect) return j < 0 ? -j : 2 * (n - 1) - j;
    if (mode == Replicate) return j < 0 ? 0 : n - 1;
    return j < 0 ? j + n : j - n;
}

// The last three dimensions of the input and of what is padded; `outer` such volumes. Missing dimensions have size 1.
struct Padding {
    int64_t outer = 1, in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, low[3] = {0, 0, 0};
    std::vector<int64_t> source[3];

    Padding(const Dims& sizes, const Dims& counts, int64_t mode) {
        size_t rank = sizes.size(), padded = counts.size() / 2;
        for (size_t d = 0; d + padded < rank; ++d) outer *= sizes[d];
        for (size_t k = 0; k < padded; ++k) {  // from the last dimension
            size_t to = 2 - k;
            in[to] = sizes[rank - 1 - k];
            low[to] = counts[2 * k];
            out[to] = in[to] + counts[2 * k] + counts[2 * k + 1];
        }
        for (int d = 0; d < 3; ++d)
            for (int64_t i = 0; i < out[d]; ++i) source[d].push_back(source_of(i, low[d], in[d], mode));
    }
    // The first element of the input's row that row r of the result is made of.
    int64_t row_of(int64_t r) const {
        int64_t h = r % out[1], d = r / out[1] % out[0], o = r / out[1] / out[0];
        auto at = [](const std::vector<int64_t>& v, int64_t i) { return v[static_cast<size_t>(i)]; };
        return ((o * in[0] + at(source[0], d)) * in[1] + at(source[1], h)) * in[2];
    }
    int64_t rows() const { return outer * out[0] * out[1]; }
};

// input; counts (from the last dimension), mode
void pad_kernel(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& result = *call.outputs[0];
    if (result.numel == 0) return;
    Padding p(t.sizes, call.param(0).ints, call.param(1).as_int());
    Packed x(t, t.dtype);
    ContiguousOut out(result, t.dtype);
    with_bits(itemsize(t.dtype), [&](auto bits) {
        using T = decltype(bits);
        const int64_t *source = p.source[2].data(), low = p.low[2], n = p.in[2], width = p.out[2];
        parallel_for(p.rows(), grain_of(width), [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
                const T* from = x.as<T>() + p.row_of(r);
                T* to = out.as<T>() + r * width;
                for (int64_t i = 0; i < low; ++i) to[i] = from[source[i]];
                copy_row(to + low, from, static_cast<size_t>(n) * sizeof(T));
                for (int64_t i = low + n; i < width; ++i) to[i] = from[source[i]];
            }
        });
    });
    out.store();
}

// grad; counts, mode
template <class T>
void gather_gradient(Call& call) {
    const Tensor& t = call.in(0);
    Tensor& result = *call.outputs[0];
    Padding p(result.sizes, call.param(0).ints, call.param(1).as_int());
    Packed g(t, DTypeOf<T>::value);
    ContiguousOut out(result, DTypeOf<T>::value);
    std::memset(out.data(), 0, static_cast<size_t>(result.numel) * sizeof(T));
    const int64_t *source = p.source[2].data(), low = p.low[2], n = p.in[2], width = p.out[2];
    int64_t rows = p.out[0] * p.out[1];
    // The rows of one volume in order, since several of them may go to the same.
    parallel_for(p.outer, grain_of(rows * width), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin * rows; r < end * rows; ++r) {
            const T* from = g.as<T>() + r * width;
            T* to = out.as<T>() + p.row_of(r);
            for (int64_t i = 0; i < low; ++i) to[source[i]] += from[i];
#pragma GCC ivdep
            for (int64_t j = 0; j < n; ++j) to[j] += from[low + j];
            for (int64_t i = low + n; i < width; ++i) to[source[i]] += from[i];
        }
    });
    out.store();
}

void pad_backward_kernel(Call& call) {
    if (call.outputs[0]->numel == 0) return;
    if (call.in(0).dtype == DType::F64) gather_gradient<double>(call);
    else gather_gradient<float>(call);
}

template <bool backward>
void infer_pad(Call& call) {
    const Tensor& t = call.in(0);
    const Dims& counts = call.param(0).ints;
    int64_t mode = call.param(1).as_int();
    if (counts.size() % 2 || counts.size() > 6 || counts.size() / 2 > t.ndim() || mode < Reflect || mode > Circular)
        fail("pad: expected pairs of counts for at most three dimensions");
    call.result_count = 1;
    call.results[0].dtype = t.dtype;
    call.results[0].sizes = t.sizes;
    for (size_t k = 0; k < counts.size() / 2; ++k) {
        int64_t &size = call.results[0].sizes[t.ndim() - 1 - k], low = counts[2 * k], high = counts[2 * k + 1];
        size += backward ? -(low + high) : low + high;
        int64_t n = backward ? size : size - low - high, more = std::max(low, high);
        bool enough = mode == Reflect ? more < std::max<int64_t>(n, 1) : mode == Circular ? more <= n : n > 0 || !more;
        if (low < 0 || high < 0 || n < 0 || !enough) fail("pad: the input has not enough elements for the counts");
    }
}

const RegisterNative registered{
    {"_pad_around", infer_pad<false>, pad_kernel, Takes::Stored},
    {"_pad_around_backward", infer_pad<true>, pad_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
