#include "distributed/collective.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace mt::distributed {

namespace {

// FNV-1a, 64 bits (Fowler, Noll and Vo).
uint64_t hash_of(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
    return hash;
}

Header header_of(std::string_view text) {
    Header header{};
    header.key = hash_of(text);
    std::memcpy(header.text, text.data(), std::min(text.size(), sizeof header.text - 1));
    return header;
}

std::shared_ptr<Collective> begun(int size, std::string text) {
    auto call = std::make_shared<Collective>();
    call->headers.assign(size, header_of(text));
    call->text = std::move(text);
    call->out.resize(size);
    call->in.resize(size);
    call->theirs.resize(size);
    call->come.resize(size);
    return call;
}

void add_headers(Collective& call, int rank) {
    for (int peer = 0; peer < static_cast<int>(call.out.size()); ++peer)
        if (peer != rank) {
            call.out[peer].items.push_back({reinterpret_cast<char*>(&call.headers[peer]), sizeof(Header)});
            call.in[peer].items.push_back({reinterpret_cast<char*>(&call.theirs[peer]), sizeof(Header)});
        }
}

size_t bytes_behind_header(const Stream& stream) {
    size_t bytes = 0;
    for (size_t i = 1; i < stream.items.size(); ++i) bytes += stream.items[i].size;
    return bytes;
}

constexpr size_t kPieceBytes = size_t{128} << 10;
constexpr size_t kScratchBytes = size_t{16} << 20;
constexpr int64_t kAhead = 2;  // pieces whose operands go before the results of a piece
constexpr int64_t kSlots = kAhead + 1;
// Up to here everybody gets everything: one exchange instead of two.
constexpr size_t kWholeBytes = size_t{16} << 10;
// For what others write: some microseconds.
constexpr int kLooks = 100;

// Parts of a tensor for the ranks: equal ones, but for the last, that begin at multiples of 64 elements.
struct Parts {
    size_t count, length;
    Parts(size_t count_, int size) : count(count_), length(((count_ + size - 1) / size + 63) / 64 * 64) {}
    size_t begin(int rank) const { return std::min(count, length * rank); }
    size_t size(int rank) const { return std::min(count, length * (rank + 1)) - begin(rank); }
};

int64_t pieces_of(size_t count, size_t piece) { return static_cast<int64_t>((count + piece - 1) / piece); }

// What goes one way between two processes: the operands of the one that is to combine them, `ahead` of the results of
// the other.
void add_stream(Stream& stream, size_t element, size_t piece, size_t operands, size_t results, char* operand,
                char* result) {
    const int64_t first = pieces_of(operands, piece), second = pieces_of(results, piece);
    for (int64_t i = 0; i < std::max(first, second + kAhead); ++i) {
        const size_t at = static_cast<size_t>(i) * piece;
        if (i < first)
            stream.items.push_back({operand ? operand + at * element : nullptr,
                                    std::min(piece, operands - at) * element, i, Item::Operand});
        if (i >= kAhead && i - kAhead < second) {
            const size_t behind = static_cast<size_t>(i - kAhead) * piece;
            stream.items.push_back(
                {result + behind * element, std::min(piece, results - behind) * element, i - kAhead, Item::Result});
        }
    }
}

void prepare(Collective& call, int size, DType dtype, ReduceKind kind, size_t largest) {
    call.dtype = dtype;
    call.kind = kind;
    const size_t element = itemsize(dtype);
    size_t bytes = kPieceBytes;
    while (bytes > 4096 && bytes * kSlots * (size - 1) > kScratchBytes) bytes /= 2;
    call.piece = std::max<size_t>(1, std::min(bytes / element, std::max<size_t>(largest, 1)));
    call.operands.resize(call.piece * element * kSlots * size);
}

}  // namespace

std::shared_ptr<Collective> exchange(int rank, int size, std::string text, std::vector<std::vector<Span>> sends,
                                     std::vector<std::vector<Span>> recvs) {
    auto call = begun(size, std::move(text));
    add_headers(*call, rank);
    for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        for (Span span : sends[peer])
            if (span.size) call->out[peer].items.push_back({span.data, span.size});
        for (Span span : recvs[peer])
            if (span.size) call->in[peer].items.push_back({span.data, span.size});
    }
    // What stays: two lists of spans that may be cut otherwise.
    size_t from = 0, into = 0, sent = 0, received = 0;
    while (from < sends[rank].size() && into < recvs[rank].size()) {
        Span source = sends[rank][from], target = recvs[rank][into];
        const size_t count = std::min(source.size - sent, target.size - received);
        if (count) call->copies.push_back({{source.data + sent, count}, {target.data + received, count}});
        if ((sent += count) == source.size) sent = 0, ++from;
        if ((received += count) == target.size) received = 0, ++into;
    }
    return call;
}

std::shared_ptr<Collective> reduction(int rank, int size, std::string text, DType dtype, ReduceKind kind, char* data,
                                      size_t count, int root) {
    auto call = begun(size, std::move(text));
    add_headers(*call, rank);
    const size_t element = itemsize(dtype);
    if (root < 0 && (size == 2 || count * element * size <= kWholeBytes)) {
        prepare(*call, size, dtype, kind, count);
        call->own = call->result = data;
        call->in_place = true;
        call->count = count;
        for (int peer = 0; peer < size; ++peer)
            if (peer != rank) {
                add_stream(call->out[peer], element, call->piece, count, 0, data, nullptr);
                add_stream(call->in[peer], element, call->piece, count, 0, nullptr, nullptr);
            }
    } else {
        const Parts parts(count, size);
        prepare(*call, size, dtype, kind, parts.length);
        call->count = parts.size(rank);
        call->own = call->result = data + parts.begin(rank) * element;
        if (root >= 0 && root != rank) {
            call->kept.resize(call->count * element);
            call->result = call->kept.data();
        }
        for (int peer = 0; peer < size; ++peer) {
            if (peer == rank) continue;
            char* theirs = data + parts.begin(peer) * element;
            const bool to = root < 0 || root == peer, from = root < 0 || root == rank;
            add_stream(call->out[peer], element, call->piece, parts.size(peer), to ? call->count : 0, theirs,
                       call->result);
            add_stream(call->in[peer], element, call->piece, call->count, from ? parts.size(peer) : 0, nullptr, theirs);
        }
    }
    call->pieces = pieces_of(call->count, call->piece);
    return call;
}

std::shared_ptr<Collective> reduction_by_rank(int rank, int size, std::string text, DType dtype, ReduceKind kind,
                                              std::vector<char*> operands, size_t count, char* result) {
    auto call = begun(size, std::move(text));
    add_headers(*call, rank);
    const size_t element = itemsize(dtype);
    prepare(*call, size, dtype, kind, count);
    call->own = operands[rank];
    call->result = result;
    call->count = count;
    call->pieces = pieces_of(count, call->piece);
    for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        // The result may lie over operands.
        if (operands[peer] < result + count * element && result < operands[peer] + count * element)
            call->in_place = true;
        add_stream(call->out[peer], element, call->piece, count, 0, operands[peer], nullptr);
        add_stream(call->in[peer], element, call->piece, count, 0, nullptr, nullptr);
    }
    return call;
}

namespace {
uint64_t sequence_of(const Collective& call) { return call.headers[0].sequence; }
}  // namespace

bool CollectiveLane::small(size_t bytes) const { return bytes * (size_ == 2 ? 1 : size_) <= kWholeBytes; }

CollectiveLane::AtOnce CollectiveLane::reduce_at_once(std::string_view text, DType dtype, ReduceKind kind, char* data,
                                                      size_t count, int64_t limit, std::shared_ptr<Collective>& call) {
    const size_t bytes = count * itemsize(dtype), whole = sizeof(Header) + bytes;
    if (!count || !small(bytes)) return AtOnce::NotBegun;
    std::unique_lock lock = if_free();
    if (!lock) return AtOnce::NotBegun;
    Header header = header_of(text);
    header.sequence = sequence_ + 1;
    header.bytes = header.expected = bytes;
    operands_.assign(size_, nullptr);
    scratch_.resize(size_);
    int written = 0;  // so many ranks have got theirs
    auto peer_of = [&](int step) { return (rank_ + step) % size_; };
    while (written < size_ - 1 && channel_->write_whole(peer_of(written + 1), reinterpret_cast<const char*>(&header),
                                                        sizeof header, data, bytes))
        ++written;
    if (!written && size_ > 1) return AtOnce::NotBegun;
    channel_->notify();
    bool all = written == size_ - 1;
    for (int step = 1, looks = 0; all && step < size_;) {
        const int peer = peer_of(step);
        if (const char* theirs = channel_->peek(peer, whole, scratch_[peer])) {
            Header sent;
            std::memcpy(&sent, theirs, sizeof sent);
            all = sent.key == header.key && sent.sequence == header.sequence && sent.bytes == bytes &&
                  sent.expected == bytes;
            operands_[peer] = theirs + sizeof(Header);
            ++step;
        } else {
            all = ++looks < kLooks;
            pause_briefly();
        }
    }
    if (all) {
        ++sequence_;
        last_ = text;
        operands_[rank_] = data;
        combine(dtype, kind, operands_.data(), size_, data, count);
        for (int step = 1; step < size_; ++step) channel_->skip(peer_of(step), whole);
        return AtOnce::Done;
    }
    // Nothing was read yet. It goes on like any other call.
    call = reduction(rank_, size_, std::string(text), dtype, kind, data, count, -1);
    call->limit = limit;
    add(call);
    for (int step = 1; step <= written; ++step) {
        Stream& stream = call->out[peer_of(step)];
        stream.at = stream.items.size();
        stream.operands = call->pieces;
    }
    return AtOnce::Begun;
}

void CollectiveLane::add(const std::shared_ptr<Pending>& given) {
    auto call = std::static_pointer_cast<Collective>(given);
    ++sequence_;
    for (int peer = 0; peer < size_; ++peer) {
        call->headers[peer].sequence = sequence_;
        if (peer == rank_) continue;
        call->headers[peer].bytes = bytes_behind_header(call->out[peer]);
        call->headers[peer].expected = bytes_behind_header(call->in[peer]);
    }
    last_ = call->text;
    queue_.push_back(std::move(call));
}

bool CollectiveLane::write(Collective& call, int peer) {
    Stream& stream = call.out[peer];
    bool moved = false;
    while (!stream.finished()) {
        const Item& item = stream.items[stream.at];
        if (item.kind == Item::Result && item.piece >= call.combined) break;
        // After the header of another call nothing that belongs to this one may follow.
        if (call.mismatch && stream.at > 0) break;
        const size_t count = channel_->write(peer, item.data + stream.offset, item.size - stream.offset);
        if (!count) break;
        moved = true;
        if ((stream.offset += count) < item.size) continue;
        stream.operands += item.kind == Item::Operand;
        stream.offset = 0;
        ++stream.at;
        if (item.kind != Item::Plain) break;  // the others' turn
    }
    return moved;
}

bool CollectiveLane::read(Collective& call, int peer) {
    Stream& stream = call.in[peer];
    bool moved = false;
    while (!stream.finished()) {
        const Item& item = stream.items[stream.at];
        char* to = item.data;
        if (item.kind == Item::Operand) {
            if (item.piece >= call.combined + kSlots) break;
            to = call.operands.data() +
                 (static_cast<size_t>(peer) * kSlots + item.piece % kSlots) * call.piece * itemsize(call.dtype);
        }
        if (call.mismatch && stream.at > 0) break;
        const size_t count = channel_->read(peer, to + stream.offset, item.size - stream.offset);
        if (!count) break;
        moved = true;
        if ((stream.offset += count) < item.size) continue;
        stream.operands += item.kind == Item::Operand;
        stream.offset = 0;
        if (stream.at++ == 0) {
            call.come[peer] = true;
            const Header &theirs = call.theirs[peer], &own = call.headers[peer];
            if (theirs.key != own.key || theirs.sequence != own.sequence || theirs.bytes != own.expected ||
                theirs.expected != own.bytes) {
                call.mismatch = true;
                break;
            }
        }
        if (item.kind != Item::Plain) break;
    }
    return moved;
}

bool CollectiveLane::combine_pieces(Collective& call) {
    bool moved = false;
    while (call.combined < call.pieces && !call.mismatch) {
        for (int peer = 0; peer < size_; ++peer)
            if (peer != rank_ && (call.in[peer].operands <= call.combined ||
                                  (call.in_place && call.out[peer].operands <= call.combined)))
                return moved;
        const size_t element = itemsize(call.dtype), begin = static_cast<size_t>(call.combined) * call.piece;
        std::vector<const char*> ranks(size_);
        for (int peer = 0; peer < size_; ++peer)
            ranks[peer] = peer == rank_
                              ? call.own + begin * element
                              : call.operands.data() + (static_cast<size_t>(peer) * kSlots + call.combined % kSlots) *
                                                           call.piece * element;
        combine(call.dtype, call.kind, ranks.data(), size_, call.result + begin * element,
                std::min(call.piece, call.count - begin));
        ++call.combined;
        moved = true;
    }
    return moved;
}

bool CollectiveLane::progress() {
    bool moved = false;
    while (!queue_.empty()) {
        Collective& call = *queue_.front();
        if (!call.begun) call.begun = now_ns();
        if (!call.copied) {
            for (auto& [from, to] : call.copies) std::memmove(to.data, from.data, to.size);
            call.copied = moved = true;
        }
        bool more = false, finished = true;
        // In each one's own order, so that not all write to the same one.
        for (int step = 1; step < size_; ++step) {
            more |= write(call, (rank_ + step) % size_);
            more |= read(call, (rank_ - step + size_) % size_);
        }
        moved |= combine_pieces(call);
        if (call.mismatch) {
            if (!call.mismatch_since) call.mismatch_since = now_ns();
            return moved;
        }
        for (int peer = 0; peer < size_; ++peer)
            finished &= peer == rank_ || (call.out[peer].finished() && call.in[peer].finished());
        if (!finished || call.combined < call.pieces) {
            moved |= more;
            return moved;
        }
        finish(call);
        queue_.pop_front();
        moved = true;
    }
    return moved;
}

void CollectiveLane::wanted(std::vector<uint8_t>& wants) {
    if (queue_.empty()) return;
    const Collective& call = *queue_.front();
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        const Stream &in = call.in[peer], &out = call.out[peer];
        if (!in.finished() && (in.items[in.at].kind != Item::Operand || in.items[in.at].piece < call.combined + kSlots))
            wants[peer] |= kWantsRead;
        if (!out.finished() && (out.items[out.at].kind != Item::Result || out.items[out.at].piece < call.combined))
            wants[peer] |= kWantsWrite;
    }
}

std::string CollectiveLane::mismatch_text(const Collective& call) const {
    std::string text = "the ranks' collective calls don't go together: rank " + std::to_string(rank_) + " called " +
                       call.text + " (call " + std::to_string(sequence_of(call)) + " of the group)";
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        const Header& theirs = call.theirs[peer];
        text += ", rank " + std::to_string(peer);
        if (!call.come[peer]) {
            text += " nothing yet";
            continue;
        }
        text += " called " + std::string(theirs.text, strnlen(theirs.text, sizeof theirs.text));
        if (theirs.sequence != sequence_of(call)) text += " (call " + std::to_string(theirs.sequence) + ")";
        const Header& own = call.headers[peer];
        if (theirs.key != own.key) continue;
        if (theirs.bytes != own.expected)
            text += " and sends " + std::to_string(theirs.bytes) + " bytes where rank " + std::to_string(rank_) +
                    " expects " + std::to_string(own.expected);
        if (theirs.expected != own.bytes)
            text += " and expects " + std::to_string(theirs.expected) + " bytes where rank " + std::to_string(rank_) +
                    " sends " + std::to_string(own.bytes);
    }
    return text;
}

std::string CollectiveLane::waited_for(const Collective& call) {
    std::string absent, slow;
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_ || (call.in[peer].finished() && call.out[peer].finished())) continue;
        std::string& list = call.come[peer] ? slow : absent;
        list += (list.empty() ? "" : ", ") + std::to_string(peer);
    }
    std::string text;
    if (!absent.empty()) text += "; not called yet by rank " + absent;
    if (!slow.empty()) text += "; still going on with rank " + slow;
    return text;
}

std::string CollectiveLane::conflict(int64_t now) {
    if (queue_.empty() || !queue_.front()->mismatch) return {};
    const Collective& call = *queue_.front();
    bool all = true;
    for (int peer = 0; peer < size_; ++peer) all &= peer == rank_ || call.come[peer];
    // All are named that have come, and who is late is not waited for.
    if (all || now - call.mismatch_since > std::min<int64_t>(call.limit, 2'000'000'000)) return mismatch_text(call);
    return {};
}

std::string CollectiveLane::trouble(int64_t now) {
    if (queue_.empty()) return {};
    Collective& call = *queue_.front();
    const std::string which = call.text + " (call " + std::to_string(sequence_of(call)) + " of the group)";
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_ || (call.in[peer].finished() && call.out[peer].finished()) || !channel_->gone(peer)) continue;
        // What it wrote before it ended counts.
        if (read(call, peer)) return {};
        return which + ": rank " + std::to_string(peer) + " " + channel_->how_gone(peer);
    }
    if (now - call.begun > call.limit)
        return which + ": timed out after " + seconds_text(call.limit) + waited_for(call);
    return {};
}

void CollectiveLane::end_all(const std::string& error) {
    for (auto& call : queue_) finish(*call, error);
    queue_.clear();
}

std::string CollectiveLane::last_calls() { return last_; }

}  // namespace mt::distributed
