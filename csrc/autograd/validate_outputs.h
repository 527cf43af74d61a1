// Gradients as they enter the engine: seeds, and what formulas and custom functions return.
#pragma once

#include "autograd/tape.h"

namespace mt {

bool expands_to(const Dims& from, const Dims& to);

// `gradient` in the shape and dtype of the result it is of, which `meta` describes; throws where it is the gradient of
// something else. It is number `index` of what `sender`, null for the user, gave.
Ref<Tensor> fit_slowly(Ref<Tensor> gradient, const OperandMeta& meta, const GradNode* sender, size_t index);
inline Ref<Tensor> fit(Ref<Tensor> gradient, const OperandMeta& meta, const GradNode* sender, size_t index) {
    if (gradient->sizes == meta.sizes && gradient->dtype == meta.dtype && home_of(*gradient) == meta.device)
        return gradient;
    return fit_slowly(std::move(gradient), meta, sender, index);
}

}  // namespace mt
