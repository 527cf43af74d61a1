// Caching host allocator. Blocks are 64-byte aligned; blocks of 2 MB and more are 2 MB aligned and ask for huge pages,
// since page faults cost more than the arithmetic on fresh large arrays. Guarded by a mutex: tensors may die on any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mt {

struct AllocatorStats {
    int64_t allocated_bytes;       // in use by tensors, as rounded
    int64_t peak_allocated_bytes;  // since the last reset_peak
    int64_t reserved_bytes;        // obtained from the operating system
    int64_t allocations;           // calls of allocate since the start
    int64_t cache_hits;            // of these, served from the cache
};

// Bytes that a request for `nbytes` takes.
size_t rounded_size(size_t nbytes);
// Throws OutOfMemory, naming the size and what is held, after freeing the cache and trying again.
void* allocate(size_t nbytes);
// Throws what `allocate` would if this machine's memory is too small altogether.
void require_possible(size_t nbytes);
void deallocate(void* data, size_t nbytes) noexcept;
// Gives whole pages of the bytes [begin, end) of a block to the system: they are zero when they are next read.
void discard(void* data, size_t begin, size_t end) noexcept;
void empty_cache() noexcept;
AllocatorStats allocator_stats() noexcept;
void reset_peak_stats() noexcept;

}  // namespace mt
