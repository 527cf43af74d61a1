// A tensor is a storage seen through an offset, sizes and strides. Views share the storage.
#pragma once

#include <atomic>
#include <string>

#include "core/dtype.h"
#include "core/memory/device_runtime.h"
#include "core/ref.h"
#include "core/small_vector.h"

struct _object;  // PyObject

namespace mt {

struct AutogradMeta;
namespace trace {
struct Pending;
}

inline constexpr size_t kMaxDims = 64;

struct Storage {
    uint32_t refcount = 1;
    uint32_t version = 0;  // counts in-place writes, for the tape's check of saved tensors
    void* data = nullptr;
    size_t nbytes = 0;
    size_t held = 0;  // bytes of memory where they are more: tensors may still reach what is behind a shorter storage
    Device device;
    uint32_t stream = 0;  // of a GPU's memory: the one that it was allocated on
    uint64_t address = 0;  // of a GPU's memory, where `data` is null
    // Set while the contents are a recorded value that has not been computed; see trace/.
    trace::Pending* pending = nullptr;
    // Frees memory that isn't the allocator's (NumPy, DLPack); null: the allocator owns `data`.
    void (*deleter)(void* context) = nullptr;
    void* deleter_context = nullptr;
    bool (*shared)(void* context) = nullptr;  // whether the lender can still reach the memory; null: assume so
    bool read_only = false;
    bool pinned = false;  // page-locked memory of the host
    bool other_streams = false;  // of a GPU's memory: streams besides `stream` were given work with it
    bool reinterpreted = false;  // seen through views of several dtypes: its contents are never a recorded value
    uint32_t exports =
        0;  // live buffers of this memory outside the framework: its owner may read and write them unseen
    uint32_t readers = 0;  // recorded reads of the memory as it is now, by traces that have not run
    uint32_t made_in = 0;  // as a tensor's

    static Ref<Storage> allocate(size_t nbytes, Device device = {});  // memory now
    static Ref<Storage> unbacked(size_t nbytes, Device device = {});  // memory when it's needed: recorded values, meta
    static Ref<Storage> wrap(void* data, size_t nbytes, void (*deleter)(void*), void* context);
    // The same for memory wherever it is.
    static Ref<Storage> wrap(const DeviceAddress& place, size_t nbytes, void (*deleter)(void*), void* context);
    // A handle over another's memory, which must outlive it.
    static Ref<Storage> alias(const Storage& storage);
    // New memory on the same device, with the same contents.
    static Ref<Storage> copy(const Storage& storage);
    static void destroy(Storage* storage);
    void ensure_memory();  // backs an unbacked storage
    // Another length, with the contents that fit; throws if the memory isn't ours. Its memory must be there. What is
    // behind a shorter storage stays memory, since tensors may reach there, but large parts of it go to the system.
    void resize(size_t nbytes);
    bool has_memory() const { return data || address; }
    DeviceAddress place() const { return {device, data, address}; }
    // Whether somebody outside the framework may write this memory without our knowing.
    bool external() const { return exports != 0 || (deleter && !read_only && (!shared || shared(deleter_context))); }
    // Whether another storage has a part of the same memory: one that came back from outside the framework.
    bool overlaps(const Storage& other) const {
        const char *begin = static_cast<const char*>(data), *others = static_cast<const char*>(other.data);
        return this != &other && begin && others && begin < others + other.nbytes && others < begin + nbytes;
    }
};

// Throws: the host can't look into a GPU's memory, and a sparse layout has none.
[[noreturn]] void refuse_host_access(const Storage& storage);

// Runs the recorded program that `storage` waits for; installed by trace/, which stands above core/.
extern void (*materialize_callback)(Storage* storage);
// Called before memory with `readers` is written by anybody but a trace that reads it.
extern void (*before_write_callback)(Storage* storage);
// Tells trace/ that a pending storage died unseen.
extern void (*pending_died_callback)(Storage* storage);

struct Tensor {
    uint32_t refcount = 1;
    DType dtype = DType::F32;
    bool is_inference = false;
    bool wrapped_number = false;  // a Python scalar in tensor clothes: weak in type promotion
    Ref<Storage> storage;
    int64_t offset = 0;  // in elements
    Dims sizes, strides;
    int64_t numel = 1;
    AutogradMeta* autograd = nullptr;  // owned
    Ref<Tensor> base;  // of a differentiable view: the tensor that owns the storage's gradient history
    uint32_t base_generation = 0;  // `base`'s count of in-place rewrites when this view's grad_fn was made
    uint32_t made_in = 0;  // how many functions had begun to be recorded when it was made
    _object* pyobject = nullptr;  // the Python object of this tensor while it lives; borrowed

    static Ref<Tensor> empty(const Dims& sizes, DType dtype, Device device = {});
    static Ref<Tensor> view(const Tensor& base, const Dims& sizes, const Dims& strides, int64_t offset);
    static Ref<Tensor> make(Ref<Storage> storage, DType dtype, const Dims& sizes, const Dims& strides, int64_t offset);
    // Without memory as yet, and of a size that is known to be possible.
    static Ref<Tensor> unbacked(const Dims& sizes, DType dtype, Device device = {});
    static void destroy(Tensor* tensor);

    size_t ndim() const { return sizes.size(); }
    Device device() const { return storage->device; }
    bool pending() const { return storage->pending != nullptr; }
    bool contiguous() const;
    // The first element; computes a recorded value first.
    void* data() const {
        if (storage->pending) materialize_callback(storage.get());
        if (__builtin_expect(beyond_host(storage->device), 0)) refuse_host_access(*storage);
        // As a number: the offset of a tensor without elements may lie anywhere.
        return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(storage->data) +
                                       static_cast<uintptr_t>(offset) * itemsize(dtype));
    }
    // Where the first element is, on whichever device.
    DeviceAddress place() const {
        if (storage->pending) materialize_callback(storage.get());
        if (__builtin_expect(storage->device.type == DeviceType::Sparse, 0)) refuse_host_access(*storage);
        return storage->place().plus(offset * static_cast<int64_t>(itemsize(dtype)));
    }
    template <class T>
    T* ptr() const {
        return static_cast<T*>(data());
    }
};

// Counts functions that are recorded as a whole: what is made in one has its number, or that of a later one.
extern std::atomic<uint32_t> functions_begun;

// Whether its elements are kept by other tensors, which its Python object knows.
inline bool is_sparse(const Tensor& tensor) { return tensor.storage->device.type == DeviceType::Sparse; }

// Frees `meta`; installed by autograd/.
extern void (*autograd_meta_destroy_callback)(AutogradMeta* meta);
// Whether the graph takes over a tensor, which has autograd's meta, when its last owner is gone.
extern bool (*keep_leaf_callback)(Tensor& tensor);

// Of sizes of which one is zero, negative or too large: throws if it has no product.
[[gnu::cold]] int64_t product_of_others(const Dims& sizes);
inline int64_t product(const Dims& sizes) {  // throws on overflow
    int64_t count = 1;
    bool other = false;
    for (int64_t size : sizes) {
        const bool overflows = __builtin_mul_overflow(count, size, &count);
        other |= size <= 0 || overflows;
    }
    return __builtin_expect(other, 0) ? product_of_others(sizes) : count;
}
size_t byte_count(const Dims& sizes, DType dtype);  // of a contiguous tensor; throws on overflow
// Products and sums of strides and offsets wrap: they can only overflow where there are no elements.
inline int64_t wrapping_mul(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t wrapping_add(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
Dims contiguous_strides(const Dims& sizes);
bool is_contiguous(const Dims& sizes, const Dims& strides);
// The shape both broadcast to; throws PyTorch's error.
Dims broadcast_shapes(const Dims& a, const Dims& b);
// Strides of a tensor of `sizes`/`strides` expanded to `target`.
Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& target);
// -rank <= dim < rank, normalised; a 0-d tensor accepts -1 and 0. Throws IndexError.
int64_t normalize_dim(int64_t dim, size_t rank);
// First and one-past-last element that the view can touch, relative to the storage's start.
std::pair<int64_t, int64_t> element_span(const Dims& sizes, const Dims& strides, int64_t offset);
std::string to_string(const Dims& dims);  // [2, 3]

}  // namespace mt
