// Normalisation by the statistics of groups of channels (which covers layers, instances and root mean squares) and of
// channels over a batch. Work is cut by shapes only, so results do not depend on the number of threads.
#include <cmath>
#include <vector>

#include "dispatch/infer/nn/norm.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/nn/loops.h"

namespace mt::cpu {

namespace {

// Smaller types are computed in float32.
template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

constexpr int64_t kColumnBlock = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t plane_of(const Dims& sizes) {
    int64_t plane = 1;
    for (size_t d = 2; d < sizes.size(); ++d) plane *= sizes[d];
    return plane;
}

// An optional vector of one value for each channel, converted.
template <class T>
struct ChannelVector {
    Scratch memory;
    const T* data = nullptr;
    ChannelVector(const Call& call, size_t operand) {
        if (operand >= call.operand_count || !call.operands[operand].tensor) return;
        const Tensor& t = call.in(operand);
        pack(memory.reserve(static_cast<size_t>(t.numel) * sizeof(T)), DTypeOf<T>::value, t);
        data = memory.as<T>();
    }
};

template <class T>
struct Moments {
    T mean = T(0), rstd = T(0);
};

template <class T>
Moments<T> moments(const T* x, int64_t n, T eps, bool centered) {
    const NnLoops<T>& loops = nn_loops<T>();
    Moments<T> m;
    if (centered) m.mean = loops.sum(x, n) / static_cast<T>(n);
    m.rstd = T(1) / std::sqrt(loops.square_sum(x, m.mean, n) / static_cast<T>(n) + eps);
    return m;
}

void group_norm_kernel(Call& call) {
    const Tensor& x = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        const NnLoops<T>& loops = nn_loops<T>();
        Packed source(x, type);
        ContiguousOut target(out, type);
        ChannelVector<T> weight(call, 1), bias(call, 2);
        int64_t groups = call.param(0).as_int(), channels = x.sizes[1] / groups, plane = plane_of(x.sizes);
        auto eps = static_cast<T>(call.param(1).as_double());
        bool centered = call.param(2).as_bool();
        int64_t n = channels * plane;
        parallel_for(x.sizes[0] * groups, grain_of(n * 3), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const T* row = source.as<T>() + i * n;
                T* to = target.as<T>() + i * n;
                int64_t first = i % groups * channels;
                Moments<T> m = moments(row, n, eps, centered);
                if (plane == 1) {
                    loops.normalize(to, row, m.mean, m.rstd, weight.data ? weight.data + first : nullptr,
                                    bias.data ? bias.data + first : nullptr, n);
                    continue;
                }
                for (int64_t c = 0; c < channels; ++c)
                    loops.affine(to + c * plane, row + c * plane, m.mean,
                                 weight.data ? m.rstd * weight.data[first + c] : m.rstd,
                                 bias.data ? bias.data[first + c] : T(0), plane);
            }
        });
        target.store();
    });
}

// What the gradients of weight and bias are summed up from: one row for each part of the batch.
template <class T>
struct Partials {
    int64_t parts, channels;
    std::vector<T> weight, bias;

    Partials(int64_t parts, int64_t channels)
        : parts(parts), channels(channels), weight(static_cast<size_t>(parts * channels)),
          bias(static_cast<size_t>(parts * channels)) {}

    void store(Tensor& gw, Tensor& gb) {
        total(weight, gw);
        total(bias, gb);
    }

  private:
    void total(const std::vector<T>& from, Tensor& to) {
        ContiguousOut target(to, DTypeOf<T>::value);
        T* sums = target.template as<T>();
        std::fill_n(sums, channels, T(0));
        for (int64_t p = 0; p < parts; ++p)
            for (int64_t c = 0; c < channels; ++c) sums[c] += from[static_cast<size_t>(p * channels + c)];
        target.store();
    }
};

void group_norm_backward_kernel(Call& call) {
    const Tensor &g = call.in(0), &x = call.in(1);
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        const NnLoops<T>& loops = nn_loops<T>();
        Packed gradient(g, type), source(x, type);
        ContiguousOut target(*call.outputs[0], type);
        ChannelVector<T> weight(call, 2);
        int64_t groups = call.param(0).as_int(), all = x.sizes[1], channels = all / groups, plane = plane_of(x.sizes);
        auto eps = static_cast<T>(call.param(1).as_double());
        bool centered = call.param(2).as_bool(), affine = call.param(3).as_bool();
        int64_t n = channels * plane, batch = x.sizes[0];
        // Parts of the batch, each of which sums up its own gradients of weight and bias: one row after the other, so
        // of no more rows than a block of columns has.
        int64_t parts = std::max<int64_t>(1, std::min<int64_t>(64, x.numel / kGrain)), run = 0;
        if (x.numel) run = ceil_div(batch, std::min(batch, std::max(parts, ceil_div(batch, kColumnBlock))));
        parts = run ? ceil_div(batch, run) : 0;
        Partials<T> partials(affine ? std::max<int64_t>(parts, 1) : 0, all);
        parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
            for (int64_t part = begin; part < end; ++part) {
                if (plane == 1 && groups == 1 && n <= kMostShort) {
                    int64_t from = part * run, rows = std::min(run, batch - from);
                    loops.short_rows_backward(
                        target.as<T>() + from * n, affine ? partials.weight.data() + part * all : nullptr,
                        affine ? partials.bias.data() + part * all : nullptr, gradient.as<T>() + from * n,
                        source.as<T>() + from * n, weight.data, eps, centered, rows, n);
                    continue;
                }
                for (int64_t i = part * run * groups; i < std::min(batch, (part + 1) * run) * groups; ++i) {
                    const T *grow = gradient.as<T>() + i * n, *row = source.as<T>() + i * n;
                    T* to = target.as<T>() + i * n;
                    int64_t first = i % groups * channels;
                    T* gw = affine ? partials.weight.data() + part * all + first : nullptr;
                    T* gb = affine ? partials.bias.data() + part * all + first : nullptr;
                    const T* w = weight.data ? weight.data + first : nullptr;
                    Moments<T> m = moments(row, n, eps, centered);
                    T plain = T(0), product = T(0);
                    if (plane == 1) {
                        loops.grad_sums(grow, row, w, m.mean, m.rstd, n, &plain, &product);
                        loops.grad_input(to, grow, row, w, T(1), m.mean, m.rstd,
                                         centered ? plain / static_cast<T>(n) : T(0), product / static_cast<T>(n), n);
                        if (affine) loops.grad_params(gw, gb, grow, row, m.mean, m.rstd, n);
                        continue;
                    }
                    for (int64_t c = 0; c < channels; ++c) {
                        T a, b;
                        loops.grad_sums(grow + c * plane, row + c * plane, nullptr, m.mean, m.rstd, plane, &a, &b);
                        plain += w ? a * w[c] : a;
                        product += w ? b * w[c] : b;
                        if (affine) {
                            gw[c] += b;
                            gb[c] += a;
                        }
                    }
                    for (int64_t c = 0; c < channels; ++c)
                        loops.grad_input(to + c * plane, grow + c * plane, row + c * plane, nullptr, w ? w[c] : T(1),
                                         m.mean, m.rstd, centered ? plain / static_cast<T>(n) : T(0),
                                         product / static_cast<T>(n), plane);
                }
            }
        });
        target.store();
        partials.store(*call.outputs[1], *call.outputs[2]);
    });
}

void batch_norm_stats_kernel(Call& call) {
    const Tensor& x = call.in(0);
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        const NnLoops<T>& loops = nn_loops<T>();
        Packed source(x, type);
        ContiguousOut mean(*call.outputs[0], type), var(*call.outputs[1], type), rstd(*call.outputs[2], type);
        auto eps = static_cast<T>(call.param(0).as_double());
        int64_t batch = x.sizes[0], channels = x.sizes[1], plane = plane_of(x.sizes);
        auto n = static_cast<T>(batch * plane);
        parallel_for(channels, grain_of(batch * plane * 2), [&](int64_t begin, int64_t end) {
            for (int64_t c = begin; c < end; ++c) {
                T total = T(0), squares = T(0);
                for (int64_t i = 0; i < batch; ++i)
                    total += loops.sum(source.as<T>() + (i * channels + c) * plane, plane);
                T m = total / n;
                for (int64_t i = 0; i < batch; ++i)
                    squares += loops.square_sum(source.as<T>() + (i * channels + c) * plane, m, plane);
                mean.as<T>()[c] = m;
                var.as<T>()[c] = squares / n;
                rstd.as<T>()[c] = T(1) / std::sqrt(squares / n + eps);
            }
        });
        mean.store();
        var.store();
        rstd.store();
    });
}

void batch_norm_kernel(Call& call) {
    const Tensor& x = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        const NnLoops<T>& loops = nn_loops<T>();
        Packed source(x, type);
        ContiguousOut target(out, type);
        ChannelVector<T> weight(call, 1), bias(call, 2), mean(call, 3), rstd(call, 4);
        int64_t channels = x.sizes[1], plane = plane_of(x.sizes);
        parallel_for(x.sizes[0] * channels, grain_of(plane), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                int64_t c = i % channels;
                loops.affine(target.as<T>() + i * plane, source.as<T>() + i * plane, mean.data[c],
                             weight.data ? rstd.data[c] * weight.data[c] : rstd.data[c],
                             bias.data ? bias.data[c] : T(0), plane);
            }
        });
        target.store();
    });
}

void batch_norm_backward_kernel(Call& call) {
    const Tensor &g = call.in(0), &x = call.in(1);
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        const NnLoops<T>& loops = nn_loops<T>();
        Packed gradient(g, type), source(x, type);
        ContiguousOut target(*call.outputs[0], type), gw(*call.outputs[1], type), gb(*call.outputs[2], type);
        ChannelVector<T> weight(call, 2), mean(call, 3), rstd(call, 4);
        bool training = call.param(0).as_bool();
        int64_t batch = x.sizes[0], channels = x.sizes[1], plane = plane_of(x.sizes);
        auto n = static_cast<T>(batch * plane);
        parallel_for(channels, grain_of(batch * plane * 4), [&](int64_t begin, int64_t end) {
            for (int64_t c = begin; c < end; ++c) {
                T w = weight.data ? weight.data[c] : T(1), plain = T(0), product = T(0);
                for (int64_t i = 0; i < batch; ++i) {
                    int64_t at = (i * channels + c) * plane;
                    T a, b;
                    loops.grad_sums(gradient.as<T>() + at, source.as<T>() + at, nullptr, mean.data[c], rstd.data[c],
                                    plane, &a, &b);
                    plain += a;
                    product += b;
                }
                T c1 = training ? plain * w / n : T(0), c2 = training ? product * w / n : T(0);
                for (int64_t i = 0; i < batch; ++i) {
                    int64_t at = (i * channels + c) * plane;
                    loops.grad_input(target.as<T>() + at, gradient.as<T>() + at, source.as<T>() + at, nullptr, w,
                                     mean.data[c], rstd.data[c], c1, c2, plane);
                }
                gw.as<T>()[c] = product;
                gb.as<T>()[c] = plain;
            }
        });
        target.store();
        gw.store();
        gb.store();
    });
}

const RegisterNative registered{
    {"group_norm", infer_group_norm, group_norm_kernel},
    {"group_norm_backward", infer_group_norm_backward, group_norm_backward_kernel},
    {"batch_norm_stats", infer_batch_norm_stats, batch_norm_stats_kernel},
    {"batch_norm", infer_batch_norm, batch_norm_kernel},
    {"batch_norm_backward", infer_batch_norm_backward, batch_norm_backward_kernel},
};

}  // namespace

}  // namespace mt::cpu
