// Vectors of a few elements that are made and dropped with every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "core/ref.h"

namespace mt {

// Memory of blocks that the thread recycles.
inline void* take_pooled(size_t bytes) {
    return bytes <= 64    ? Pool<64>::take()
           : bytes <= 128 ? Pool<128>::take()
           : bytes <= 256 ? Pool<256>::take()
           : bytes <= 512 ? Pool<512>::take()
                          : ::operator new(bytes);
}
inline void give_pooled(void* memory, size_t bytes) noexcept {
    if (bytes <= 64) Pool<64>::give(memory);
    else if (bytes <= 128) Pool<128>::give(memory);
    else if (bytes <= 256) Pool<256>::give(memory);
    else if (bytes <= 512) Pool<512>::give(memory);
    else ::operator delete(memory);
}

// A vector whose first elements may lie in memory that its owner lends it, and which outlives it.
template <class T>
class LentVector {
    static_assert(alignof(T) <= 16 && std::is_nothrow_move_constructible_v<T>);

  public:
    LentVector() = default;
    LentVector(const LentVector&) = delete;
    ~LentVector() {
        clear();
        give_back();
    }
    LentVector& operator=(const LentVector& other) {
        if (this == &other) return *this;
        clear();
        reserve(other.size_);
        for (const T& value : other) emplace_back(value);
        return *this;
    }

    // Before there is any element: memory for so many.
    void lend(void* memory, size_t count) {
        data_ = static_cast<T*>(memory);
        capacity_ = static_cast<uint32_t>(count);
    }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T& back() { return data_[size_ - 1]; }
    const T& back() const { return data_[size_ - 1]; }

    void reserve(size_t count) {
        if (count > capacity_) grow(count);
    }
    template <class... Args>
    T& emplace_back(Args&&... args) {
        if (__builtin_expect(size_ == capacity_, 0)) grow(size_ + 1);
        T* made = ::new (static_cast<void*>(data_ + size_)) T{std::forward<Args>(args)...};
        ++size_;
        return *made;
    }
    void push_back(T value) { emplace_back(std::move(value)); }
    void resize(size_t count) {
        reserve(count);
        while (size_ < count) ::new (static_cast<void*>(data_ + size_++)) T{};
        while (size_ > count) data_[--size_].~T();
    }
    void assign(const T* first, const T* last) {
        clear();
        reserve(static_cast<size_t>(last - first));
        for (; first != last; ++first) emplace_back(*first);
    }
    void clear() {
        // What an element's end runs may see this vector, which has it no longer.
        while (size_) data_[--size_].~T();
    }

  private:
    [[gnu::noinline]] void grow(size_t count) {
        const size_t capacity = count > 2 * size_t{capacity_} ? count : 2 * size_t{capacity_};
        T* grown = static_cast<T*>(take_pooled(capacity * sizeof(T)));
        for (uint32_t i = 0; i < size_; ++i) {
            ::new (static_cast<void*>(grown + i)) T(std::move(data_[i]));
            data_[i].~T();
        }
        give_back();
        data_ = grown;
        capacity_ = static_cast<uint32_t>(capacity);
        owned_ = true;
    }
    void give_back() {
        if (__builtin_expect(owned_, 0)) give_pooled(data_, capacity_ * sizeof(T));
    }

    T* data_ = nullptr;
    uint32_t size_ = 0;
    uint32_t capacity_ : 31 = 0;
    uint32_t owned_ : 1 = false;
};

}  // namespace mt
