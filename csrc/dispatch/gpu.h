// Calls on the device cuda. An eager op is a trace of one op that is run at once: its plan is found by its signature.
// While a program is recorded it is a node like those of the CPU.
#pragma once

#include "dispatch/jit_device.h"

namespace mt {

// Runs a call, or one in place, on a GPU; installed by trace/.
extern void (*run_on_gpu_callback)(Call& call, Ref<Tensor>* results, Tensor* destination);

// Whether the host can read the elements where they are.
inline bool on_host(const Tensor& tensor) { return !on_gpu(tensor.device()); }
// A GPU's tensor in host memory with the same strides, where these don't leave it too sparse: what some libraries
// compute depends on them.
Ref<Tensor> copy_as_it_lies(const Tensor& tensor);
// An op whose result's shape depends on the data, or whose kernel is a Python callable of the CPU: it runs over copies
// of its operands.
void run_over_host(Call& call, Ref<Tensor>* results);

}  // namespace mt
