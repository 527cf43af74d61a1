// The kernels that ops with samples of their own call where the generator is PyTorch's.
#pragma once

#include "dispatch/op.h"

namespace mt::cpu {

void torch_standard_gamma(Call& call);
void torch_sample_dirichlet(Call& call);

}  // namespace mt::cpu
