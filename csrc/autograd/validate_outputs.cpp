#include "autograd/validate_outputs.h"

#include "autograd/engine.h"
#include "core/error.h"
#include "dispatch/jit_device.h"

namespace mt {

namespace {

// Numbers go to any device that has memory, and what the JIT's devices compute comes back by itself.
void check_device(const Tensor& gradient, Device expected, const std::string& what) {
    const Device device = home_of(gradient);
    if (device.type == expected.type && (device.index == expected.index || !on_gpu(device))) return;
    const bool from_meta = device.type == DeviceType::Meta, to_meta = expected.type == DeviceType::Meta;
    if (from_meta && gradient.ndim() == 0)
        throw Error(ErrorKind::NotImplemented, "Cannot copy out of meta tensor; no data!");
    if (gradient.ndim() == 0) return;
    if (!from_meta && !to_meta && (is_jit_device(device) || is_jit_device(expected))) return;
    fail(what + " - expected device " + device_text(expected) + " but got " + device_text(device));
}

}  // namespace

bool expands_to(const Dims& from, const Dims& to) {
    if (from.size() > to.size()) return false;
    size_t lead = to.size() - from.size();
    for (size_t i = 0; i < from.size(); ++i)
        if (from[i] != 1 && from[i] != to[lead + i]) return false;
    return true;
}

Ref<Tensor> fit_slowly(Ref<Tensor> gradient, const OperandMeta& meta, const GradNode* sender, size_t index) {
    const std::string what = (sender ? "Function " + node_name(*sender) + " returned an " : std::string()) +
                             "invalid gradient at index " + std::to_string(index);
    if (!(gradient->sizes == meta.sizes) && !expands_to(meta.sizes, gradient->sizes))
        fail(what + " - got " + to_string(gradient->sizes) + " but expected shape compatible with " +
             to_string(meta.sizes));
    if (is_complex(gradient->dtype) && !is_complex(meta.dtype))
        fail(what + " - got " + info(gradient->dtype).name + ", a complex number, for " + info(meta.dtype).name);
    check_device(*gradient, meta.device, what);
    return reduce_to_operand(std::move(gradient), meta);
}

}  // namespace mt
