// What carries bytes between the processes of a group: a stream to and from every other one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mt::distributed {

inline constexpr uint8_t kWantsRead = 1, kWantsWrite = 2;

// In loops that wait for another process.
inline void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

class Channel {
  public:
    virtual ~Channel() = default;
    // How many bytes the stream takes, or has, now. 0: none, or the other end is gone.
    virtual size_t write(int peer, const char* data, size_t size) = 0;
    virtual size_t read(int peer, char* data, size_t size) = 0;
    // For calls that are done at once. Both parts go, or nothing; false: not now, or not by this channel.
    virtual bool write_whole(int, const char*, size_t, const char*, size_t) { return false; }
    // The next `size` bytes from there if all have come, until `skip`; they lie in `scratch` where the stream has them
    // in two parts. Null: they have not come.
    virtual const char* peek(int, size_t, std::vector<char>&) { return nullptr; }
    virtual void skip(int, size_t) {}
    // What has happened so far: `rest` returns at once if more has happened since.
    virtual uint32_t mark() = 0;
    // Waits until something may be done, for `nanoseconds` at most; `wants` has what is waited for, a byte a peer.
    virtual void rest(uint32_t mark, int64_t nanoseconds, bool spin, const std::vector<uint8_t>& wants) = 0;
    // Lets the others know what was written and read since the last time.
    virtual void notify() = 0;
    // Ends a `rest` of another thread of this process.
    virtual void wake() = 0;
    // Whether the other end has left or died; what it wrote before can still be read.
    virtual bool gone(int peer) = 0;
    // How it is to be said: "has died", "has left the group".
    virtual std::string how_gone(int peer) = 0;
    // Tells the others why the group can't go on, and what they told. Empty: nothing.
    virtual void announce(const std::string& why) = 0;
    virtual std::string announced() = 0;
    // Nothing more is said. The streams stay until the channel is destroyed.
    virtual void leave() = 0;
    // In a forked child: lets go of what the parent alone is to have.
    virtual void forget() = 0;
};

}  // namespace mt::distributed
