// Intrusive reference counts. Counts are plain integers: those of what others can see change only while the GIL is
// held. Kernels that run without it touch raw pointers, and tensors that they have made themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace mt {

template <class T>
class Ref {
  public:
    Ref() = default;
    Ref(std::nullptr_t) {}
    explicit Ref(T* adopted) : pointer_(adopted) {}  // takes over one count
    Ref(const Ref& other) : pointer_(other.pointer_) {
        if (pointer_) ++pointer_->refcount;
    }
    Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
    ~Ref() { reset(); }
    Ref& operator=(Ref other) noexcept {
        std::swap(pointer_, other.pointer_);
        return *this;
    }
    static Ref borrow(T* pointer) {
        if (pointer) ++pointer->refcount;
        return Ref(pointer);
    }
    void reset() {
        if (T* dying = std::exchange(pointer_, nullptr))
            if (--dying->refcount == 0) T::destroy(dying);
    }
    T* get() const { return pointer_; }
    T* release() { return std::exchange(pointer_, nullptr); }
    T* operator->() const { return pointer_; }
    T& operator*() const { return *pointer_; }
    explicit operator bool() const { return pointer_ != nullptr; }
    bool operator==(const Ref& other) const { return pointer_ == other.pointer_; }

  private:
    T* pointer_ = nullptr;
};

// In the static block of a thread's variables, which needs no call to be found.
#define MT_THREAD_LOCAL constinit thread_local __attribute__((tls_model("initial-exec")))

// Recycles the memory of one small class. Each thread has its own: kernels make tensors while others hold the GIL.
template <class T, uint32_t Keep = 1024>
class Freelist {
  public:
    static void* take() {
#if defined(__SANITIZE_ADDRESS__)
        return ::operator new(sizeof(T));  // so that it sees who uses what was given back
#endif
        if (head_) {
            Slot* slot = head_;
            head_ = slot->next;
            --count_;
            return slot;
        }
        return ::operator new(sizeof(T));
    }
    static void give(void* memory) {
#if defined(__SANITIZE_ADDRESS__)
        return ::operator delete(memory);
#endif
        if (__builtin_expect(!ends_, 0)) end_with_thread();
        if (count_ >= Keep) {
            ::operator delete(memory);
            return;
        }
        head_ = new (memory) Slot{head_};
        ++count_;
    }

  private:
    struct Slot {
        Slot* next;
    };
    struct End {
        ~End() {
            count_ = Keep;  // from now on nothing is kept
            while (Slot* slot = head_) {
                head_ = slot->next;
                ::operator delete(slot);
            }
        }
    };
    [[gnu::noinline]] static void end_with_thread() {
        static thread_local End end;
        ends_ = true;
    }
    static inline MT_THREAD_LOCAL Slot* head_ = nullptr;
    static inline MT_THREAD_LOCAL uint32_t count_ = 0;
    static inline MT_THREAD_LOCAL bool ends_ = false;
};

// Blocks of four sizes. Small classes share their lists: libraries that are loaded late have little thread-local
// storage.
template <size_t Bytes>
struct PooledBlock {
    alignas(16) unsigned char bytes[Bytes];
};
consteval size_t pooled_bytes(size_t bytes) {
    if (bytes > 512) throw "it is no small class";
    return bytes <= 64 ? 64 : bytes <= 128 ? 128 : bytes <= 256 ? 256 : 512;
}
template <size_t Bytes>
using Pool = Freelist<PooledBlock<pooled_bytes(Bytes)>, (1 << 20) / pooled_bytes(Bytes)>;

}  // namespace mt
