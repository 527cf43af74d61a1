// Counts of in-place writes, by which the tape knows whether what it saved is still as it was.
#pragma once

#include "core/tensor.h"

namespace mt {

// A tensor's storage counts, for all that show it. Tensors that `.data` gave, or was set of, and their views have a
// count of their own.
struct VersionCounter {
    uint32_t refcount = 1;
    uint32_t value = 0;
    static Ref<VersionCounter> from(uint32_t value) {
        auto* counter = new (Pool<sizeof(VersionCounter)>::take()) VersionCounter;
        counter->value = value;
        return Ref<VersionCounter>(counter);
    }
    static void destroy(VersionCounter* counter) { Pool<sizeof(VersionCounter)>::give(counter); }
};

// Of a tensor with an AutogradMeta; installed by autograd/.
extern uint32_t& (*version_callback)(const Tensor& tensor);
inline uint32_t& version_of(const Tensor& tensor) {
    return tensor.autograd ? version_callback(tensor) : tensor.storage->version;
}

// Whether one reference is all that leads to the tensor and its memory.
inline bool owned_once(const Tensor& tensor) {
    const Storage& storage = *tensor.storage;
    return tensor.refcount == 1 &&
           (storage.refcount == 1 || (storage.refcount == 2 && tensor.base && tensor.base->refcount == 1 &&
                                      tensor.base->storage.get() == &storage));
}

}  // namespace mt
