#include "runtime/scratch.h"

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "core/process/faults.h"

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
    if (block_) std::free(block_->data);
    delete block_;
}

void* Scratch::get_aside(size_t bytes) {
    Scratch* scratch = this;
    for (int depth = 0; depth < t_handlers; ++depth) {
        if (!scratch->block_) scratch->block_ = new Block;
        scratch = &scratch->block_->aside;
    }
    if (!scratch->block_ || bytes > scratch->block_->capacity) scratch->grow(bytes);
    return scratch->block_->data;
}

void Scratch::grow(size_t bytes) {
    fault_point(FaultPlace::Allocation);
    if (!block_) block_ = new Block;
    std::free(std::exchange(block_->data, nullptr));
    block_->capacity = 0;
    const bool huge = bytes >= kHugePage;
    const size_t size = round_up(bytes, huge ? kHugePage : 4096);
    void* data = std::aligned_alloc(huge ? kHugePage : 64, size);
    if (data == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (huge) madvise(data, size, MADV_HUGEPAGE);  // only a hint
#endif
    block_->data = data;
    block_->capacity = size;
}

}  // namespace mt
