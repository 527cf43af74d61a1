// What a convolution computes, with one to three spatial dimensions brought to three, and the moves between an image
// and the matrix of its patches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/small_vector.h"
#include "kernels/cpu/elementwise/wrapping.h"
#include "kernels/cpu/nn/loops.h"

namespace mt::cpu {

// Copies n elements: short runs in blocks of four, the last of which may overlap the one before, without a call.
template <class T>
inline void copy_run(T* to, const T* from, int64_t n) {
    constexpr size_t kFour = 4 * sizeof(T);
    if (n > 64) {
        std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    } else if (n >= 4) {
        int64_t i = 0;
        for (; i + 4 <= n; i += 4) std::memcpy(to + i, from + i, kFour);
        if (i < n) std::memcpy(to + n - 4, from + n - 4, kFour);
    } else {
        if (n > 0) to[0] = from[0];
        if (n > 1) to[1] = from[1];
        if (n > 2) to[2] = from[2];
    }
}

struct ConvGeometry {
    int64_t batch = 1, groups = 1;
    int64_t channels = 0, filters = 0;  // of one group: of the input and of the output
    int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
    int64_t stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};

    // Sizes [N, C, ...] of the input and [N, O, ...] of the output; [O, C / groups, ...] of the weight.
    ConvGeometry(const Dims& input, const Dims& weight, const Dims& output, const Dims& strides, const Dims& paddings,
                 const Dims& dilations, int64_t group_count)
        : batch(input[0]), groups(group_count), channels(weight[1]),
          filters(group_count ? weight[0] / group_count : 0) {
        size_t rank = input.size() - 2, lead = 3 - rank;
        for (size_t d = 0; d < rank; ++d) {
            in[lead + d] = input[2 + d];
            out[lead + d] = output[2 + d];
            kernel[lead + d] = weight[2 + d];
            stride[lead + d] = strides[d];
            padding[lead + d] = paddings[d];
            dilation[lead + d] = dilations[d];
        }
    }

    int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
    int64_t in_plane() const { return in[0] * in[1] * in[2]; }
    int64_t out_plane() const { return out[0] * out[1] * out[2]; }
    int64_t patch() const { return channels * taps(); }  // rows of the matrix of patches
    // Whether the matrix of patches is the image itself.
    bool pointwise() const {
        for (int d = 0; d < 3; ++d)
            if (kernel[d] != 1 || stride[d] != 1 || padding[d] != 0) return false;
        return true;
    }
    // The range of output positions along dimension d for which tap k lies inside the image.
    void inside(int d, int64_t k, int64_t* low, int64_t* high) const {
        int64_t shift = padding[d] - k * dilation[d];  // in = out * stride - shift
        if (stride[d] == 1) {  // without divisions, which take longer than a short run does to copy
            *low = std::clamp(shift, int64_t(0), out[d]);
            *high = std::clamp(in[d] + shift, *low, out[d]);
            return;
        }
        *low = shift > 0 ? std::min((shift + stride[d] - 1) / stride[d], out[d]) : 0;
        int64_t last = in[d] - 1 + shift;
        *high = last < 0 ? 0 : std::min(last / stride[d] + 1, out[d]);
        if (*high < *low) *high = *low;
    }

    // row(r, tap offset in the plane ...) for each row of patches of channels [c0, c1), in segments of output rows:
    // body(row, plane, at, low, high, length, from) covers `length` output positions that begin `at` after p0; those in
    // [low, high) read the plane's elements from, from + stride, ..., the others lie outside the image.
    template <class F>
    void segments(int64_t c0, int64_t c1, int64_t p0, int64_t p1, F body) const {
        int64_t row = 0;
        for (int64_t c = c0; c < c1; ++c)
            for (int64_t kd = 0; kd < kernel[0]; ++kd)
                for (int64_t kh = 0; kh < kernel[1]; ++kh)
                    for (int64_t kw = 0; kw < kernel[2]; ++kw, ++row) {
                        int64_t first, last;
                        inside(2, kw, &first, &last);
                        int64_t ow = p0 % out[2], oh = p0 / out[2] % out[1], od = p0 / out[2] / out[1];
                        for (int64_t p = p0; p < p1;) {
                            int64_t length = std::min(out[2] - ow, p1 - p);
                            int64_t id = od * stride[0] - padding[0] + kd * dilation[0];
                            int64_t ih = oh * stride[1] - padding[1] + kh * dilation[1];
                            int64_t low = 0, high = 0, from = 0;
                            if (id >= 0 && id < in[0] && ih >= 0 && ih < in[1]) {
                                low = std::clamp(first - ow, int64_t(0), length);
                                high = std::clamp(last - ow, low, length);
                                from = (id * in[1] + ih) * in[2] + (ow + low) * stride[2] - padding[2] +
                                       kw * dilation[2];
                            }
                            body(row, c, p - p0, low, high, length, from);
                            p += length;
                            ow = 0;
                            if (++oh == out[1]) {
                                oh = 0;
                                ++od;
                            }
                        }
                    }
    }

    // Whether rows of output positions read, and are made of, runs of the image's elements.
    bool in_runs() const { return stride[2] == 1 && in[0] == 1 && kernel[0] == 1 && out[0] == 1; }

    // col[row * ld + p - p0]: the patches of output positions [p0, p1), for channels [c0, c1) of the image x.
    template <class T>
    void gather(T* col, int64_t ld, const T* x, int64_t c0, int64_t c1, int64_t p0, int64_t p1) const {
        int64_t width = out[2];
        if (!in_runs() || p0 == p1) return gather_segments(col, ld, x, c0, c1, p0, p1);
        // Whole rows, and what is before and behind them.
        int64_t from = std::min((p0 + width - 1) / width * width, p1), to = std::max(p1 / width * width, from);
        if (p0 < from) gather_segments(col, ld, x, c0, c1, p0, from);
        if (from < to) gather_rows(col + (from - p0), ld, x, c0, c1, from / width, to / width);
        if (to < p1) gather_segments(col + (to - p0), ld, x, c0, c1, to, p1);
    }

    template <class T>
    void gather_segments(T* col, int64_t ld, const T* x, int64_t c0, int64_t c1, int64_t p0, int64_t p1) const {
        int64_t plane = in_plane(), step = stride[2];
        segments(c0, c1, p0, p1,
                 [&](int64_t row, int64_t c, int64_t at, int64_t low, int64_t high, int64_t length, int64_t from) {
                     T* to = col + row * ld + at;
                     const T* source = x + c * plane + from;
                     if (low) std::fill_n(to, low, T(0));
                     if (step == 1) copy_run(to + low, source, high - low);
                     else if (step == 2)
                         for (int64_t j = low; j < high; ++j) to[j] = source[(j - low) * 2];
                     else
                         for (int64_t j = low; j < high; ++j) to[j] = source[(j - low) * step];
                     if (high < length) std::fill_n(to + high, length - high, T(0));
                 });
    }

    // The same for rows [h0, h1) of output positions, in runs.
    template <class T>
    void gather_rows(T* col, int64_t ld, const T* x, int64_t c0, int64_t c1, int64_t h0, int64_t h1) const {
        int64_t low, high, top, bottom, width = out[2];
        for (int64_t c = c0; c < c1; ++c)
            for (int64_t kh = 0; kh < kernel[1]; ++kh)
                for (int64_t kw = 0; kw < kernel[2]; ++kw, col += ld) {
                    inside(1, kh, &top, &bottom);
                    inside(2, kw, &low, &high);
                    top = std::clamp(top, h0, h1);
                    bottom = std::clamp(bottom, top, h1);
                    T* to = col;
                    const T* from = x + (c * in[1] + top * stride[1] - padding[1] + kh * dilation[1]) * in[2] + low -
                                    padding[2] + kw * dilation[2];
                    if (top > h0) std::fill_n(to, (top - h0) * width, T(0));
                    to += (top - h0) * width;
                    int64_t rows = bottom - top, step = stride[1] * in[2];
                    if constexpr (std::is_floating_point_v<T>)
                        nn_loops<T>().copy_runs(to + low, width, from, step, high - low, rows);
                    else
                        for (int64_t r = 0; r < rows; ++r) copy_run(to + r * width + low, from + r * step, high - low);
                    for (int64_t r = 0; r < rows && high - low < width; ++r) {
                        std::fill_n(to + r * width, low, T(0));
                        std::fill_n(to + r * width + high, width - high, T(0));
                    }
                    to += rows * width;
                    if (bottom < h1) std::fill_n(to, (h1 - bottom) * width, T(0));
                }
    }

    // Adds the patches of output positions [p0, p1) to the image x.
    template <class T>
    void scatter(T* x, const T* col, int64_t ld, int64_t c0, int64_t c1, int64_t p0, int64_t p1) const {
        int64_t plane = in_plane(), step = stride[2];
        if constexpr (std::is_floating_point_v<T>) {
            if (in_runs() && p0 < p1) return scatter_runs(x, col, ld, c0, c1, p0, p1);
        }
        segments(c0, c1, p0, p1,
                 [&](int64_t row, int64_t c, int64_t at, int64_t low, int64_t high, int64_t, int64_t from) {
                     const T* source = col + row * ld + at;
                     T* to = x + c * plane + from;
                     for (int64_t j = low; j < high; ++j)
                         to[(j - low) * step] = sum_of(to[(j - low) * step], source[j]);
                 });
    }

    // The same, row of patches by row of patches, since each adds to an element once.
    template <class T>
    void scatter_runs(T* x, const T* col, int64_t ld, int64_t c0, int64_t c1, int64_t p0, int64_t p1) const {
        const auto add = nn_loops<T>().add_runs;
        int64_t width = out[2], h0 = p0 / width, h1 = (p1 + width - 1) / width, step = stride[1] * in[2];
        int64_t low, high, top, bottom;
        for (int64_t c = c0; c < c1; ++c)
            for (int64_t kh = 0; kh < kernel[1]; ++kh)
                for (int64_t kw = 0; kw < kernel[2]; ++kw, col += ld) {
                    inside(1, kh, &top, &bottom);
                    inside(2, kw, &low, &high);
                    const T* from = col - p0;  // of position 0
                    T* to = x + (c * in[1] - padding[1] + kh * dilation[1]) * in[2] - padding[2] + kw * dilation[2];
                    // Rows of output positions [first, last), of which [start, end).
                    const auto rows = [&](int64_t first, int64_t last, int64_t start, int64_t end) {
                        first = std::max(first, top);
                        last = std::min(last, bottom);
                        if (first < last && start < end)
                            add(to + first * step + start, step, from + first * width + start, width, end - start,
                                last - first);
                    };
                    int64_t start = p0 - h0 * width, end = p1 - (h1 - 1) * width;
                    if (h1 - h0 == 1) {
                        rows(h0, h1, std::max(low, start), std::min(high, end));
                        continue;
                    }
                    rows(h0, h0 + 1, std::max(low, start), high);
                    rows(h0 + 1, h1 - 1, low, high);
                    rows(h1 - 1, h1, low, std::min(high, end));
                }
    }
};

}  // namespace mt::cpu
