// Convolutions without the matrix of patches.
#pragma once

#include <vector>

#include "kernels/cpu/conv/finish.h"
#include "kernels/cpu/conv/geometry.h"

namespace mt::cpu {

// Rows [h0, h1) of some channels of an image of two dimensions with its padding.
template <class T>
void copy_padded(const ConvGeometry& g, T* to, const T* image, int64_t channels, int64_t h0, int64_t h1) {
    int64_t width = g.in[2] + 2 * g.padding[2], plane = (g.in[1] + 2 * g.padding[1]) * width;
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t h = h0; h < h1; ++h) {
            T* row = to + c * plane + h * width;
            int64_t from = h - g.padding[1];
            if (from < 0 || from >= g.in[1]) {
                std::fill_n(row, width, T(0));
                continue;
            }
            std::fill_n(row, g.padding[2], T(0));
            copy_run(row + g.padding[2], image + (c * g.in[1] + from) * g.in[2], g.in[2]);
            std::fill_n(row + width - g.padding[2], g.padding[2], T(0));
        }
}

// Where the elements of a patch lie in an image with its padding, from the patch's first on.
inline std::vector<int32_t> patch_offsets(const ConvGeometry& g) {
    int64_t width = g.in[2] + 2 * g.padding[2], plane = (g.in[1] + 2 * g.padding[1]) * width;
    std::vector<int32_t> offsets;
    for (int64_t c = 0; c < g.channels; ++c)
        for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
            for (int64_t kw = 0; kw < g.kernel[2]; ++kw)
                offsets.push_back(static_cast<int32_t>(c * plane + kh * g.dilation[1] * width + kw * g.dilation[2]));
    return offsets;
}

// Whether offsets in such images are 32-bit numbers.
inline bool has_offsets(const ConvGeometry& g, int64_t images) {
    return images * g.groups * g.channels * (g.in[1] + 2 * g.padding[1]) * (g.in[2] + 2 * g.padding[2]) < INT32_MAX;
}

// Whether vectors of filters take less time than vectors of output positions. Either gives the same bits.
template <class T>
bool suits_direct_forward(const ConvGeometry& g);

template <class T>
void direct_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish);

// The same with vectors of output positions, which read the image where it lies.
template <class T>
bool suits_plane_forward(const ConvGeometry& g);

template <class T>
void plane_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish);

// How the sums over output positions that a weight's gradient has are cut: into runs of `block` positions of an image,
// of which it has `blocks`, or of some whole images. A run is a product of its own, and runs are added in order.
struct WeightRuns {
    int64_t images, block, blocks;
};

// The gradient of a convolution's weight for few filters, which are the lanes of vectors; the image is read in place.
template <class T>
class DirectWeight {
  public:
    static bool suits(const ConvGeometry& g, const WeightRuns& runs);
    DirectWeight(const ConvGeometry& geometry, const WeightRuns& cut);

    // to[o * ld + row]: the sum of the runs [first, last), for channels [c0, c1) of a group; rows as in the matrix of
    // patches of these channels.
    void add(const T* grad, const T* x, int64_t group, int64_t c0, int64_t c1, int64_t first, int64_t last, T* to,
             int64_t ld) const;

  private:
    const ConvGeometry& g;
    WeightRuns runs;
    int64_t lanes, vectors, width, plane;
    std::vector<int32_t> offsets;  // of output positions
};

}  // namespace mt::cpu
