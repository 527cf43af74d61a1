#include "distributed/socket_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace mt::distributed {

namespace {

class SocketChannel final : public Channel {
  public:
    explicit SocketChannel(std::vector<int> descriptors)
        : ends_(std::move(descriptors)), gone_(ends_.size()), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (wake_ < 0) fail(std::string("sockets of a process group: eventfd: ") + std::strerror(errno));
        for (int end : ends_)
            if (end >= 0) fcntl(end, F_SETFL, fcntl(end, F_GETFL) | O_NONBLOCK);
    }

    ~SocketChannel() override {
        for (int end : ends_)
            if (end >= 0) close(end);
        if (wake_ >= 0) close(wake_);
    }

    size_t write(int peer, const char* data, size_t size) override {
        if (gone_[peer].load(std::memory_order_relaxed)) return 0;
        const ssize_t count = send(ends_[peer], data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) return static_cast<size_t>(count);
        // What the other end sent before it ended can still be read.
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) gone_[peer] = true;
        return 0;
    }

    size_t read(int peer, char* data, size_t size) override {
        if (!size) return 0;
        const ssize_t count = recv(ends_[peer], data, size, MSG_DONTWAIT);
        if (count > 0) return static_cast<size_t>(count);
        if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) gone_[peer] = true;
        return 0;
    }

    uint32_t mark() override { return wakes_.load(); }

    void rest(uint32_t mark, int64_t nanoseconds, bool, const std::vector<uint8_t>& wants) override {
        if (wakes_.load() != mark) return;
        std::vector<pollfd> polled{{wake_, POLLIN, 0}};
        for (size_t peer = 0; peer < ends_.size(); ++peer)
            if (ends_[peer] >= 0 && wants[peer] && !gone_[peer])
                polled.push_back({ends_[peer],
                                  static_cast<short>((wants[peer] & kWantsRead ? POLLIN : 0) |
                                                     (wants[peer] & kWantsWrite ? POLLOUT : 0)),
                                  0});
        timespec limit{nanoseconds / 1000000000, nanoseconds % 1000000000};
        if (ppoll(polled.data(), polled.size(), &limit, nullptr) > 0 && polled[0].revents) {
            uint64_t count;
            [[maybe_unused]] const ssize_t ignored = ::read(wake_, &count, sizeof count);
        }
    }

    void notify() override {}

    void wake() override {
        wakes_.fetch_add(1);
        const uint64_t one = 1;
        [[maybe_unused]] const ssize_t ignored = ::write(wake_, &one, sizeof one);
    }

    bool gone(int peer) override {
        if (gone_[peer]) return true;
        char byte;
        if (recv(ends_[peer], &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) gone_[peer] = true;
        return gone_[peer];
    }

    std::string how_gone(int) override { return "has died or left the group"; }

    // The end of the connections says it.
    void announce(const std::string&) override { leave(); }
    std::string announced() override { return {}; }

    void leave() override {
        for (int end : ends_)
            if (end >= 0) shutdown(end, SHUT_WR);
    }

    void forget() override {
        for (int& end : ends_)
            if (end >= 0) close(std::exchange(end, -1));
        if (wake_ >= 0) close(std::exchange(wake_, -1));
    }

  private:
    std::vector<int> ends_;
    std::vector<std::atomic<bool>> gone_;
    int wake_;
    std::atomic<uint32_t> wakes_{0};
};

}  // namespace

std::unique_ptr<Channel> socket_channel(std::vector<int> descriptors) {
    return std::make_unique<SocketChannel>(std::move(descriptors));
}

}  // namespace mt::distributed
