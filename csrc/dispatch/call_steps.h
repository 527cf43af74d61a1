// What calls that give new tensors and calls in place have in common.
#pragma once

#include "dispatch/call.h"

namespace mt {

inline bool same_device(Device a, Device b) { return a.type == b.type && (a.index == b.index || !on_gpu(a)); }

// The device of the results: the operands' one device (0-d CPU tensors go anywhere), or the `device` parameter.
Device result_device(const Call& call);
// Inputs that a recorder left pending are computed now, before a kernel reads them. True if any was: other threads may
// have run meanwhile, so what was inferred of the operands may not hold any more.
bool need_operands(Call& call);
// What a kernel will refuse when it runs is refused when it's recorded: complex numbers, where it has no loops for
// them.
void check_recordable(const Call& call);

inline bool reads_float8(const Call& call) {
    if (!float8_was_named.load(std::memory_order_relaxed)) return false;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor; t && is_float8(t->dtype)) return true;
    return false;
}

// Whether an inferred call reads or gives floats of eight bits: it then runs at once, and on the CPU.
// NotImplementedError for an op that doesn't take them.
bool checked_float8(const Call& call);
void refuse_float8_on(Device device);
// Notes for a function that is recorded what its ops get.
void touch_operands(const Call& call);

}  // namespace mt
