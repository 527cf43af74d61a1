// What a convolution computes, with one to three spatial dimensions brought to three, and the moves between an image
// and the matrix of its patches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/small_vector.h"

namespace mt::cpu {

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

    // col[row * ld + p - p0]: the patches of output positions [p0, p1), for channels [c0, c1) of the image x.
    template <class T>
    void gather(T* col, int64_t ld, const T* x, int64_t c0, int64_t c1, int64_t p0, int64_t p1) const {
        int64_t plane = in_plane(), step = stride[2];
        const T* image_end = x + c1 * plane;
        segments(c0, c1, p0, p1,
                 [&](int64_t row, int64_t c, int64_t at, int64_t low, int64_t high, int64_t length, int64_t from) {
                     T* to = col + row * ld + at;
                     const T* source = x + c * plane + from;
                     // A short run as one or two blocks: what lies behind it in the row is written afterwards.
                     constexpr int64_t kBlock = 64 / sizeof(T);
                     bool room = step == 1 && length <= 2 * kBlock && at + 2 * kBlock <= p1 - p0 &&
                                 source - low + 2 * kBlock <= image_end && from >= low;
                     if (room) {
                         std::memcpy(to, source - low, 64);
                         if (length > kBlock) std::memcpy(to + kBlock, source - low + kBlock, 64);
                         for (int64_t j = 0; j < low; ++j) to[j] = T(0);
                         for (int64_t j = high; j < length; ++j) to[j] = T(0);
                         return;
                     }
                     for (int64_t j = 0; j < low; ++j) to[j] = T(0);
                     if (step == 1)
                         for (int64_t j = low; j < high; ++j) to[j] = source[j - low];
                     else
                         for (int64_t j = low; j < high; ++j) to[j] = source[(j - low) * step];
                     for (int64_t j = high; j < length; ++j) to[j] = T(0);
                 });
    }

    // Adds the patches of output positions [p0, p1) to the image x.
    template <class T>
    void scatter(T* x, const T* col, int64_t ld, int64_t c0, int64_t c1, int64_t p0, int64_t p1) const {
        int64_t plane = in_plane(), step = stride[2];
        segments(c0, c1, p0, p1,
                 [&](int64_t row, int64_t c, int64_t at, int64_t low, int64_t high, int64_t, int64_t from) {
                     const T* source = col + row * ld + at;
                     T* to = x + c * plane + from;
                     if (step == 1)
                         for (int64_t j = low; j < high; ++j) to[j - low] += source[j];
                     else
                         for (int64_t j = low; j < high; ++j) to[(j - low) * step] += source[j];
                 });
    }
};

}  // namespace mt::cpu
