#include "distributed/shared_channel.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/error.h"
#include "core/memory/streamed_copy.h"
#include "core/process/fork.h"

namespace mt::distributed {

namespace {

constexpr int kLanes = 2;
constexpr uint32_t kMagic = 0x6d746772;
constexpr size_t kPage = 4096;
enum : uint32_t { kAbsent, kIn, kLeft };

struct alignas(64) Bell {
    std::atomic<uint32_t> count;
    std::atomic<uint32_t> sleeping;
};

struct alignas(64) Member {
    std::atomic<uint32_t> state;
    Bell bells[kLanes];
};

struct Preface {
    uint32_t magic, size;
    uint64_t ring, total;
    std::atomic<uint32_t> failing;  // 0: no failure, 1: its text is being written, 2: there it is
    char failure[1024];
};

// One writes and one reads; both counts only grow.
struct Ring {
    alignas(64) std::atomic<uint64_t> written;
    alignas(64) std::atomic<uint64_t> read;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

size_t padded(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Some MB in all, in rings that stay in the cores' own caches.
size_t ring_bytes(int size) {
    const size_t pairs = std::max<size_t>(1, static_cast<size_t>(size) * (size - 1));
    size_t bytes = size_t{512} << 10;
    while (bytes > (size_t{16} << 10) && bytes * pairs > (size_t{32} << 20)) bytes /= 2;
    return bytes;
}

size_t preface_bytes(int size) { return padded(sizeof(Preface) + 64) + padded(sizeof(Member) * size); }

size_t total_bytes(int size) {
    const size_t pairs = static_cast<size_t>(size) * size;
    return preface_bytes(size) + kLanes * pairs * (padded(sizeof(Ring)) + ring_bytes(size));
}

std::string system_text(const char* what) {
    return std::string("shared memory of a process group: ") + what + ": " + std::strerror(errno);
}

struct flock lock_of(int rank) {
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return lock;
}

}  // namespace

struct SharedMemory::Impl {
    int descriptor = -1, rank = 0, size = 0;
    char* base = nullptr;
    size_t total = 0, ring = 0;
    uint64_t made_in = forks();

    Preface& preface() const { return *reinterpret_cast<Preface*>(base); }
    Member& member(int which) const { return reinterpret_cast<Member*>(base + padded(sizeof(Preface) + 64))[which]; }
    Ring& ring_of(int lane, int from, int to) const {
        const size_t index = (static_cast<size_t>(lane) * size + from) * size + to;
        return *reinterpret_cast<Ring*>(base + preface_bytes(size) + index * (padded(sizeof(Ring)) + ring));
    }
    static char* contents(Ring& ring) { return reinterpret_cast<char*>(&ring) + padded(sizeof(Ring)); }
};

int SharedMemory::make(int size) {
    const int descriptor = static_cast<int>(syscall(SYS_memfd_create, "minitensor-group", 1U /* MFD_CLOEXEC */));
    if (descriptor < 0) fail(system_text("memfd_create"));
    const size_t total = total_bytes(size);
    Preface preface{};
    preface.magic = kMagic;
    preface.size = static_cast<uint32_t>(size);
    preface.ring = ring_bytes(size);
    preface.total = total;
    if (ftruncate(descriptor, static_cast<off_t>(total)) < 0 ||
        pwrite(descriptor, &preface, sizeof preface, 0) != static_cast<ssize_t>(sizeof preface)) {
        std::string text = system_text("making it");
        close(descriptor);
        fail(text + " (" + std::to_string(total) + " bytes for " + std::to_string(size) + " processes)");
    }
    return descriptor;
}

SharedMemory::SharedMemory(int descriptor, int rank, int size) : impl_(new Impl) {
    Impl& m = *impl_;
    m.descriptor = descriptor;
    m.rank = rank;
    m.size = size;
    m.total = total_bytes(size);
    m.ring = ring_bytes(size);
    struct stat status;
    if (fstat(descriptor, &status) < 0 || static_cast<size_t>(status.st_size) != m.total)
        fail("shared memory of a process group: it has another size; all processes need the same version");
    void* base = mmap(nullptr, m.total, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (base == MAP_FAILED) fail(system_text("mmap"));
    m.base = static_cast<char*>(base);
    if (m.preface().magic != kMagic || m.preface().size != static_cast<uint32_t>(size) || m.preface().ring != m.ring)
        fail("shared memory of a process group: it is laid out otherwise; all processes need the same version");
    struct flock lock = lock_of(rank);
    if (fcntl(descriptor, F_SETLK, &lock) < 0) fail(system_text("locking a rank's byte"));
    m.member(rank).state.store(kIn);
}

SharedMemory::~SharedMemory() {
    Impl& m = *impl_;
    if (m.base) munmap(m.base, m.total);
    if (m.made_in == forks() && m.descriptor >= 0) close(m.descriptor);
}

namespace {

void futex_wake(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, int64_t nanoseconds) {
    timespec limit{nanoseconds / 1000000000, nanoseconds % 1000000000};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

// Nanoseconds: longer than a thread takes to wake up, or two that have once slept do so at every call.
constexpr int64_t kSpin = 100'000;

// Bytes from which a message goes past the caches.
constexpr size_t kStreamed = size_t{64} << 10;

class SharedChannel final : public Channel {
  public:
    SharedChannel(std::shared_ptr<SharedMemory> memory, int lane)
        : memory_(std::move(memory)), m_(memory_->impl()), lane_(lane), changed_(m_.size, false) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        // Who waits for a process that has no core of its own only keeps it from running.
        may_spin_ = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= m_.size;
    }

    size_t write(int peer, const char* data, size_t size) override {
        Ring& ring = m_.ring_of(lane_, m_.rank, peer);
        const uint64_t written = ring.written.load(std::memory_order_relaxed);
        const auto unread = static_cast<size_t>(written - ring.read.load(std::memory_order_acquire));
        const size_t count = std::min(size, m_.ring - std::min(unread, m_.ring));
        if (!count) return 0;
        put(ring, written, data, count);
        ring.written.store(written + count, std::memory_order_release);
        changed_[peer] = true;
        return count;
    }

    size_t read(int peer, char* data, size_t size) override {
        Ring& ring = m_.ring_of(lane_, peer, m_.rank);
        const uint64_t read = ring.read.load(std::memory_order_relaxed);
        // What lies there is never trusted further than the ring reaches.
        const auto there = std::min(m_.ring, static_cast<size_t>(ring.written.load(std::memory_order_acquire) - read));
        const size_t count = std::min(size, there);
        if (!count) return 0;
        const char* contents = m_.contents(ring);
        const size_t at = read % m_.ring, first = std::min(count, m_.ring - at);
        std::memcpy(data, contents + at, first);
        std::memcpy(data + first, contents, count - first);
        ring.read.store(read + count, std::memory_order_release);
        changed_[peer] = true;
        return count;
    }

    bool write_whole(int peer, const char* first, size_t first_size, const char* second, size_t second_size) override {
        Ring& ring = m_.ring_of(lane_, m_.rank, peer);
        const uint64_t written = ring.written.load(std::memory_order_relaxed);
        const auto unread = static_cast<size_t>(written - ring.read.load(std::memory_order_acquire));
        if (first_size + second_size > m_.ring - std::min(unread, m_.ring)) return false;
        put(ring, written, first, first_size);
        put(ring, written + first_size, second, second_size);
        ring.written.store(written + first_size + second_size, std::memory_order_release);
        changed_[peer] = true;
        return true;
    }

    const char* peek(int peer, size_t size, std::vector<char>& scratch) override {
        Ring& ring = m_.ring_of(lane_, peer, m_.rank);
        const uint64_t read = ring.read.load(std::memory_order_relaxed);
        if (size > m_.ring || ring.written.load(std::memory_order_acquire) - read < size) return nullptr;
        const char* contents = m_.contents(ring);
        const size_t at = read % m_.ring, first = std::min(size, m_.ring - at);
        if (first == size) return contents + at;
        scratch.resize(size);
        std::memcpy(scratch.data(), contents + at, first);
        std::memcpy(scratch.data() + first, contents, size - first);
        return scratch.data();
    }

    void skip(int peer, size_t size) override {
        Ring& ring = m_.ring_of(lane_, peer, m_.rank);
        const uint64_t read = ring.read.load(std::memory_order_relaxed);
        const uint64_t unread = ring.written.load(std::memory_order_relaxed) - read;
        ring.read.store(read + size, std::memory_order_release);
        // The writer is woken up only where it waits, having found the ring buffer full. Otherwise it sees the room
        // when it writes next.
        if (unread > m_.ring / 2) ring_bell(peer);
    }

    uint32_t mark() override { return bell(m_.rank).count.load(); }

    void rest(uint32_t mark, int64_t nanoseconds, bool spin, const std::vector<uint8_t>&) override {
        Bell& mine = bell(m_.rank);
        if (spin && may_spin_) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kSpin);
            do {
                // The other one may be waiting for this very core: where it was woken up, or where others took its own.
                sched_yield();
                for (int i = 0; i < 64; ++i) {
                    if (mine.count.load(std::memory_order_acquire) != mark) return;
                    pause_briefly();
                }
            } while (std::chrono::steady_clock::now() < end);
        }
        mine.sleeping.fetch_add(1);
        if (mine.count.load() == mark) futex_wait(mine.count, mark, nanoseconds);
        mine.sleeping.fetch_sub(1);
    }

    void notify() override {
        for (int peer = 0; peer < m_.size; ++peer)
            if (changed_[peer]) {
                changed_[peer] = false;
                ring_bell(peer);
            }
    }

    void wake() override { ring_bell(m_.rank); }

    bool gone(int peer) override {
        const uint32_t state = m_.member(peer).state.load();
        if (state != kIn) return state == kLeft;
        struct flock lock = lock_of(peer);
        return fcntl(m_.descriptor, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    }

    std::string how_gone(int peer) override {
        return m_.member(peer).state.load() == kLeft ? "has left the group" : "has died";
    }

    void announce(const std::string& why) override {
        Preface& preface = m_.preface();
        uint32_t none = 0;
        if (preface.failing.compare_exchange_strong(none, 1)) {
            const size_t length = std::min(why.size(), sizeof preface.failure - 1);
            std::memcpy(preface.failure, why.data(), length);
            preface.failure[length] = 0;
            preface.failing.store(2);
        }
        for (int peer = 0; peer < m_.size; ++peer)
            for (Bell& one : m_.member(peer).bells) ring_bell(one);
    }

    std::string announced() override {
        Preface& preface = m_.preface();
        if (preface.failing.load() != 2) return {};
        return {preface.failure, strnlen(preface.failure, sizeof preface.failure)};
    }

    void leave() override {
        m_.member(m_.rank).state.store(kLeft);
        for (int peer = 0; peer < m_.size; ++peer)
            for (Bell& one : m_.member(peer).bells) ring_bell(one);
    }

    void forget() override {}

  private:
    void put(Ring& ring, uint64_t begin, const char* data, size_t size) {
        char* contents = m_.contents(ring);
        const size_t at = begin % m_.ring, first = std::min(size, m_.ring - at);
        if (size < kStreamed) {
            std::memcpy(contents + at, data, first);
            std::memcpy(contents, data + first, size - first);
            return;
        }
        // Lines that the other core has read are dear to take back where the two share no cache.
        streamed_copy(contents + at, data, first);
        streamed_copy(contents, data + first, size - first);
        streaming_fence();
    }

    Bell& bell(int rank) { return m_.member(rank).bells[lane_]; }
    void ring_bell(int rank) { ring_bell(bell(rank)); }
    static void ring_bell(Bell& one) {
        one.count.fetch_add(1);
        if (one.sleeping.load()) futex_wake(one.count);
    }

    std::shared_ptr<SharedMemory> memory_;
    SharedMemory::Impl& m_;
    int lane_;
    bool may_spin_;
    std::vector<char> changed_;
};

}  // namespace

std::unique_ptr<Channel> shared_channel(std::shared_ptr<SharedMemory> memory, int lane) {
    return std::make_unique<SharedChannel>(std::move(memory), lane);
}

}  // namespace mt::distributed
