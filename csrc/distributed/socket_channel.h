// Streams over connected sockets, one for each other process.
#pragma once

#include <memory>

#include "distributed/channel.h"

namespace mt::distributed {

// Takes the descriptors over; that of the process itself is -1.
std::unique_ptr<Channel> socket_channel(std::vector<int> descriptors);

}  // namespace mt::distributed
