// Convolutions in which every filter sees one channel: rows are added up directly.
#pragma once

#include "kernels/cpu/conv/finish.h"
#include "kernels/cpu/conv/geometry.h"

namespace mt::cpu {

inline bool is_depthwise(const ConvGeometry& g) { return g.channels == 1 && g.groups > 1; }

template <class T>
void depthwise_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish);
template <class T>
void depthwise_backward_input(const ConvGeometry& g, const T* grad, const T* w, T* gx);
template <class T>
void depthwise_backward_weight(const ConvGeometry& g, const T* grad, const T* x, T* gw);

}  // namespace mt::cpu
