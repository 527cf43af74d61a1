// Streams made of MPI's messages.
#pragma once

#include <memory>

#include "distributed/channel.h"
#include "distributed/mpi_library.h"

namespace mt::distributed {

// A communicator of MPI for some of the world's ranks. All of them make it, with the same tag.
class MpiGroup {
  public:
    MpiGroup(MpiLibrary& library, const std::vector<int>& ranks, int tag);
    ~MpiGroup();
    MpiGroup(const MpiGroup&) = delete;

    MpiLibrary& library;
    MpiHandle communicator;
    const int size;
};

std::unique_ptr<Channel> mpi_channel(std::shared_ptr<MpiGroup> group, int lane);

}  // namespace mt::distributed
