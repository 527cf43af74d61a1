// The devices jit_cpu and jit_gpu: memory of their own, and only compiled code. An op is placed there if an operand is
// there, or if it is the default device; what it reads from the CPU is copied in, and what goes to the CPU is copied
// out.
#pragma once

#include "dispatch/call.h"

namespace mt {

inline bool is_jit_device(Device device) {
    return device.type == DeviceType::JitCPU || device.type == DeviceType::JitGPU;
}
inline bool on_jit_device(const Tensor& tensor) { return is_jit_device(tensor.device()); }

// Records a call on `call.device`, or one in place, that must be compiled; installed by trace/.
extern void (*run_on_jit_device)(Call& call, Ref<Tensor>* results, Tensor* destination);

// The tensor's elements in new memory of a device, row-major, without history. Noted in the profile.
Ref<Tensor> copy_across(const Tensor& tensor, Device device);
// The same for ops of the user's: a call of `clone` whose result is on that device, with its gradient.
Ref<Tensor> clone_to(Tensor& tensor, Device device);
// Told of every copy while a profile is being taken: from, to, bytes.
extern void (*copy_profile_callback)(Device from, Device to, int64_t bytes, int64_t start_ns, int64_t end_ns);

// Where `clone_to` wants the result of the call at hand.
extern thread_local const Device* clone_target;

}  // namespace mt
