// A vector with inline room for N trivially copyable elements; most shapes never touch the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace mt {

template <class T, uint32_t N>
class SmallVector {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    SmallVector() = default;
    SmallVector(std::initializer_list<T> values) { assign(values.begin(), values.size()); }
    SmallVector(size_t count, T value) {
        resize(count);
        for (size_t i = 0; i < count; ++i) data_[i] = value;
    }
    SmallVector(const T* values, size_t count) { assign(values, count); }
    SmallVector(const SmallVector& other) { copy(other); }
    SmallVector(SmallVector&& other) noexcept { take(other); }
    ~SmallVector() { release(); }

    SmallVector& operator=(const SmallVector& other) {
        if (this != &other) copy(other);
        return *this;
    }
    SmallVector& operator=(SmallVector&& other) noexcept {
        if (this != &other) {
            release();
            take(other);
        }
        return *this;
    }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T& back() { return data_[size_ - 1]; }
    const T& back() const { return data_[size_ - 1]; }

    void clear() { size_ = 0; }
    void resize(size_t count) {
        reserve(count);
        for (size_t i = size_; i < count; ++i) data_[i] = T{};
        size_ = static_cast<uint32_t>(count);
    }
    // Room for so many elements, which the caller sets.
    T* fill_later(size_t count) {
        reserve(count);
        size_ = static_cast<uint32_t>(count);
        return data_;
    }
    void reserve(size_t count) {
        if (count <= capacity_) return;
        size_t capacity = capacity_ * 2 > count ? capacity_ * 2 : count;
        T* grown = static_cast<T*>(::operator new(capacity * sizeof(T)));
        std::memcpy(static_cast<void*>(grown), data_, size_ * sizeof(T));
        release();
        data_ = grown;
        capacity_ = static_cast<uint32_t>(capacity);
    }
    void push_back(T value) {
        if (size_ == capacity_) reserve(size_ + 1);
        data_[size_++] = value;
    }
    void pop_back() { --size_; }
    void insert(size_t at, T value) {
        push_back(value);
        for (size_t i = size_ - 1; i > at; --i) data_[i] = data_[i - 1];
        data_[at] = value;
    }
    void erase(size_t at) {
        for (size_t i = at; i + 1 < size_; ++i) data_[i] = data_[i + 1];
        --size_;
    }
    void assign(const T* values, size_t count) {
        reserve(count);
        if (count) std::memcpy(static_cast<void*>(data_), values, count * sizeof(T));
        size_ = static_cast<uint32_t>(count);
    }

    bool operator==(const SmallVector& other) const {
        if (size_ != other.size_) return false;
        for (uint32_t i = 0; i < size_; ++i)
            if (!(data_[i] == other.data_[i])) return false;
        return true;
    }

  private:
    void release() {
        if (data_ != inline_) ::operator delete(data_);
        data_ = inline_;
        capacity_ = N;
    }
    void copy(const SmallVector& other) {
        if (other.size_ <= N && data_ == inline_ && other.data_ == other.inline_) {
            take_inline(other);
            size_ = other.size_;
        } else {
            assign(other.data_, other.size_);
        }
    }
    // All of a small inline buffer rather than a part of it: a few moves instead of a call. As vectors, since GCC
    // copies bytes by `rep movs` where it believes code to be cold, and that takes as long as a call.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // elements that aren't there are copied too
    void take_inline(const SmallVector& other) {
        constexpr size_t bytes = N * sizeof(T), twos = bytes / 16;
        if constexpr (bytes > 64) {
            std::memcpy(static_cast<void*>(inline_), other.inline_, other.size_ * sizeof(T));
        } else {
            using Two [[gnu::vector_size(16), gnu::aligned(alignof(T)), gnu::may_alias]] = int64_t;
            using One [[gnu::aligned(alignof(T)), gnu::may_alias]] = int64_t;
            static_assert(bytes % 8 == 0);
            // Not `auto`, which would forget how they are aligned.
            Two* to = reinterpret_cast<Two*>(inline_);
            const Two* from = reinterpret_cast<const Two*>(other.inline_);
            for (size_t i = 0; i < twos; ++i) to[i] = from[i];
            if (bytes % 16) *reinterpret_cast<One*>(to + twos) = *reinterpret_cast<const One*>(from + twos);
        }
    }
#pragma GCC diagnostic pop
    void take(SmallVector& other) {
        if (other.data_ == other.inline_) {
            data_ = inline_;
            capacity_ = N;
            take_inline(other);
        } else {
            data_ = other.data_;
            capacity_ = other.capacity_;
            other.data_ = other.inline_;
            other.capacity_ = N;
        }
        size_ = other.size_;
        other.size_ = 0;
    }

    T* data_ = inline_;
    uint32_t size_ = 0;
    uint32_t capacity_ = N;
    T inline_[N];
};

// Sizes and strides, in elements.
using Dims = SmallVector<int64_t, 5>;

}  // namespace mt
