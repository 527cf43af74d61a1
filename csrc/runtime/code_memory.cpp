#include "runtime/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>

#include "core/error.h"
#include "core/process/fork.h"

namespace mt {

namespace {

constexpr size_t kRegion = size_t{4} << 20;

// Free room of all regions by address; neighbours are joined.
std::map<std::byte*, size_t>& free_room() {
    static auto* room = new std::map<std::byte*, size_t>;  // leaked: code may be unloaded after static destruction
    return *room;
}

[[noreturn]] void no_room(size_t size) {
    throw Error(ErrorKind::OutOfMemory, "no memory for " + std::to_string(size) + " bytes of compiled code");
}

// The first room that is large enough, or a new region.
std::byte* take(size_t size) {
    auto& free = free_room();
    std::lock_guard lock(process_lock(ProcessLock::CodeMemory));
    auto room = free.begin();
    while (room != free.end() && room->second < size) ++room;
    if (room == free.end()) {
        size_t length = size > kRegion ? size : kRegion;
        void* region = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED) no_room(size);
        room = free.emplace(static_cast<std::byte*>(region), length).first;
    }
    auto [data, length] = *room;
    free.erase(room);
    if (length > size) free.emplace(data + size, length - size);
    return data;
}

void give(std::byte* data, size_t size) {
    // Its pages go back to the system. It stays executable: a protection of its own between two other pieces would take
    // two mappings more.
    madvise(data, size, MADV_DONTNEED);
    auto& free = free_room();
    std::lock_guard lock(process_lock(ProcessLock::CodeMemory));
    auto next = free.lower_bound(data);
    if (next != free.end() && data + size == next->first) {
        size += next->second;
        next = free.erase(next);
    }
    if (next != free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == data) {
            before->second += size;
            return;
        }
    }
    free.emplace_hint(next, data, size);
}

}  // namespace

CodeMemory::CodeMemory(size_t size, const std::function<void(std::byte* data)>& write) {
    static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (size == 0 || size > SIZE_MAX / 2) no_room(size);
    size_ = (size + page - 1) & ~(page - 1);
    data_ = take(size_);
    try {
        if (mprotect(data_, size_, PROT_READ | PROT_WRITE) != 0) no_room(size);
        write(data_);
        if (mprotect(data_, size_, PROT_READ | PROT_EXEC) != 0) no_room(size);
    } catch (...) {
        give(data_, size_);
        throw;
    }
}

CodeMemory::~CodeMemory() { give(data_, size_); }

}  // namespace mt
