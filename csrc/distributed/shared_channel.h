// Streams in memory that the processes of one machine share.
#pragma once

#include <memory>

#include "distributed/channel.h"

namespace mt::distributed {

// The memory of a group: a file without a name (memfd), so that it needs no place in /dev/shm and goes with the last
// process. A process that lives has a lock on its byte of the file, which the kernel takes back whatever ends it.
class SharedMemory {
  public:
    // Makes a file for `size` processes; returns its descriptor.
    static int make(int size);
    // Takes the descriptor over. Throws if the file isn't of such a group.
    SharedMemory(int descriptor, int rank, int size);
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;

    struct Impl;
    Impl& impl() { return *impl_; }

  private:
    std::unique_ptr<Impl> impl_;
};

// Lane 0 or 1 of the memory.
std::unique_ptr<Channel> shared_channel(std::shared_ptr<SharedMemory> memory, int lane);

}  // namespace mt::distributed
