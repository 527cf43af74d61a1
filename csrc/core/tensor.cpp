#include "core/tensor.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/kept_object.h"
#include "core/memory/allocator.h"
#include "core/memory/cuda_caching_allocator.h"
#include "core/memory/exposed.h"

namespace mt {

void (*materialize_callback)(Storage*) = nullptr;
void (*before_write_callback)(Storage*) = nullptr;
void (*pending_died_callback)(Storage*) = nullptr;
void (*autograd_meta_destroy_callback)(AutogradMeta*) = nullptr;
bool (*keep_leaf_callback)(Tensor&) = nullptr;

std::atomic<uint32_t> functions_begun = 0;

Ref<Storage> Storage::unbacked(size_t nbytes, Device device) {
    auto* storage = new (Freelist<Storage>::take()) Storage;
    storage->nbytes = nbytes;
    storage->device = device;
    storage->made_in = functions_begun.load(std::memory_order_relaxed);
    return Ref<Storage>(storage);
}

Ref<Storage> Storage::allocate(size_t nbytes, Device device) {
    Ref<Storage> storage = unbacked(nbytes, device);
    storage->ensure_memory();
    return storage;
}

void Storage::ensure_memory() {
    if (data || address || device.type == DeviceType::Meta) return;
    if (device.type == DeviceType::Sparse) refuse_host_access(*this);
    if (on_gpu(device)) {
        DeviceBlock block = device_allocate(device, nbytes);
        address = block.address;
        stream = block.stream;
    } else {
        data = mt::allocate(nbytes);
    }
}

void Storage::resize(size_t wanted) {
    if (device.type == DeviceType::Sparse) refuse_host_access(*this);
    if (device.type == DeviceType::Meta) {
        nbytes = wanted;
        return;
    }
    if (deleter || (exports & ~kExposed) || read_only) fail("Trying to resize storage that is not resizable");
    const size_t memory = std::max(nbytes, held);
    if (has_memory() && wanted <= memory) {
        if (data && wanted < nbytes) discard(data, wanted, nbytes);
        nbytes = wanted;
        held = wanted < memory ? memory : 0;
        return;
    }
    Ref<Storage> fresh = allocate(wanted, device);
    if (has_memory()) copy_bytes(fresh->place(), place(), std::min(wanted, nbytes));
    std::swap(data, fresh->data);
    std::swap(address, fresh->address);
    std::swap(stream, fresh->stream);
    std::swap(nbytes, fresh->nbytes);
    std::swap(held, fresh->held);
}

void refuse_host_access(const Storage& storage) {
    if (storage.device.type == DeviceType::Sparse) fail("Cannot access the storage of a tensor in a sparse layout");
    fail("a tensor's elements are in the memory of cuda:" + std::to_string(storage.device.index) +
         ", which the host can't read. Use Tensor.cpu() to copy the tensor to host memory first.");
}

Ref<Storage> Storage::wrap(const DeviceAddress& place, size_t nbytes, void (*deleter)(void*), void* context) {
    Ref<Storage> storage = unbacked(nbytes, place.device);
    storage->data = place.data;
    storage->address = place.address;
    storage->deleter = deleter;
    storage->deleter_context = context;
    return storage;
}

Ref<Storage> Storage::wrap(void* data, size_t nbytes, void (*deleter)(void*), void* context) {
    return wrap(DeviceAddress{Device{}, data, 0}, nbytes, deleter, context);
}

Ref<Storage> Storage::alias(const Storage& storage) {
    Ref<Storage> handle = wrap(storage.place(), storage.nbytes, [](void*) {}, nullptr);
    handle->stream = storage.stream;
    return handle;
}

Ref<Storage> Storage::copy(const Storage& storage) {
    const size_t memory = std::max(storage.nbytes, storage.held);  // tensors may reach all of it
    Ref<Storage> made = allocate(memory, storage.device);
    copy_bytes(made->place(), storage.place(), memory);
    return made;
}

void Storage::destroy(Storage* storage) {
    if (storage->pending) pending_died_callback(storage);
    if (storage->deleter) storage->deleter(storage->deleter_context);
    else if (storage->address)
        device_free(storage->device, {storage->address, storage->stream}, std::max(storage->nbytes, storage->held),
                    storage->other_streams);
    else deallocate(storage->data, std::max(storage->nbytes, storage->held));
    storage->~Storage();
    Freelist<Storage>::give(storage);
}

void (*drop_object_callback)(Tensor*) = nullptr;

[[gnu::cold]] static void refuse_dims(size_t count) {
    fail("a tensor has at most " + std::to_string(kMaxDims) + " dimensions, not " + std::to_string(count));
}

Ref<Tensor> Tensor::make(Ref<Storage> storage, DType dtype, const Dims& sizes, const Dims& strides, int64_t offset) {
    if (sizes.size() > kMaxDims) refuse_dims(sizes.size());
    auto* tensor = new (Freelist<Tensor>::take()) Tensor;
    Ref<Tensor> result(tensor);
    tensor->storage = std::move(storage);
    tensor->dtype = dtype;
    tensor->sizes = sizes;
    tensor->strides = strides;
    tensor->offset = offset;
    tensor->made_in = functions_begun.load(std::memory_order_relaxed);
    int64_t count = 1;
    for (int64_t size : sizes) count = wrapping_mul(count, size);
    tensor->numel = count;
    return result;
}

Ref<Tensor> Tensor::unbacked(const Dims& sizes, DType dtype, Device device) {
    if (sizes.size() > kMaxDims) refuse_dims(sizes.size());
    auto* tensor = new (Freelist<Tensor>::take()) Tensor;
    Ref<Tensor> result(tensor);
    tensor->dtype = dtype;
    tensor->made_in = functions_begun.load(std::memory_order_relaxed);
    tensor->sizes = sizes;
    int64_t step = 1, count = 1;
    int64_t* strides = tensor->strides.fill_later(sizes.size());
    for (size_t i = sizes.size(); i-- > 0;) {
        strides[i] = step;
        count = wrapping_mul(count, sizes[i]);
        step = wrapping_mul(step, std::max<int64_t>(sizes[i], 1));
    }
    tensor->numel = count;
    tensor->storage = Storage::unbacked(static_cast<size_t>(count) * itemsize(dtype), device);
    return result;
}

Ref<Tensor> Tensor::empty(const Dims& sizes, DType dtype, Device device) {
    (void)byte_count(sizes, dtype);
    Ref<Tensor> made = unbacked(sizes, dtype, device);
    made->storage->ensure_memory();
    return made;
}

Ref<Tensor> Tensor::view(const Tensor& base, const Dims& sizes, const Dims& strides, int64_t offset) {
    return make(base.storage, base.dtype, sizes, strides, offset);
}

void Tensor::destroy(Tensor* tensor) {
    if (__builtin_expect(tensor->pyobject != nullptr, 0)) return drop_object_callback(tensor);
    if (tensor->autograd) {
        if (keep_leaf_callback(*tensor)) return;
        autograd_meta_destroy_callback(tensor->autograd);
    }
    tensor->~Tensor();
    Freelist<Tensor>::give(tensor);
}

bool Tensor::contiguous() const { return is_contiguous(sizes, strides); }

int64_t product_of_others(const Dims& sizes) {
    int64_t count = 1;
    bool overflow = false, zero = false;
    for (int64_t size : sizes) {
        if (size < 0) fail("negative dimension " + std::to_string(size) + " in shape " + to_string(sizes));
        zero |= size == 0;
        overflow |= __builtin_mul_overflow(count, size ? size : 1, &count);
    }
    if (zero) return 0;
    if (overflow) fail("the number of elements of shape " + to_string(sizes) + " overflows 64 bits");
    return count;
}

size_t byte_count(const Dims& sizes, DType dtype) {
    int64_t bytes;
    if (__builtin_mul_overflow(product(sizes), static_cast<int64_t>(itemsize(dtype)), &bytes))
        fail("a tensor of shape " + to_string(sizes) + " has more bytes than 64 bits can count");
    return static_cast<size_t>(bytes);
}

Dims contiguous_strides(const Dims& sizes) {
    Dims result;
    int64_t* strides = result.fill_later(sizes.size());
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
        strides[i] = step;
        step = wrapping_mul(step, std::max<int64_t>(sizes[i], 1));
    }
    return result;
}

bool is_contiguous(const Dims& sizes, const Dims& strides) {
    int64_t step = 1;
    bool dense = true;
    for (size_t i = sizes.size(); i-- > 0;) {
        if (sizes[i] == 0) return true;
        if (sizes[i] == 1) continue;
        dense &= strides[i] == step;
        step = wrapping_mul(step, sizes[i]);
    }
    return dense;
}

int64_t normalize_dim(int64_t dim, size_t rank) {
    auto n = static_cast<int64_t>(rank ? rank : 1);
    if (dim < -n || dim >= n)
        fail_index("Dimension out of range (expected to be in range of [" + std::to_string(-n) + ", " +
                   std::to_string(n - 1) + "], but got " + std::to_string(dim) + ")");
    return dim < 0 ? dim + n : dim;
}

std::pair<int64_t, int64_t> element_span(const Dims& sizes, const Dims& strides, int64_t offset) {
    for (int64_t size : sizes)
        if (size == 0) return {offset, offset};
    int64_t low = offset, high = offset, reach;
    bool overflow = false;
    for (size_t i = 0; i < sizes.size(); ++i) {
        int64_t& end = strides[i] < 0 ? low : high;
        overflow |= __builtin_mul_overflow(strides[i], sizes[i] - 1, &reach);
        overflow |= __builtin_add_overflow(end, reach, &end);
    }
    constexpr int64_t most = std::numeric_limits<int64_t>::max() / 32;  // so that the bytes can be counted, too
    if (overflow || low < -most || high > most)
        fail("sizes " + to_string(sizes) + " with strides " + to_string(strides) + " reach beyond 64 bits");
    return {low, high + 1};
}

std::string to_string(const Dims& dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
        if (i) text += ", ";
        text += std::to_string(dims[i]);
    }
    return text + "]";
}

}  // namespace mt
