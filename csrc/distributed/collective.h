// Collective calls: what each process sends to each other one, what it gets, and what is made of it.
//
// All are made of streams. To every other process goes a header, which says which call this is, and then parts of
// memory; the same comes from there. Reductions send operands, combine them piece by piece in the order of the ranks,
// and may send the results on: a reduce-scatter by direct exchange, and an all-gather behind it.
#pragma once

#include <deque>
#include <string_view>

#include "distributed/combine.h"
#include "distributed/lane.h"

namespace mt::distributed {

struct Span {
    char* data;
    size_t size;
};

struct Header {
    uint64_t sequence;  // the how manieth call of the group
    uint64_t key;  // of the whole text
    uint64_t bytes;  // that follow to this process
    uint64_t expected;  // from it
    char text[96];
};

struct Item {
    enum Kind : uint8_t { Plain, Operand, Result };
    char* data;
    size_t size;
    int64_t piece = 0;  // of operands and results
    Kind kind = Plain;
};

struct Stream {
    std::vector<Item> items;
    size_t at = 0, offset = 0;
    int64_t operands = 0;  // that went through
    bool finished() const { return at == items.size(); }
};

struct Collective : Pending {
    std::string text;
    std::vector<Header> headers, theirs;  // to each rank and from each
    std::vector<Stream> out, in;  // one a rank; this process's own are empty
    std::vector<char> come;  // whose headers have come
    std::vector<std::pair<Span, Span>> copies;  // from its own memory to its own
    bool copied = false, mismatch = false;
    int64_t mismatch_since = 0;

    // Of a reduction.
    DType dtype = DType::F32;
    ReduceKind kind = ReduceKind::Sum;
    const char* own = nullptr;  // this process's operand of what it combines
    char* result = nullptr;
    bool in_place = false;  // results lie where operands are that others are still to get
    size_t count = 0, piece = 0;  // elements, in all and in a piece
    int64_t pieces = 0, combined = 0;
    std::vector<char> operands;  // of the others: a few pieces each
    std::vector<char> kept;  // results that this process doesn't keep otherwise
};

// A call without arithmetic: what goes to each rank, and where what comes from each goes. Spans without bytes are
// nothing. What goes to the process itself and what comes from there must be as long.
std::shared_ptr<Collective> exchange(int rank, int size, std::string text, std::vector<std::vector<Span>> sends,
                                     std::vector<std::vector<Span>> recvs);

// `data` of all ranks combined, on all ranks or, in place of its data, on rank `root` only.
std::shared_ptr<Collective> reduction(int rank, int size, std::string text, DType dtype, ReduceKind kind, char* data,
                                      size_t count, int root);

// operands[r] of all ranks combined to the result of rank r; `count` elements each.
std::shared_ptr<Collective> reduction_by_rank(int rank, int size, std::string text, DType dtype, ReduceKind kind,
                                              std::vector<char*> operands, size_t count, char* result);

// The calls of a group, one after the other.
class CollectiveLane final : public Lane {
  public:
    using Lane::Lane;
    ~CollectiveLane() override { close(); }
    std::string last_calls() override;

    // Whether everybody gets everything in a reduction of so many bytes, in one piece.
    bool small(size_t bytes) const;
    // Such a reduction on all ranks, by a thread that doesn't let go of anything: done if the others' operands are
    // there within some microseconds. `NotBegun`: this process may make any call in its place. `Begun`: `call` is to be
    // waited for.
    enum class AtOnce : uint8_t { NotBegun, Begun, Done };
    AtOnce reduce_at_once(std::string_view text, DType dtype, ReduceKind kind, char* data, size_t count, int64_t limit,
                          std::shared_ptr<Collective>& call);

  private:
    void add(const std::shared_ptr<Pending>& call) override;
    bool progress() override;
    bool idle() override { return queue_.empty(); }
    void wanted(std::vector<uint8_t>& wants) override;
    std::string conflict(int64_t now) override;
    std::string trouble(int64_t now) override;
    void end_all(const std::string& error) override;

    bool write(Collective& call, int peer);
    bool read(Collective& call, int peer);
    bool combine_pieces(Collective& call);
    std::string mismatch_text(const Collective& call) const;
    std::string waited_for(const Collective& call);

    std::deque<std::shared_ptr<Collective>> queue_;
    uint64_t sequence_ = 0;
    std::string last_;
    // Of calls that are done at once.
    std::vector<std::vector<char>> scratch_;
    std::vector<const char*> operands_;
};

}  // namespace mt::distributed
