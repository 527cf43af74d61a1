#include "runtime/scratch.h"

#include <cstdint>
#include <cstdlib>

#include "core/faults.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t bytes, size_t unit) {
    if (bytes > SIZE_MAX - unit) throw std::bad_alloc();
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Scratch::~Scratch() {
    std::free(data_);
    delete aside_;
}

void* Scratch::get_aside(size_t bytes) {
    Scratch* scratch = this;
    for (int depth = 0; depth < t_handlers; ++depth) {
        if (!scratch->aside_) scratch->aside_ = new Scratch;
        scratch = scratch->aside_;
    }
    if (bytes > scratch->capacity_) scratch->grow(bytes);
    return scratch->data_;
}

void Scratch::grow(size_t bytes) {
    fault_point(FaultPlace::Allocation);
    std::free(data_);
    data_ = nullptr;
    capacity_ = 0;
    const bool huge = bytes >= kHugePage;
    const size_t size = round_up(bytes, huge ? kHugePage : 4096);
    void* data = std::aligned_alloc(huge ? kHugePage : 64, size);
    if (data == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (huge) madvise(data, size, MADV_HUGEPAGE);  // only a hint
#endif
    data_ = data;
    capacity_ = size;
}

}  // namespace mt
