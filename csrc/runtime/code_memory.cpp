#include "runtime/code_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>

#include "core/error.h"

namespace mt {

namespace {

constexpr size_t kRegion = size_t{4} << 20;

// Free room of all regions by address; neighbours are joined.
struct Regions {
    std::mutex mutex;
    std::map<std::byte*, size_t> free;
};

Regions& regions() {
    static Regions* instance = [] {
        auto* made = new Regions;  // leaked: code may be unloaded after static destruction
        pthread_atfork([] { regions().mutex.lock(); }, [] { regions().mutex.unlock(); },
                       [] { regions().mutex.unlock(); });
        return made;
    }();
    return *instance;
}

[[noreturn]] void no_room(size_t size) {
    throw Error(ErrorKind::OutOfMemory, "no memory for " + std::to_string(size) + " bytes of compiled code");
}

// The first room that is large enough, or a new region.
std::byte* take(size_t size) {
    Regions& r = regions();
    std::lock_guard lock(r.mutex);
    auto room = r.free.begin();
    while (room != r.free.end() && room->second < size) ++room;
    if (room == r.free.end()) {
        size_t length = size > kRegion ? size : kRegion;
        void* region = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED) no_room(size);
        room = r.free.emplace(static_cast<std::byte*>(region), length).first;
    }
    auto [data, length] = *room;
    r.free.erase(room);
    if (length > size) r.free.emplace(data + size, length - size);
    return data;
}

void give(std::byte* data, size_t size) {
    // Its pages go back to the system. It stays executable: a protection of its own between two other pieces would take
    // two mappings more.
    madvise(data, size, MADV_DONTNEED);
    Regions& r = regions();
    std::lock_guard lock(r.mutex);
    auto next = r.free.lower_bound(data);
    if (next != r.free.end() && data + size == next->first) {
        size += next->second;
        next = r.free.erase(next);
    }
    if (next != r.free.begin()) {
        auto before = std::prev(next);
        if (before->first + before->second == data) {
            before->second += size;
            return;
        }
    }
    r.free.emplace_hint(next, data, size);
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
