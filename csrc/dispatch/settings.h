// What a thread and the process have set of how calls are made. For whoever makes calls; inference, kernels and replay
// have `Call::ambient` and must not include this.
#pragma once

#include <atomic>
#include <utility>

#include "core/ambient.h"
#include "core/device.h"
#include "core/ref.h"
#include "dispatch/override_state.h"

namespace mt {

// A member that changes what a function does has to be in its words, which is all that guards compare.
struct ThreadSettings {
    bool grad_enabled = true;
    bool inference_mode = false;
    Device default_device;  // where this thread makes tensors that say nothing of it

    // In inference mode nothing is recorded, whatever enable_grad says.
    bool records_gradients() const { return grad_enabled && !inference_mode; }
    constexpr uint32_t word() const { return __builtin_bit_cast(uint32_t, *this); }
};
static_assert(sizeof(ThreadSettings) == sizeof(uint32_t));
extern MT_THREAD_LOCAL ThreadSettings thread_settings;

extern std::atomic<Ambient> process_ambient;
extern MT_THREAD_LOCAL Ambient* pinned_ambient;  // in a kernel that is Python's: its call's; else null
// What calls of this moment carry.
inline Ambient ambient() {
    return __builtin_expect(pinned_ambient != nullptr, 0) ? *pinned_ambient
                                                          : process_ambient.load(std::memory_order_relaxed);
}
void set_ambient(Ambient ambient);

inline DType default_dtype() { return ambient().default_dtype(); }
inline Device default_device() { return thread_settings.default_device; }

// Everything that a function which runs now may see: what a program of it is for.
inline uint64_t settings_word() { return uint64_t{ambient().word()} << 32 | thread_settings.word(); }

// For kernels and shape rules in Python, which make calls: nothing is set for its lifetime but what their call carries,
// whatever the thread that runs them has set by now.
class CarriedSettings {
  public:
    explicit CarriedSettings(Ambient carried)
        : ambient_(carried), pinned_(std::exchange(pinned_ambient, &ambient_)),
          previous_(std::exchange(thread_settings, ThreadSettings())) {
        thread_settings.grad_enabled = false;
    }
    ~CarriedSettings() {
        thread_settings = previous_;
        pinned_ambient = pinned_;
    }
    CarriedSettings(const CarriedSettings&) = delete;

  private:
    OverridesOff overrides_off_;
    Ambient ambient_;
    Ambient* pinned_;
    ThreadSettings previous_;
};

// Whether gradients are on, for its lifetime.
class GradMode {
  public:
    explicit GradMode(bool enabled) : previous_(std::exchange(thread_settings.grad_enabled, enabled)) {}
    ~GradMode() { thread_settings.grad_enabled = previous_; }
    GradMode(const GradMode&) = delete;

  private:
    bool previous_;
};

}  // namespace mt
