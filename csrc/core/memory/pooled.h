// Vectors of a few elements that are made and dropped with every call: their memory is recycled by the thread.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/ref.h"

namespace mt {

template <class T>
struct PoolAllocator {
    using value_type = T;
    PoolAllocator() = default;
    template <class Other>
    PoolAllocator(const PoolAllocator<Other>&) {}

    T* allocate(size_t count) {
        const size_t bytes = count * sizeof(T);
        void* memory = bytes <= 64    ? Pool<64>::take()
                       : bytes <= 128 ? Pool<128>::take()
                       : bytes <= 256 ? Pool<256>::take()
                       : bytes <= 512 ? Pool<512>::take()
                                      : ::operator new(bytes);
        return static_cast<T*>(memory);
    }
    void deallocate(T* memory, size_t count) noexcept {
        const size_t bytes = count * sizeof(T);
        if (bytes <= 64) Pool<64>::give(memory);
        else if (bytes <= 128) Pool<128>::give(memory);
        else if (bytes <= 256) Pool<256>::give(memory);
        else if (bytes <= 512) Pool<512>::give(memory);
        else ::operator delete(memory);
    }
    // As a variable without an initialiser is: memory of classes, whose members have initialisers, isn't zeroed before.
    template <class Made, class... Args>
    void construct(Made* at, Args&&... args) {
        if constexpr (sizeof...(Args) == 0 && std::is_class_v<Made>) ::new (at) Made;
        else ::new (at) Made(std::forward<Args>(args)...);
    }
    bool operator==(const PoolAllocator&) const { return true; }
};

template <class T>
using PooledVector = std::vector<T, PoolAllocator<T>>;

}  // namespace mt
