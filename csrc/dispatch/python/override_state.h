// Who takes calls over by `__torch_function__`: what the process and a thread know of it.
#pragma once

#include <utility>

#include "core/ref.h"

namespace mt {

// How many modes are on in all threads, and one if there ever was an object of a class of tensors that overrides.
// Written with the GIL.
inline int overriders = 0;

enum class Overrides : int { On, ModesOnly, Off };
inline MT_THREAD_LOCAL Overrides overrides = Overrides::On;

// For what the framework itself calls in Python: gradients, rules, kernels.
class OverridesOff {
  public:
    OverridesOff() : previous_(std::exchange(overrides, Overrides::Off)) {}
    ~OverridesOff() { overrides = previous_; }
    OverridesOff(const OverridesOff&) = delete;

  private:
    Overrides previous_;
};

}  // namespace mt
