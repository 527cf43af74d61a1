#include "kernels/cpu/conv_depthwise.h"

#include "kernels/cpu/index_strided.h"
#include "kernels/cpu/nn_loops.h"

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

}  // namespace

template <class T>
void depthwise_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y) {
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
        }
    });
}

template <class T>
void depthwise_backward_input(const ConvGeometry& g, const T* grad, const T* w, T* gx) {
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

#define MT_DEPTHWISE(T)                                                                        \
    template void depthwise_forward<T>(const ConvGeometry&, const T*, const T*, const T*, T*); \
    template void depthwise_backward_input<T>(const ConvGeometry&, const T*, const T*, T*);    \
    template void depthwise_backward_weight<T>(const ConvGeometry&, const T*, const T*, T*);
MT_DEPTHWISE(float)
MT_DEPTHWISE(double)

}  // namespace mt::cpu
