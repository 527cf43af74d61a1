#include "distributed/mpi_channel.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>

#include "core/error.h"
#include "core/process/fork.h"

namespace mt::distributed {

MpiGroup::MpiGroup(MpiLibrary& library_, const std::vector<int>& ranks, int tag)
    : library(library_), size(static_cast<int>(ranks.size())) {
    std::lock_guard lock(library.mutex);
    MpiHandle all, some;
    library.check(library.comm_group(library.world, &all), "MPI_Comm_group");
    library.check(library.group_incl(all, size, ranks.data(), &some), "MPI_Group_incl");
    library.check(library.comm_create_group(library.world, some, tag, &communicator), "MPI_Comm_create_group");
    library.check(library.comm_set_errhandler(communicator, kMpiErrorsReturn), "MPI_Comm_set_errhandler");
    library.group_free(&some);
    library.group_free(&all);
}

// The communicator stays until MPI ends: to free it is a call of all ranks.
MpiGroup::~MpiGroup() = default;

namespace {

constexpr size_t kMessage = size_t{256} << 10;
constexpr size_t kOnTheirWay = 4;  // messages to a rank

class MpiChannel final : public Channel {
  public:
    MpiChannel(std::shared_ptr<MpiGroup> group, int lane)
        : group_(std::move(group)), mpi_(group_->library), lane_(lane), out_(group_->size), in_(group_->size) {}

    ~MpiChannel() override {
        // What is on its way is read where it lies: that memory is never freed if it doesn't arrive now.
        for (auto& messages : out_)
            for (Message& one : messages)
                if (one.request != kMpiNoRequest && !arrived(one)) new std::vector<char>(std::move(one.data));
        for (Incoming& one : in_)
            if (one.request != kMpiNoRequest) new std::vector<char>(std::move(one.data));
    }

    size_t write(int peer, const char* data, size_t size) override {
        auto& messages = out_[peer];
        Message* room = nullptr;
        for (Message& one : messages)
            if (one.request == kMpiNoRequest || arrived(one)) {
                room = &one;
                break;
            }
        if (!room) {
            if (messages.size() >= kOnTheirWay) return 0;
            messages.reserve(kOnTheirWay);
            room = &messages.emplace_back();
        }
        const size_t count = std::min(size, kMessage);
        room->data.assign(data, data + count);
        std::lock_guard lock(mpi_.mutex);
        mpi_.check(mpi_.isend(room->data.data(), static_cast<int>(count), kMpiByte, peer, lane_, group_->communicator,
                              &room->request),
                   "MPI_Isend");
        rests_ = 0;
        return count;
    }

    size_t read(int peer, char* data, size_t size) override {
        Incoming& one = in_[peer];
        if (one.read == one.data.size() && !begin(one, peer)) return 0;
        if (one.request != kMpiNoRequest) {
            std::lock_guard lock(mpi_.mutex);
            int done = 0;
            mpi_.check(mpi_.test(&one.request, &done, nullptr), "MPI_Test");
            if (!done) return 0;
            one.request = kMpiNoRequest;
        }
        const size_t count = std::min(size, one.data.size() - one.read);
        std::copy_n(one.data.data() + one.read, count, data);
        one.read += count;
        rests_ = 0;
        return count;
    }

    uint32_t mark() override { return wakes_.load(); }

    // MPI can only be asked again: at once for a while, and then less and less often.
    void rest(uint32_t mark, int64_t nanoseconds, bool, const std::vector<uint8_t>&) override {
        if (wakes_.load() != mark) return;
        const int64_t tried = ++rests_;
        if (tried < 50) {
            sched_yield();
            return;
        }
        const int64_t pause = std::min({nanoseconds, int64_t{500'000}, (tried - 49) * 5'000});
        timespec time{0, pause};
        nanosleep(&time, nullptr);
    }

    void notify() override {}
    void wake() override { wakes_.fetch_add(1); }
    // MPI's launcher ends all processes where one has died.
    bool gone(int) override { return false; }
    std::string how_gone(int) override { return "is gone"; }
    void announce(const std::string&) override {}
    std::string announced() override { return {}; }
    void leave() override {}
    void forget() override {}

  private:
    struct Message {
        std::vector<char> data;
        MpiHandle request = kMpiNoRequest;
    };
    struct Incoming {
        std::vector<char> data;
        size_t read = 0;
        MpiHandle request = kMpiNoRequest;
    };

    bool arrived(Message& one) {
        std::lock_guard lock(mpi_.mutex);
        if (mpi_.ended) return true;
        int done = 0;
        mpi_.check(mpi_.test(&one.request, &done, nullptr), "MPI_Test");
        if (done) one.request = kMpiNoRequest;
        return done != 0;
    }

    bool begin(Incoming& one, int peer) {
        std::lock_guard lock(mpi_.mutex);
        int there = 0, count = 0;
        MpiHandle message = nullptr;
        MpiStatus status{};
        mpi_.check(mpi_.improbe(peer, lane_, group_->communicator, &there, &message, &status), "MPI_Improbe");
        if (!there) return false;
        mpi_.check(mpi_.get_count(&status, kMpiByte, &count), "MPI_Get_count");
        one.data.resize(static_cast<size_t>(count));
        one.read = 0;
        mpi_.check(mpi_.imrecv(one.data.data(), count, kMpiByte, &message, &one.request), "MPI_Imrecv");
        return true;
    }

    std::shared_ptr<MpiGroup> group_;
    MpiLibrary& mpi_;
    int lane_;
    std::vector<std::vector<Message>> out_;
    std::vector<Incoming> in_;
    std::atomic<int64_t> rests_{0};
    std::atomic<uint32_t> wakes_{0};
};

}  // namespace

std::unique_ptr<Channel> mpi_channel(std::shared_ptr<MpiGroup> group, int lane) {
    return std::make_unique<MpiChannel>(std::move(group), lane);
}

}  // namespace mt::distributed
