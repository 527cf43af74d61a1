// Messages from one process to another, with tags.
#pragma once

#include <deque>
#include <list>

#include "distributed/lane.h"

namespace mt::distributed {

struct MessageHeader {
    uint64_t bytes;
    int64_t tag;
    char text[48];  // dtype and number of elements
};

struct Send final : Pending {
    MessageHeader header{};
    const char* data = nullptr;
    int to = 0;
    size_t sent = 0;  // header and data
    std::string text;
};

struct Receive final : Pending {
    MessageHeader header{};  // what is expected
    char* data = nullptr;
    int from = -1;  // -1: any
    std::string text;
};

// Messages of two processes with the same tag arrive in order; those of others don't wait for them. What comes before
// it is asked for is kept, so that two processes may both send first.
class MessageLane final : public Lane {
  public:
    MessageLane(std::unique_ptr<Channel> channel, int rank, int size, std::shared_ptr<Failure> failure);
    ~MessageLane() override { close(); }
    std::string last_calls() override { return last_; }

  private:
    struct Message {
        MessageHeader header;
        int from;
        std::vector<char> data;
    };
    struct Incoming {
        MessageHeader header;
        size_t got = 0;  // header and data
        std::shared_ptr<Receive> into;
        std::vector<char> kept;
    };

    void add(const std::shared_ptr<Pending>& call) override;
    bool progress() override;
    bool idle() override { return sends_ == 0 && receives_.empty() && arriving_ == 0; }
    void wanted(std::vector<uint8_t>& wants) override;
    std::string conflict(int64_t) override { return refused_; }
    std::string trouble(int64_t now) override;
    void end_all(const std::string& error) override;

    bool write(int peer);
    bool read(int peer);
    void deliver(Receive& call, const MessageHeader& header, int from);

    std::vector<std::deque<std::shared_ptr<Send>>> out_;
    std::vector<Incoming> in_;
    std::list<std::shared_ptr<Receive>> receives_;  // those without a message yet
    std::list<Message> kept_;
    size_t sends_ = 0, arriving_ = 0;
    std::string last_, refused_;
};

}  // namespace mt::distributed
