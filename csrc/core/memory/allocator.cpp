#include "core/memory/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/process/faults.h"
#include "core/process/fork.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mt {

namespace {

// What AddressSanitizer is to know about blocks: cached ones are nobody's, and of one in use only what was asked for is
// the tensor's.
void mark_used([[maybe_unused]] void* data, [[maybe_unused]] size_t nbytes, [[maybe_unused]] size_t size) {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(data, nbytes);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(data) + nbytes, size - nbytes);
#endif
}
void mark_unused([[maybe_unused]] void* data, [[maybe_unused]] size_t size) {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_POISON_MEMORY_REGION(data, size);
#endif
}

constexpr size_t kAlignment = 64;
constexpr size_t kHuge = size_t{2} << 20;
constexpr int kClasses = 96;

struct Cache {
    std::vector<void*> small[kClasses];
    std::multimap<size_t, void*> large;
    AllocatorStats stats{};
};

Cache& cache() {
    static Cache* instance = new Cache;  // leaked: tensors may outlive static destruction
    return *instance;
}

// Four size classes to every power of two: at most a quarter of a block is unused.
int class_of(size_t size) {
    if (size <= 256) return static_cast<int>((size + 63) / 64);
    int exponent = std::bit_width(size - 1) - 1;
    size_t step = size_t{1} << (exponent - 2);
    return 4 + (exponent - 8) * 4 + static_cast<int>((size - 1 - (size_t{1} << exponent)) / step) + 1;
}

void* from_system(size_t size) {
    if (size < kHuge) return std::aligned_alloc(kAlignment, size);
    // Over-map by one huge page and give the unaligned ends back.
    size_t span = size + kHuge;
    if (span < size) return nullptr;
    void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto start = reinterpret_cast<uintptr_t>(raw);
    uintptr_t aligned = (start + kHuge - 1) & ~(kHuge - 1);
    if (aligned > start) munmap(raw, aligned - start);
    uintptr_t end = start + span;
    if (end > aligned + size) munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
    auto* data = reinterpret_cast<void*>(aligned);
    madvise(data, size, MADV_HUGEPAGE);
    return data;
}

void to_system(void* data, size_t size) {
    mark_used(data, size, size);
    if (size < kHuge) std::free(data);
    else munmap(data, size);
}

void empty_locked(Cache& c) {
    for (int k = 0; k < kClasses; ++k) {
        for (void* data : c.small[k]) std::free(data);
        c.small[k].clear();
        c.small[k].shrink_to_fit();
    }
    for (auto& [size, data] : c.large) {
        to_system(data, size);
        c.stats.reserved_bytes -= static_cast<int64_t>(size);
    }
    c.large.clear();
    // What remains reserved is what is in use.
    c.stats.reserved_bytes = c.stats.allocated_bytes;
}

std::string in_mebibytes(int64_t bytes) {
    return std::to_string(bytes / (1 << 20)) + "." + std::to_string(bytes % (1 << 20) * 10 / (1 << 20)) + " MiB";
}

// Linux lends address space that it can't back and ends the process later; refuse what can't fit in memory at all.
size_t physical_bytes() {
    static const size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
                                static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

[[noreturn]] void out_of_memory(size_t nbytes, int64_t held) {
    throw Error(ErrorKind::OutOfMemory,
                "cannot allocate " + in_mebibytes(static_cast<int64_t>(nbytes > INT64_MAX ? INT64_MAX : nbytes)) +
                    ": tensors hold " + in_mebibytes(held) + " of this machine's " +
                    in_mebibytes(static_cast<int64_t>(physical_bytes())));
}

}  // namespace

size_t rounded_size(size_t nbytes) {
    if (nbytes == 0) return kAlignment;
    if (nbytes >= kHuge) return (nbytes + kHuge - 1) & ~(kHuge - 1);
    if (nbytes <= 256) return (nbytes + kAlignment - 1) & ~(kAlignment - 1);
    int exponent = std::bit_width(nbytes - 1) - 1;
    size_t step = size_t{1} << (exponent - 2);
    return (nbytes + step - 1) & ~(step - 1);
}

namespace {

[[gnu::always_inline]] inline void* take(size_t nbytes) {
    fault_point(FaultPlace::Allocation);
    Cache& c = cache();
    size_t size = nbytes > SIZE_MAX / 2 ? 0 : rounded_size(nbytes);
    std::lock_guard lock(process_lock(ProcessLock::MemoryCache));
    ++c.stats.allocations;
    void* data = nullptr;
    if (size && size < kHuge) {
        auto& free_blocks = c.small[class_of(size)];
        if (!free_blocks.empty()) {
            data = free_blocks.back();
            free_blocks.pop_back();
        }
    } else if (size) {
        // The block that was freed last is the warmest.
        auto [first, last] = c.large.equal_range(size);
        if (first != last) {
            data = (--last)->second;
            c.large.erase(last);
        }
    }
    if (data) {
        ++c.stats.cache_hits;
    } else {
        bool fits = size && size + static_cast<size_t>(c.stats.allocated_bytes) <= physical_bytes();
        if (fits && size + static_cast<size_t>(c.stats.reserved_bytes) > physical_bytes()) empty_locked(c);
        if (fits) data = from_system(size);
        if (!data && fits) {
            empty_locked(c);
            data = from_system(size);
        }
        if (!data) out_of_memory(nbytes, c.stats.allocated_bytes);
        c.stats.reserved_bytes += static_cast<int64_t>(size);
    }
    c.stats.allocated_bytes += static_cast<int64_t>(size);
    mark_used(data, nbytes, size);
    if (c.stats.allocated_bytes > c.stats.peak_allocated_bytes) c.stats.peak_allocated_bytes = c.stats.allocated_bytes;
    return data;
}

[[gnu::always_inline]] inline void give(void* data, size_t nbytes) noexcept {
    Cache& c = cache();
    size_t size = rounded_size(nbytes);
    std::lock_guard lock(process_lock(ProcessLock::MemoryCache));
    c.stats.allocated_bytes -= static_cast<int64_t>(size);
    mark_unused(data, size);
    if (size < kHuge) c.small[class_of(size)].push_back(data);
    else c.large.emplace(size, data);
}

// For tests: with MT_GUARD_BYTES=1 there are bytes before and behind what was asked for that are to be as they were
// when it is freed. AddressSanitizer sees more of this.
constexpr size_t kGuard = 64;
constexpr unsigned char kGuardByte = 0xA5;
const bool guards = [] {
    const char* text = std::getenv("MT_GUARD_BYTES");
    return text && std::string_view(text) == "1";
}();

[[gnu::cold]] void* take_guarded(size_t nbytes) {
    if (nbytes > SIZE_MAX / 2) return take(nbytes);  // says that it is too much
    auto* data = static_cast<unsigned char*>(take(nbytes + 2 * kGuard)) + kGuard;
    std::memset(data - kGuard, kGuardByte, kGuard);
    std::memset(data + nbytes, kGuardByte, kGuard);
    return data;
}

[[gnu::cold]] void give_guarded(void* block, size_t nbytes) noexcept {
    auto* data = static_cast<unsigned char*>(block);
    for (size_t k = 0; k < 2 * kGuard; ++k) {
        const unsigned char* at = k < kGuard ? data - 1 - k : data + nbytes + (k - kGuard);
        if (*at == kGuardByte) continue;
        std::fprintf(stderr, "the byte at %td of a block of %zu bytes was written\n", at - data, nbytes);
        std::abort();
    }
    give(data - kGuard, nbytes + 2 * kGuard);
}

}  // namespace

void* allocate(size_t nbytes) { return guards ? take_guarded(nbytes) : take(nbytes); }

void require_possible(size_t nbytes) {
    if (__builtin_expect(nbytes > physical_bytes(), 0)) out_of_memory(nbytes, allocator_stats().allocated_bytes);
}

void deallocate(void* data, size_t nbytes) noexcept {
    if (!data) return;
    if (guards) give_guarded(data, nbytes);
    else give(data, nbytes);
}

void discard(void* data, size_t begin, size_t end) noexcept {
    constexpr uintptr_t page = 4096, worth_a_call = 1 << 20;
    auto at = reinterpret_cast<uintptr_t>(data);
    const uintptr_t from = (at + begin + page - 1) / page * page, to = (at + end) / page * page;
    if (to > from && to - from >= worth_a_call) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

void empty_cache() noexcept {
    Cache& c = cache();
    std::lock_guard lock(process_lock(ProcessLock::MemoryCache));
    empty_locked(c);
}

AllocatorStats allocator_stats() noexcept {
    Cache& c = cache();
    std::lock_guard lock(process_lock(ProcessLock::MemoryCache));
    return c.stats;
}

void reset_peak_stats() noexcept {
    Cache& c = cache();
    std::lock_guard lock(process_lock(ProcessLock::MemoryCache));
    c.stats.peak_allocated_bytes = c.stats.allocated_bytes;
}

}  // namespace mt
