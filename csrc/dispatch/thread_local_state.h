// What a thread and the process have set of how calls are made. For whoever makes calls; inference, kernels and replay
// have `Call::ambient` and must not include this.
#pragma once

#include <atomic>
#include <utility>

#include "core/ambient.h"
#include "core/device.h"
#include "core/ref.h"
#include "dispatch/python/override_state.h"

namespace mt {

// A member that changes what a function does has to be in its words, which is all that guards compare.
struct ThreadSettings {
    bool grad_enabled = true;
    bool inference_mode : 1 = false;
    // A derivative that goes forward is being taken, which no_grad doesn't stop: it only has what is recorded marked,
    // as `forward_only`, for passes that go backward end there.
    bool forward_mode : 1 = false;
    bool forward_only : 1 = false;
    bool any_grad_layout : 1 = false;  // gradients that are handed over stay as they lie in memory
    uint8_t none : 4 = 0;
    Device default_device;  // where this thread makes tensors that say nothing of it
    // Of autocast, for the CPU and for GPUs: whether it is on (bits 0 and 1), and the dtypes that it lowers to (four
    // bits each). Bit 2: casts of leaves are kept.
    uint8_t autocast = kAutocastCache;
    uint8_t autocast_dtypes = static_cast<uint8_t>(DType::BF16) | static_cast<uint8_t>(DType::F16) << 4;
    uint16_t unused = 0;

    static constexpr uint8_t kAutocastOn = 3, kAutocastCache = 4;
    bool autocasts() const { return autocast & kAutocastOn; }
    bool autocasts(bool gpu) const { return autocast >> int{gpu} & 1; }
    DType autocast_dtype(bool gpu) const {
        const int number = autocast_dtypes >> (gpu ? 4 : 0) & 15;
        if (number >= static_cast<int>(DType::Count)) __builtin_unreachable();
        return static_cast<DType>(number);
    }
    // In inference mode nothing is recorded, whatever enable_grad says.
    bool records_gradients() const { return grad_enabled && !inference_mode; }
    // What is_grad_enabled says.
    bool records_backward() const { return grad_enabled && !forward_only; }
    constexpr uint64_t word() const { return __builtin_bit_cast(uint64_t, *this); }
};
static_assert(sizeof(ThreadSettings) == sizeof(uint64_t) && static_cast<int>(DType::C128) < 16);
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
// The ambient word has 16 bits, which the thread's leaves free.
inline uint64_t settings_word() { return uint64_t{ambient().word()} << 48 | thread_settings.word(); }

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

// What no_grad and enable_grad set, together.
struct Recording {
    bool grad_enabled, forward_only;

    static Recording now() { return {thread_settings.grad_enabled, thread_settings.forward_only}; }
    // What is not recorded at all stays so.
    static Recording as(bool backward) {
        const bool forward = thread_settings.forward_mode && thread_settings.grad_enabled;
        return {backward || forward, !backward && forward};
    }
    void set() const {
        thread_settings.grad_enabled = grad_enabled;
        thread_settings.forward_only = forward_only;
    }
};

// What is recorded, for its lifetime.
class RecordingScope {
  public:
    explicit RecordingScope(Recording recording) : previous_(Recording::now()) { recording.set(); }
    ~RecordingScope() { previous_.set(); }
    RecordingScope(const RecordingScope&) = delete;

  private:
    Recording previous_;
};

// Whether anything is recorded, for its lifetime.
class GradMode {
  public:
    explicit GradMode(bool enabled) : previous_(std::exchange(thread_settings.grad_enabled, enabled)) {}
    ~GradMode() { thread_settings.grad_enabled = previous_; }
    GradMode(const GradMode&) = delete;

  private:
    bool previous_;
};

// Autocast is off for its lifetime.
class NoAutocast {
  public:
    NoAutocast()
        : previous_(std::exchange(thread_settings.autocast, thread_settings.autocast & ~ThreadSettings::kAutocastOn)) {}
    ~NoAutocast() { thread_settings.autocast = previous_; }
    NoAutocast(const NoAutocast&) = delete;

  private:
    uint8_t previous_;
};

}  // namespace mt
