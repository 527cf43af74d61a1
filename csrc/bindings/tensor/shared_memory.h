// Memory that tensors share with other libraries: what the buffer protocol, DLPack and mt.tensor have in common.
#pragma once

#include "bindings/py.h"

namespace mt::py {

// Throws "Cannot `what`: ..." for a tensor without data.
void no_meta(const Tensor& tensor, const char* what);
// The memory, for somebody outside to read and write: other threads' recorded reads of it get a copy first.
DeviceAddress reachable_place(Tensor& tensor);
// A tensor over an object's buffer, which it keeps alive; `strict` refuses strides that PyTorch refuses.
Ref<Tensor> from_buffer(PyObject* object, bool strict);
// The tensor as `dtype`, without history; a copy if `copy` or another dtype says so.
Ref<Tensor> cast_to(Ref<Tensor> tensor, DType dtype, bool copy);
// The same as an op that may be recorded.
Ref<Tensor> copied(Ref<Tensor> tensor, DType dtype, bool copy);

}  // namespace mt::py
