// The processes that call together: one lane for collective calls, one for messages.
#pragma once

#include "distributed/collective.h"
#include "distributed/messages.h"

namespace mt::distributed {

class Group {
  public:
    Group(int rank, int size, std::unique_ptr<Channel> collectives, std::unique_ptr<Channel> messages)
        : rank(rank), size(size), failure(std::make_shared<Failure>()),
          collectives(std::move(collectives), rank, size, failure), messages(std::move(messages), rank, size, failure) {
    }

    // No call can be made from here on; the other processes are told why.
    void abort(const std::string& why) {
        collectives.abort(why, true);
        messages.abort(why, true);
    }
    // Leaves: what still goes on ends with an error. The others are left alone as long as they ask for nothing.
    void leave() {
        collectives.leave("the process group was destroyed");
        messages.leave("the process group was destroyed");
    }

    const int rank, size;
    const std::shared_ptr<Failure> failure;
    CollectiveLane collectives;
    MessageLane messages;
};

}  // namespace mt::distributed
