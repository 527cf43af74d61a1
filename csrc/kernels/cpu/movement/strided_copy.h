// Moving elements between layouts: arbitrary strides to contiguous memory and back, with a conversion of the dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/memory/allocator.h"
#include "core/process/parallel.h"
#include "core/tensor.h"

namespace mt::cpu {

// Elements of cheap work that are worth a chunk of a parallel loop.
inline constexpr int64_t kGrain = 1 << 15;

// Chunk length in items of `cost` elements each.
inline int64_t grain_of(int64_t cost) { return cost >= kGrain ? 1 : kGrain / (cost > 0 ? cost : 1); }

// Temporary memory: inline when it's small, otherwise from the caching allocator.
class Scratch {
  public:
    Scratch() = default;
    explicit Scratch(size_t nbytes) { reserve(nbytes); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        if (heap_) deallocate(heap_, nbytes_);
    }
    // Once only.
    void* reserve(size_t nbytes) {
        nbytes_ = nbytes;
        if (nbytes > sizeof inline_) heap_ = allocate(nbytes);
        return data();
    }
    void* data() { return heap_ ? heap_ : inline_; }
    template <class T>
    T* as() {
        return static_cast<T*>(data());
    }

  private:
    void* heap_ = nullptr;
    size_t nbytes_ = 0;
    alignas(64) char inline_[2048];
};

// memcpy for a row of a few kilobytes. The C library copies those with `rep movsb`, which is ten times slower when the
// destination is not aligned.
inline void copy_row(void* dst, const void* src, size_t nbytes) {
    if (nbytes < 1024 || nbytes > (1 << 16) || reinterpret_cast<uintptr_t>(dst) % 16 == 0) {
        std::memcpy(dst, src, nbytes);
        return;
    }
    auto* to = static_cast<char*>(dst);
    auto* from = static_cast<const char*>(src);
    constexpr size_t kPiece = 256;  // what the C library moves in registers
    size_t at = 0;
    for (; at + kPiece <= nbytes; at += kPiece) {
        std::memcpy(to + at, from + at, kPiece);
        __asm__("" ::: "memory");  // or the compiler makes one call of the loop
    }
    std::memcpy(to + at, from + at, nbytes - at);
}

// A tensor's elements without its ownership.
struct Strided {
    const void* data;
    DType dtype;
    const Dims& sizes;
    const Dims& strides;
    int64_t numel;

    Strided(const Tensor& t) : data(t.data()), dtype(t.dtype), sizes(t.sizes), strides(t.strides), numel(t.numel) {}
    Strided(const void* data, DType dtype, const Dims& sizes, const Dims& strides, int64_t numel)
        : data(data), dtype(dtype), sizes(sizes), strides(strides), numel(numel) {}
    bool contiguous() const { return is_contiguous(sizes, strides); }
};

// dst[i] = src[i] for every index i of `sizes`; strides in elements.
void strided_copy(void* dst, const Dims& dst_strides, const void* src, const Dims& src_strides, const Dims& sizes,
                  size_t itemsize);

// Converts n contiguous elements; a plain copy for equal dtypes.
void convert_contiguous(void* dst, DType to, const void* src, DType from, int64_t n);

// The elements of `t` in logical order, converted to `to`, into contiguous memory.
void pack(void* dst, DType to, const Strided& t);

// A tensor's elements as contiguous memory of dtype `to`: its own memory where it is that already, otherwise (or if
// `copy`) a packed copy.
class Packed {
  public:
    Packed(const Strided& t, DType to, bool copy = false);
    const void* data() const { return data_; }
    template <class T>
    const T* as() const {
        return static_cast<const T*>(data_);
    }

  private:
    Scratch copy_;
    const void* data_;
};

// Where a kernel writes contiguous elements of dtype `dtype`: the output's own memory, or scratch that store() converts
// and copies to it (destinations of in-place calls have any strides and dtype).
class ContiguousOut {
  public:
    ContiguousOut(Tensor& out, DType dtype);
    void* data() { return data_; }
    template <class T>
    T* as() {
        return static_cast<T*>(data_);
    }
    void store();

  private:
    Tensor& out_;
    DType dtype_;
    Scratch copy_;
    void* data_;
};

}  // namespace mt::cpu
