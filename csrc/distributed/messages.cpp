#include "distributed/messages.h"

#include <algorithm>
#include <string.h>  // strnlen, which is POSIX

#include "core/error.h"

namespace mt::distributed {

namespace {
constexpr size_t kHeader = sizeof(MessageHeader);
constexpr size_t kPass = size_t{256} << 10;  // bytes of one message before it is the others' turn

std::string text_of(const MessageHeader& header) { return {header.text, strnlen(header.text, sizeof header.text)}; }
}  // namespace

MessageLane::MessageLane(std::unique_ptr<Channel> channel, int rank, int size, std::shared_ptr<Failure> failure)
    : Lane(std::move(channel), rank, size, std::move(failure)), out_(size), in_(size) {}

void MessageLane::deliver(Receive& call, const MessageHeader& header, int from) {
    call.source = from;
    if (header.bytes == call.header.bytes && text_of(header) == text_of(call.header)) return;
    if (refused_.empty())
        refused_ = call.text + ": rank " + std::to_string(rank_) + " expects " + text_of(call.header) + ", rank " +
                   std::to_string(from) + " sent " + text_of(header);
}

void MessageLane::add(const std::shared_ptr<Pending>& call) {
    if (auto send = std::dynamic_pointer_cast<Send>(call)) {
        last_ = send->text;
        out_[send->to].push_back(std::move(send));
        ++sends_;
        return;
    }
    auto receive = std::static_pointer_cast<Receive>(call);
    last_ = receive->text;
    auto fits = [&](const MessageHeader& header, int from) {
        return header.tag == receive->header.tag && (receive->from < 0 || receive->from == from);
    };
    for (auto it = kept_.begin(); it != kept_.end(); ++it)
        if (fits(it->header, it->from)) {
            deliver(*receive, it->header, it->from);
            if (!refused_.empty()) {
                receives_.push_back(std::move(receive));  // the lane fails
                return;
            }
            std::copy(it->data.begin(), it->data.end(), receive->data);
            kept_.erase(it);
            finish(*receive);
            return;
        }
    // One that is being kept.
    for (int peer = 0; peer < size_; ++peer) {
        Incoming& coming = in_[peer];
        if (coming.got < kHeader || coming.into || !fits(coming.header, peer)) continue;
        deliver(*receive, coming.header, peer);
        if (!refused_.empty()) break;
        std::copy_n(coming.kept.data(), coming.got - kHeader, receive->data);
        coming.kept.clear();
        coming.into = std::move(receive);
        return;
    }
    receives_.push_back(std::move(receive));
}

bool MessageLane::write(int peer) {
    bool moved = false;
    auto& queue = out_[peer];
    for (size_t pass = 0; !queue.empty() && pass < kPass;) {
        Send& call = *queue.front();
        const size_t total = kHeader + call.header.bytes;
        const bool in_header = call.sent < kHeader;
        const char* from = in_header ? reinterpret_cast<const char*>(&call.header) + call.sent
                                     : call.data + (call.sent - kHeader);
        if (call.sent < total) {
            const size_t count = channel_->write(peer, from, (in_header ? kHeader : total) - call.sent);
            if (!count) break;
            moved = true;
            pass += count;
            call.sent += count;
        }
        if (call.sent < total) continue;
        --sends_;
        finish(call);
        queue.pop_front();
    }
    return moved;
}

bool MessageLane::read(int peer) {
    bool moved = false;
    Incoming& coming = in_[peer];
    for (size_t pass = 0; pass < kPass && refused_.empty();) {
        if (coming.got < kHeader) {
            const size_t count = channel_->read(peer, reinterpret_cast<char*>(&coming.header) + coming.got,
                                                kHeader - coming.got);
            if (!count) break;
            moved = true;
            if (!coming.got) ++arriving_;
            if ((coming.got += count) < kHeader) continue;
            for (auto it = receives_.begin(); it != receives_.end(); ++it)
                if ((*it)->header.tag == coming.header.tag && ((*it)->from < 0 || (*it)->from == peer)) {
                    deliver(**it, coming.header, peer);
                    if (!refused_.empty()) return moved;
                    coming.into = std::move(*it);
                    receives_.erase(it);
                    break;
                }
            if (!coming.into) coming.kept.reserve(std::min<size_t>(coming.header.bytes, size_t{1} << 24));
        }
        const size_t total = kHeader + coming.header.bytes, at = coming.got - kHeader;
        if (coming.got < total) {
            size_t count;
            if (coming.into) {
                count = channel_->read(peer, coming.into->data + at, total - coming.got);
            } else {
                char block[16384];
                count = channel_->read(peer, block, std::min(sizeof block, total - coming.got));
                coming.kept.insert(coming.kept.end(), block, block + count);
            }
            if (!count) break;
            moved = true;
            pass += count;
            coming.got += count;
        }
        if (coming.got < total) continue;
        if (coming.into) finish(*coming.into);
        else kept_.push_back({coming.header, peer, std::move(coming.kept)});
        coming = {};
        --arriving_;
    }
    return moved;
}

bool MessageLane::progress() {
    bool moved = false;
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        moved |= write(peer);
        moved |= read(peer);
    }
    return moved;
}

void MessageLane::wanted(std::vector<uint8_t>& wants) {
    for (int peer = 0; peer < size_; ++peer)
        if (peer != rank_) wants[peer] = kWantsRead | (out_[peer].empty() ? 0 : kWantsWrite);
}

std::string MessageLane::trouble(int64_t now) {
    auto late = [&](Pending& call, const std::string& text) -> std::string {
        if (!call.begun) call.begun = now;
        if (now - call.begun <= call.limit) return {};
        return text + ": timed out after " + seconds_text(call.limit);
    };
    auto ended = [&](int peer) {
        // What it wrote before it ended counts.
        return peer >= 0 && channel_->gone(peer) && !read(peer) && in_[peer].got == 0;
    };
    auto end_of = [&](const std::string& text, int peer) {
        return text + ": rank " + std::to_string(peer) + " " + channel_->how_gone(peer);
    };
    for (int peer = 0; peer < size_; ++peer) {
        for (auto& call : out_[peer])
            if (std::string text = late(*call, call->text); !text.empty()) return text;
        if (!out_[peer].empty() && channel_->gone(peer)) return end_of(out_[peer].front()->text, peer);
        Incoming& coming = in_[peer];
        if (!coming.got || !coming.into) continue;
        if (std::string text = late(*coming.into, coming.into->text); !text.empty()) return text;
        if (channel_->gone(peer) && !read(peer)) return end_of(coming.into->text, peer);
    }
    int alive = 0;
    for (int peer = 0; peer < size_; ++peer) alive += peer != rank_ && !ended(peer);
    for (auto& call : receives_) {
        if (std::string text = late(*call, call->text); !text.empty()) return text;
        if (call->from >= 0 ? ended(call->from) : alive == 0)
            return end_of(call->text, call->from >= 0 ? call->from : (rank_ ? 0 : size_ - 1));
    }
    return {};
}

void MessageLane::end_all(const std::string& error) {
    for (auto& queue : out_) {
        for (auto& call : queue) finish(*call, error);
        queue.clear();
    }
    for (auto& call : receives_) finish(*call, error);
    receives_.clear();
    for (Incoming& coming : in_) {
        if (coming.into) finish(*coming.into, error);
        coming.into.reset();
    }
    sends_ = arriving_ = 0;
}

}  // namespace mt::distributed
