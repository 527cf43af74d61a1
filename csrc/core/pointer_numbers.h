// Numbers for what pointers point to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/hash.h"

namespace mt {

// A table from pointers to numbers that is cleared at no cost.
class PointerNumbers {
  public:
    void clear() {
        count_ = 0;
        if (++round_ == 0) {
            slots_.clear();
            round_ = 1;
        }
    }
    // The number of `key`, `next` if it is new; and whether it is.
    std::pair<uint32_t*, bool> add(const void* key, uint32_t next) {
        if (2 * count_ >= slots_.size()) grow();
        Slot& slot = *slot_of(key);
        if (slot.round == round_) return {&slot.number, false};
        slot = {key, next, round_};
        ++count_;
        return {&slot.number, true};
    }
    // Null if it has none.
    const uint32_t* find(const void* key) const {
        if (slots_.empty()) return nullptr;
        const Slot* slot = const_cast<PointerNumbers*>(this)->slot_of(key);
        return slot->round == round_ ? &slot->number : nullptr;
    }

  private:
    struct Slot {
        const void* key = nullptr;
        uint32_t number = 0, round = 0;
    };
    // Where it is, or would be.
    Slot* slot_of(const void* key) {
        const size_t mask = slots_.size() - 1;
        for (size_t at = mixed(0, reinterpret_cast<uintptr_t>(key)) & mask;; at = (at + 1) & mask)
            if (Slot& slot = slots_[at]; slot.round != round_ || slot.key == key) return &slot;
    }
    [[gnu::noinline]] void grow() {
        std::vector<Slot> before(std::max<size_t>(2 * slots_.size(), 64));
        std::swap(before, slots_);
        count_ = 0;
        for (const Slot& slot : before)
            if (slot.round == round_) add(slot.key, slot.number);
    }

    std::vector<Slot> slots_;
    uint32_t round_ = 1;
    size_t count_ = 0;
};

}  // namespace mt
