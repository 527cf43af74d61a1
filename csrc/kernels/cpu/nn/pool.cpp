// Maximum and average pooling. Work is cut by planes, so results do not depend on the number of threads.
#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "dispatch/infer/nn/pooling.h"
#include "kernels/cpu/elementwise/wrapping.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/nn/loops.h"

namespace mt::cpu {

namespace {

// Three spatial sizes, the missing ones in front.
struct Extent {
    int64_t n[3];
    explicit Extent(const Dims& sizes, size_t skip = 2, int64_t missing = 1) {
        size_t lead = 3 - (sizes.size() - skip);
        for (size_t d = 0; d < 3; ++d) n[d] = d < lead ? missing : sizes[skip + d - lead];
    }
    int64_t operator[](int d) const { return n[d]; }
    int64_t total() const { return n[0] * n[1] * n[2]; }
};

// Along one dimension, the window of each output position: its elements [begin, end), and its size with padding.
struct Windows {
    std::vector<int64_t> begin, end, size;
};

Windows regular_windows(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
    Windows w;
    for (int64_t o = 0; o < out; ++o) {
        int64_t begin = o * stride - padding, end = std::min(begin + kernel, in + padding);
        w.size.push_back(end - begin);
        w.begin.push_back(std::max<int64_t>(begin, 0));
        w.end.push_back(std::max(std::min(end, in), w.begin.back()));
    }
    return w;
}

Windows adaptive_windows(int64_t in, int64_t out) {
    Windows w;
    for (int64_t o = 0; o < out; ++o) {
        w.begin.push_back(o * in / out);
        w.end.push_back(((o + 1) * in + out - 1) / out);
        w.size.push_back(w.end.back() - w.begin.back());
    }
    return w;
}

// Smaller types are computed in float32, integers in int64.
template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else if (!is_floating(dtype)) body(int64_t());
    else body(float());
}

template <class F>
void with_float(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

// What is smaller than everything, or equal to it.
template <class T>
constexpr T least() {
    return std::is_integral_v<T> ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();
}

template <class T>
void plain_axpy(T* y, const T* x, T w, int64_t n, int64_t stride) {
    for (int64_t j = 0; j < n; ++j) y[j] = sum_of(y[j], product_of(w, x[j * stride]));
}

template <class T>
void plain_max(T* values, int32_t* index, const T* x, const MaxTap* taps, int64_t count, int64_t n, int64_t stride) {
    for (int64_t j = 0; j < n; ++j) {
        T best = least<T>();
        for (const MaxTap* tap = taps; tap != taps + count; ++tap) {
            const int64_t at = tap->from + j * stride;
            if (j < tap->low || j >= tap->high || x[at] <= best) continue;
            best = x[at];
            if (index) index[j] = static_cast<int32_t>(at);
        }
        if (values) values[j] = best;
    }
}

// Integers have two loops, which are the same on every instruction set.
template <class T>
const NnLoops<T>& loops_of() {
    if constexpr (std::is_integral_v<T>) {
        static const NnLoops<T> plain = [] {
            NnLoops<T> loops{};
            loops.axpy = plain_axpy<T>;
            loops.max = plain_max<T>;
            return loops;
        }();
        return plain;
    } else {
        return nn_loops<T>();
    }
}

// ---- maximum

struct MaxShape {
    Extent in, out, kernel, stride, padding, dilation;

    // Whether windows are squares of two by two elements side by side, all within the image.
    bool pairs() const {
        for (int d = 1; d < 3; ++d)
            if (kernel[d] != 2 || stride[d] != 2 || padding[d] != 0 || dilation[d] != 1 || 2 * out[d] > in[d])
                return false;
        return in[0] == 1 && out[0] == 1 && padding[0] == 0;
    }

    // The elements of each row of windows, relative to a row of the input.
    std::vector<MaxTap> columns() const {
        std::vector<MaxTap> taps;
        const int64_t step = stride[2];
        for (int64_t kw = 0; kw < kernel[2]; ++kw) {
            const int64_t shift = kw * dilation[2] - padding[2];
            const int64_t low = shift < 0 ? (-shift + step - 1) / step : 0;
            const int64_t high = in[2] - 1 - shift < 0 ? 0 : std::min((in[2] - 1 - shift) / step + 1, out[2]);
            if (low < high) taps.push_back({shift, low, high});
        }
        return taps;
    }
};

// Where a window that begins at `at` begins within the plane.
int64_t first_inside(int64_t at, int64_t dilation) {
    return at < 0 ? at + (-at + dilation - 1) / dilation * dilation : at;
}

// What a thread needs to compute planes.
struct MaxRows {
    explicit MaxRows(const MaxShape& s)
        : columns(s.columns()), taps(columns.size() * static_cast<size_t>(s.kernel[0] * s.kernel[1])),
          first(static_cast<size_t>(s.out[2])), where(first.size()) {
        for (size_t ow = 0; ow < first.size(); ++ow)
            first[ow] = static_cast<int32_t>(
                first_inside(static_cast<int64_t>(ow) * s.stride[2] - s.padding[2], s.dilation[2]));
    }
    std::vector<MaxTap> columns, taps;
    std::vector<int32_t> first, where;
};

// The largest elements of each row of windows, or their places.
template <class T>
void max_plane(const MaxShape& s, const T* x, T* values, int64_t* index, MaxRows& rows) {
    const NnLoops<T>& loops = loops_of<T>();
    const int64_t width = s.out[2];
    if (loops.max_pairs && s.pairs()) return loops.max_pairs(values, index, x, s.in[2], s.out[1], width);
    for (int64_t od = 0; od < s.out[0]; ++od)
        for (int64_t oh = 0; oh < s.out[1]; ++oh) {
            const int64_t d0 = od * s.stride[0] - s.padding[0], h0 = oh * s.stride[1] - s.padding[1];
            size_t count = 0;
            for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
                const int64_t d = d0 + kd * s.dilation[0];
                if (d < 0 || d >= s.in[0]) continue;
                for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
                    const int64_t h = h0 + kh * s.dilation[1];
                    if (h < 0 || h >= s.in[1]) continue;
                    const int64_t row = (d * s.in[1] + h) * s.in[2];
                    for (const MaxTap& tap : rows.columns) rows.taps[count++] = {row + tap.from, tap.low, tap.high};
                }
            }
            const int64_t to = (od * s.out[1] + oh) * width, taps = static_cast<int64_t>(count);
            if (!index) {
                loops.max(values + to, nullptr, x, rows.taps.data(), taps, width, s.stride[2]);
                continue;
            }
            // At first the element that each window begins with.
            const auto begin = static_cast<int32_t>(
                (first_inside(d0, s.dilation[0]) * s.in[1] + first_inside(h0, s.dilation[1])) * s.in[2]);
            int32_t* where = rows.where.data();
            const int32_t* first = rows.first.data();
            for (int64_t ow = 0; ow < width; ++ow) where[ow] = begin + first[ow];
            loops.max(nullptr, where, x, rows.taps.data(), taps, width, s.stride[2]);
            std::copy_n(where, width, index + to);
        }
}

template <bool Indices>
void max_pool_kernel(Call& call) {
    const Tensor& x = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    MaxShape s{Extent(x.sizes),
               Extent(out.sizes),
               Extent(call.param(0).ints, 0),
               Extent(call.param(1).ints, 0),
               Extent(call.param(2).ints, 0, 0),
               Extent(call.param(3).ints, 0)};
    if (s.in.total() > std::numeric_limits<int32_t>::max()) fail("max_pool: planes have at most 2^31 - 1 elements");
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed source(x, type);
        ContiguousOut target(out, Indices ? DType::I64 : type);
        int64_t from = s.in.total(), to = s.out.total();
        parallel_for(out.numel / to, grain_of(to * s.kernel.total()), [&](int64_t begin, int64_t end) {
            MaxRows rows(s);
            for (int64_t i = begin; i < end; ++i)
                max_plane<T>(s, source.as<T>() + i * from, Indices ? nullptr : target.as<T>() + i * to,
                             Indices ? target.as<int64_t>() + i * to : nullptr, rows);
        });
        target.store();
    });
}

void adaptive_max_pool_indices_kernel(Call& call) {
    const Tensor& x = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    Extent in(x.sizes), size(out.sizes);
    if (in.total() == 0) fail("adaptive_max_pool: expected an input with elements, but got " + to_string(x.sizes));
    Windows w[3];
    for (int d = 0; d < 3; ++d) w[d] = adaptive_windows(in[d], size[d]);
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed source(x, type);
        ContiguousOut target(out, DType::I64);
        parallel_for(out.numel / size.total(), grain_of(in.total() * 2), [&](int64_t begin, int64_t end) {
            int64_t* index = target.as<int64_t>() + begin * size.total();
            for (int64_t i = begin; i < end; ++i) {
                const T* plane = source.as<T>() + i * in.total();
                for (size_t od = 0; od < w[0].begin.size(); ++od)
                    for (size_t oh = 0; oh < w[1].begin.size(); ++oh)
                        for (size_t ow = 0; ow < w[2].begin.size(); ++ow) {
                            int64_t found = (w[0].begin[od] * in[1] + w[1].begin[oh]) * in[2] + w[2].begin[ow];
                            T best = least<T>();
                            for (int64_t d = w[0].begin[od]; d < w[0].end[od]; ++d)
                                for (int64_t h = w[1].begin[oh]; h < w[1].end[oh]; ++h)
                                    for (int64_t k = w[2].begin[ow]; k < w[2].end[ow]; ++k) {
                                        int64_t at = (d * in[1] + h) * in[2] + k;
                                        T v = plane[at];
                                        if (v > best || v != v) {
                                            best = v;
                                            found = at;
                                        }
                                    }
                            *index++ = found;
                        }
            }
        });
        target.store();
    });
}

// ---- elements of planes by their place

int64_t checked_index(int64_t index, int64_t bound) {
    if (index < 0 || index >= bound)
        fail("Found an invalid max index: " + std::to_string(index) + " (of a plane of " + std::to_string(bound) +
             " elements)");
    return index;
}

void plane_gather_kernel(Call& call) {
    const Tensor &x = call.in(0), &indices = call.in(1);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed source(x, type), places(indices, DType::I64);
        ContiguousOut target(out, type);
        int64_t planes = x.sizes[0] * x.sizes[1], from = x.numel / planes, to = out.numel / planes;
        parallel_for(planes, grain_of(to * 2), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const T* plane = source.as<T>() + i * from;
                for (int64_t j = i * to; j < (i + 1) * to; ++j)
                    target.as<T>()[j] = plane[checked_index(places.as<int64_t>()[j], from)];
            }
        });
        target.store();
    });
}

template <bool Add>
void plane_scatter_kernel(Call& call) {
    const Tensor &x = call.in(0), &indices = call.in(1);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed source(x, type), places(indices, DType::I64);
        ContiguousOut target(out, type);
        int64_t planes = out.sizes[0] * out.sizes[1], from = x.numel / planes, to = out.numel / planes;
        parallel_for(planes, grain_of(to + from * 2), [&](int64_t begin, int64_t end) {
            std::fill_n(target.as<T>() + begin * to, (end - begin) * to, T(0));
            for (int64_t i = begin; i < end; ++i) {
                T* plane = target.as<T>() + i * to;
                for (int64_t j = i * from; j < (i + 1) * from; ++j) {
                    T& element = plane[checked_index(places.as<int64_t>()[j], to)];
                    element = Add ? element + source.as<T>()[j] : source.as<T>()[j];
                }
            }
        });
        target.store();
    });
}

// ---- averages

struct Averages {
    Windows w[3];
    bool padded = true;     // the divisor counts the padding
    int64_t divisor = 0;    // if not 0, instead of the count
    int64_t stride = 0;     // of regular windows, along the last dimension
    int64_t kernel = 0, padding = 0;

    template <class T>
    T count(size_t d, size_t h, size_t k) const {
        if (divisor) return static_cast<T>(divisor);
        auto length = [&](const Windows& x, size_t i) { return padded ? x.size[i] : x.end[i] - x.begin[i]; };
        return static_cast<T>(length(w[0], d) * length(w[1], h) * length(w[2], k));
    }
};

Averages regular_averages(const Call& call, size_t first, const Dims& in, const Dims& out) {
    Averages a;
    Extent from(in), to(out), kernel(call.param(first).ints, 0), stride(call.param(first + 1).ints, 0),
        padding(call.param(first + 2).ints, 0, 0);
    for (int d = 0; d < 3; ++d) a.w[d] = regular_windows(from[d], to[d], kernel[d], stride[d], padding[d]);
    a.padded = call.param(first + 4).as_bool();
    a.divisor = call.param(first + 5).is_none() ? 0 : call.param(first + 5).as_int();
    a.stride = stride[2];
    a.kernel = kernel[2];
    a.padding = padding[2];
    return a;
}

Averages adaptive_averages(const Dims& in, const Dims& out) {
    Averages a;
    Extent from(in), to(out);
    for (int d = 0; d < 3; ++d) a.w[d] = adaptive_windows(from[d], to[d]);
    return a;
}

// Calls row(from, low, high, tap) for each row of the window [d, h] and each tap of its columns: output positions
// [low, high) take the elements from, from + stride, ...
template <class F>
void regular_taps(const Averages& a, const Extent& in, size_t d, size_t h, int64_t width, F row) {
    for (int64_t i = a.w[0].begin[d]; i < a.w[0].end[d]; ++i)
        for (int64_t j = a.w[1].begin[h]; j < a.w[1].end[h]; ++j)
            for (int64_t k = 0; k < a.kernel; ++k) {
                int64_t shift = k - a.padding, low = shift < 0 ? (-shift + a.stride - 1) / a.stride : 0;
                int64_t high = in[2] - 1 - shift < 0 ? 0 : std::min((in[2] - 1 - shift) / a.stride + 1, width);
                if (low < high) row((i * in[1] + j) * in[2] + low * a.stride + shift, low, high);
            }
}

template <class T>
void average(const Averages& a, const Extent& in, const Extent& out, const T* x, T* y) {
    const NnLoops<T>& loops = loops_of<T>();
    int64_t width = out[2];
    for (size_t d = 0; d < a.w[0].begin.size(); ++d)
        for (size_t h = 0; h < a.w[1].begin.size(); ++h, y += width) {
            std::fill_n(y, width, T(0));
            if (a.stride) {
                regular_taps(a, in, d, h, width, [&](int64_t from, int64_t low, int64_t high) {
                    loops.axpy(y + low, x + from, T(1), high - low, a.stride);
                });
            } else {
                for (int64_t i = a.w[0].begin[d]; i < a.w[0].end[d]; ++i)
                    for (int64_t j = a.w[1].begin[h]; j < a.w[1].end[h]; ++j) {
                        const T* row = x + (i * in[1] + j) * in[2];
                        for (size_t o = 0; o < a.w[2].begin.size(); ++o)
                            for (int64_t k = a.w[2].begin[o]; k < a.w[2].end[o]; ++k) y[o] = sum_of(y[o], row[k]);
                    }
            }
            for (int64_t o = 0; o < width; ++o) y[o] /= a.count<T>(d, h, static_cast<size_t>(o));
        }
}

template <class T>
void average_backward(const Averages& a, const Extent& in, const Extent& out, const T* g, T* gx, T* share) {
    const NnLoops<T>& loops = nn_loops<T>();
    int64_t width = out[2];
    std::fill_n(gx, in.total(), T(0));
    for (size_t d = 0; d < a.w[0].begin.size(); ++d)
        for (size_t h = 0; h < a.w[1].begin.size(); ++h, g += width) {
            for (int64_t o = 0; o < width; ++o) share[o] = g[o] / a.count<T>(d, h, static_cast<size_t>(o));
            if (a.stride) {
                regular_taps(a, in, d, h, width, [&](int64_t from, int64_t low, int64_t high) {
                    loops.spread(gx + from, share + low, T(1), high - low, a.stride);
                });
            } else {
                for (int64_t i = a.w[0].begin[d]; i < a.w[0].end[d]; ++i)
                    for (int64_t j = a.w[1].begin[h]; j < a.w[1].end[h]; ++j) {
                        T* row = gx + (i * in[1] + j) * in[2];
                        for (size_t o = 0; o < a.w[2].begin.size(); ++o)
                            for (int64_t k = a.w[2].begin[o]; k < a.w[2].end[o]; ++k) row[k] += share[o];
                    }
            }
        }
}

void run_average(Call& call, const Averages& a) {
    const Tensor& x = call.in(0);
    Tensor& out = *call.outputs[0];
    Extent in(x.sizes), size(out.sizes);
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed source(x, type);
        ContiguousOut target(out, type);
        int64_t from = in.total(), to = size.total();
        parallel_for(out.numel / to, grain_of(from + to * 4), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                average<T>(a, in, size, source.as<T>() + i * from, target.as<T>() + i * to);
        });
        target.store();
    });
}

void run_average_backward(Call& call, const Averages& a) {
    const Tensor& g = call.in(0);
    Tensor& out = *call.outputs[0];
    Extent in(out.sizes), size(g.sizes);
    with_float(g.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed source(g, type);
        ContiguousOut target(out, type);
        int64_t from = in.total(), to = size.total();
        parallel_for(out.numel / from, grain_of(from + to * 4), [&](int64_t begin, int64_t end) {
            Scratch share(static_cast<size_t>(size[2] + 1) * sizeof(T));
            for (int64_t i = begin; i < end; ++i)
                average_backward<T>(a, in, size, source.as<T>() + i * to, target.as<T>() + i * from, share.as<T>());
        });
        target.store();
    });
}

void avg_pool_kernel(Call& call) {
    if (call.outputs[0]->numel) run_average(call, regular_averages(call, 0, call.in(0).sizes, call.outputs[0]->sizes));
}

void avg_pool_backward_kernel(Call& call) {
    if (call.outputs[0]->numel)
        run_average_backward(call, regular_averages(call, 1, call.outputs[0]->sizes, call.in(0).sizes));
}

void adaptive_avg_pool_kernel(Call& call) {
    if (call.outputs[0]->numel) run_average(call, adaptive_averages(call.in(0).sizes, call.outputs[0]->sizes));
}

void adaptive_avg_pool_backward_kernel(Call& call) {
    if (call.outputs[0]->numel) run_average_backward(call, adaptive_averages(call.outputs[0]->sizes, call.in(0).sizes));
}

const RegisterNative registered{
    {"max_pool", infer_max_pool, max_pool_kernel<false>},
    {"max_pool_indices", infer_max_pool_indices, max_pool_kernel<true>},
    {"adaptive_max_pool_indices", infer_adaptive_max_pool_indices, adaptive_max_pool_indices_kernel},
    {"plane_gather", infer_plane_gather, plane_gather_kernel},
    {"plane_scatter", infer_plane_scatter, plane_scatter_kernel<false>},
    {"plane_scatter_add", infer_plane_scatter, plane_scatter_kernel<true>},
    {"avg_pool", infer_avg_pool, avg_pool_kernel},
    {"avg_pool_backward", infer_avg_pool_backward, avg_pool_backward_kernel},
    {"adaptive_avg_pool", infer_adaptive_avg_pool, adaptive_avg_pool_kernel},
    {"adaptive_avg_pool_backward", infer_adaptive_avg_pool_backward, adaptive_avg_pool_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
