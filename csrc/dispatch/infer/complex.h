// Inference of the ops on complex numbers and their parts.
#pragma once

#include "dispatch/op.h"

namespace mt {

void infer_conj(Call& call);
void infer_sgn(Call& call);
void infer_angle(Call& call);
void infer_complex(Call& call);
void infer_polar(Call& call);
void infer_view_as_real(Call& call);
void infer_view_as_complex(Call& call);
void infer_view_dtype(Call& call);

// Throws what PyTorch says of an op that complex numbers have no meaning for.
void refuse_complex(DType dtype, const char* message);

}  // namespace mt
