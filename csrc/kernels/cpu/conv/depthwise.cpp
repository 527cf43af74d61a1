#include "kernels/cpu/conv/depthwise.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/nn/loops.h"

namespace mt::cpu {

namespace {

// body(tap, out, in, length) for each run of output positions whose tap lies inside the image: offsets in the planes.
template <class F>
void runs(const ConvGeometry& g, F body) {
    int64_t tap = 0;
    for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
        for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
            for (int64_t kw = 0; kw < g.kernel[2]; ++kw, ++tap) {
                int64_t low[3], high[3], taps[3] = {kd, kh, kw};
                for (int d = 0; d < 3; ++d) g.inside(d, taps[d], &low[d], &high[d]);
                if (low[2] == high[2]) continue;
                int64_t iw = low[2] * g.stride[2] - g.padding[2] + kw * g.dilation[2];
                for (int64_t od = low[0]; od < high[0]; ++od)
                    for (int64_t oh = low[1]; oh < high[1]; ++oh) {
                        int64_t id = od * g.stride[0] - g.padding[0] + kd * g.dilation[0];
                        int64_t ih = oh * g.stride[1] - g.padding[1] + kh * g.dilation[1];
                        body(tap, (od * g.out[1] + oh) * g.out[2] + low[2], (id * g.in[1] + ih) * g.in[2] + iw,
                             high[2] - low[2]);
                    }
            }
}

// Planes of a convolution with a stride of 1 and at most two dimensions, laid out so that every tap is one run: rows of
// the width of the padded input, one after the other.
struct Flat {
    int64_t width, height, taps, tail;
    int64_t top, left;
    std::vector<int64_t> offset;  // of each tap

    // For `in` sizes padded by `top` and `left` on both sides.
    Flat(const ConvGeometry& g, const int64_t* in, int64_t top, int64_t left)
        : width(in[2] + 2 * left), height(in[1] + 2 * top), taps(g.taps()), tail((g.kernel[2] - 1) * g.dilation[2]),
          top(top), left(left) {
        for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
            for (int64_t kw = 0; kw < g.kernel[2]; ++kw)
                offset.push_back(kh * g.dilation[1] * width + kw * g.dilation[2]);
    }
    int64_t size() const { return width * height + tail; }

    template <class T>
    void pad(T* to, const T* plane, int64_t rows, int64_t columns) const {
        std::fill_n(to, size(), T(0));
        for (int64_t i = 0; i < rows; ++i) std::copy_n(plane + i * columns, columns, to + (i + top) * width + left);
    }
    // rows * columns elements from rows of `width`.
    template <class T>
    void compact(T* to, const T* from, int64_t rows, int64_t columns) const {
        for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * width, columns, to + i * columns);
    }
};

bool flat(const ConvGeometry& g) {
    return g.in[0] == 1 && g.kernel[0] == 1 && g.padding[0] == 0 && g.stride[0] == 1 && g.stride[1] == 1 &&
           g.stride[2] == 1;
}

template <class T>
void flat_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish) {
    const NnLoops<T>& loops = nn_loops<T>();
    Flat f(g, g.in, g.padding[1], g.padding[2]);
    int64_t filters = g.groups * g.filters, pixels = g.out_plane(), run = g.out[1] * f.width;
    parallel_for(g.batch * filters, grain_of(pixels * f.taps), [&](int64_t begin, int64_t end) {
        std::vector<T> padded(static_cast<size_t>(f.size())), wide(static_cast<size_t>(run));
        for (int64_t i = begin; i < end; ++i) {
            int64_t n = i / filters, filter = i % filters;
            f.pad(padded.data(), x + (n * g.groups + filter / g.filters) * g.in_plane(), g.in[1], g.in[2]);
            loops.stencil(wide.data(), padded.data(), w + filter * f.taps, f.offset.data(), f.taps,
                          bias ? bias[filter] : T(0), run);
            f.compact(y + i * pixels, wide.data(), g.out[1], g.out[2]);
            finish(n, filter, 1, 0, pixels);
        }
    });
}

// With one filter a channel the gradient is a convolution of the gradient with the filter turned around.
template <class T>
void flat_backward_input(const ConvGeometry& g, const T* grad, const T* w, T* gx) {
    const NnLoops<T>& loops = nn_loops<T>();
    Flat f(g, g.out, (g.kernel[1] - 1) * g.dilation[1] - g.padding[1],
           (g.kernel[2] - 1) * g.dilation[2] - g.padding[2]);
    int64_t plane = g.in_plane(), run = g.in[1] * f.width;
    parallel_for(g.batch * g.groups, grain_of(plane * f.taps), [&](int64_t begin, int64_t end) {
        std::vector<T> padded(static_cast<size_t>(f.size())), wide(static_cast<size_t>(run)),
            turned(static_cast<size_t>(f.taps));
        for (int64_t i = begin; i < end; ++i) {
            const T* weights = w + i % g.groups * f.taps;
            std::reverse_copy(weights, weights + f.taps, turned.data());
            f.pad(padded.data(), grad + i * g.out_plane(), g.out[1], g.out[2]);
            loops.stencil(wide.data(), padded.data(), turned.data(), f.offset.data(), f.taps, T(0), run);
            f.compact(gx + i * plane, wide.data(), g.in[1], g.in[2]);
        }
    });
}

template <class T>
void flat_backward_weight(const ConvGeometry& g, const T* grad, const T* x, T* gw) {
    const NnLoops<T>& loops = nn_loops<T>();
    Flat f(g, g.in, g.padding[1], g.padding[2]);
    int64_t filters = g.groups * g.filters, run = g.out[1] * f.width;
    parallel_for(filters, grain_of(run * f.taps * g.batch), [&](int64_t begin, int64_t end) {
        std::vector<T> padded(static_cast<size_t>(f.size())), wide(static_cast<size_t>(run));
        for (int64_t filter = begin; filter < end; ++filter) {
            T* to = gw + filter * f.taps;
            std::fill_n(to, f.taps, T(0));
            for (int64_t n = 0; n < g.batch; ++n) {
                f.pad(padded.data(), x + (n * g.groups + filter / g.filters) * g.in_plane(), g.in[1], g.in[2]);
                std::fill(wide.begin(), wide.end(), T(0));
                const T* gradient = grad + (n * filters + filter) * g.out_plane();
                for (int64_t i = 0; i < g.out[1]; ++i)
                    std::copy_n(gradient + i * g.out[2], g.out[2], wide.data() + i * f.width);
                for (int64_t t = 0; t < f.taps; ++t)
                    to[t] += loops.dot(wide.data(), padded.data() + f.offset[static_cast<size_t>(t)], run, 1);
            }
        }
    });
}

}  // namespace

template <class T>
void depthwise_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish) {
    if (flat(g)) return flat_forward(g, x, w, bias, y, finish);
    const NnLoops<T>& loops = nn_loops<T>();
    int64_t filters = g.groups * g.filters, pixels = g.out_plane(), plane = g.in_plane(), taps = g.taps();
    parallel_for(g.batch * filters, grain_of(pixels * taps), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t n = i / filters, filter = i % filters;
            const T* from = x + (n * g.groups + filter / g.filters) * plane;
            const T* weights = w + filter * taps;
            T* to = y + i * pixels;
            std::fill_n(to, pixels, bias ? bias[filter] : T(0));
            runs(g, [&](int64_t tap, int64_t out, int64_t in, int64_t length) {
                loops.axpy(to + out, from + in, weights[tap], length, g.stride[2]);
            });
            finish(n, filter, 1, 0, pixels);
        }
    });
}

template <class T>
void depthwise_backward_input(const ConvGeometry& g, const T* grad, const T* w, T* gx) {
    bool fits = g.padding[1] <= (g.kernel[1] - 1) * g.dilation[1] && g.padding[2] <= (g.kernel[2] - 1) * g.dilation[2];
    if (flat(g) && g.filters == 1 && fits) return flat_backward_input(g, grad, w, gx);
    const NnLoops<T>& loops = nn_loops<T>();
    int64_t pixels = g.out_plane(), plane = g.in_plane(), taps = g.taps();
    parallel_for(g.batch * g.groups, grain_of(pixels * taps * g.filters), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t group = i % g.groups;
            T* to = gx + i * plane;
            std::fill_n(to, plane, T(0));
            for (int64_t f = 0; f < g.filters; ++f) {
                const T* from = grad + (i * g.filters + f) * pixels;
                const T* weights = w + (group * g.filters + f) * taps;
                runs(g, [&](int64_t tap, int64_t out, int64_t in, int64_t length) {
                    loops.spread(to + in, from + out, weights[tap], length, g.stride[2]);
                });
            }
        }
    });
}

template <class T>
void depthwise_backward_weight(const ConvGeometry& g, const T* grad, const T* x, T* gw) {
    if (flat(g)) return flat_backward_weight(g, grad, x, gw);
    const NnLoops<T>& loops = nn_loops<T>();
    int64_t filters = g.groups * g.filters, pixels = g.out_plane(), plane = g.in_plane(), taps = g.taps();
    parallel_for(filters, grain_of(pixels * taps * g.batch), [&](int64_t begin, int64_t end) {
        for (int64_t filter = begin; filter < end; ++filter) {
            T* to = gw + filter * taps;
            std::fill_n(to, taps, T(0));
            for (int64_t n = 0; n < g.batch; ++n) {
                const T* from = x + (n * g.groups + filter / g.filters) * plane;
                const T* gradient = grad + (n * filters + filter) * pixels;
                runs(g, [&](int64_t tap, int64_t out, int64_t in, int64_t length) {
                    to[tap] += loops.dot(gradient + out, from + in, length, g.stride[2]);
                });
            }
        }
    });
}

#define MT_DEPTHWISE(T)                                                                                       \
    template void depthwise_forward<T>(const ConvGeometry&, const T*, const T*, const T*, T*, const Finish&); \
    template void depthwise_backward_input<T>(const ConvGeometry&, const T*, const T*, T*);                   \
    template void depthwise_backward_weight<T>(const ConvGeometry&, const T*, const T*, T*);
MT_DEPTHWISE(float)
MT_DEPTHWISE(double)

}  // namespace mt::cpu
