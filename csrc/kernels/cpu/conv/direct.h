// Convolutions without the matrix of patches.
#pragma once

#include "kernels/cpu/conv/finish.h"
#include "kernels/cpu/conv/geometry.h"

namespace mt::cpu {

// Whether vectors of filters take less time than vectors of output positions. Either gives the same bits.
template <class T>
bool suits_direct_forward(const ConvGeometry& g);

template <class T>
void direct_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish);

}  // namespace mt::cpu
