// Generators of random numbers, and what an op that draws takes of one.
//
// A Philox generator is a seed and a number of ops: an op takes the next, and every element's number follows from the
// three. PyTorch's generator for the CPU (core/twister.h) is a sequence of words instead. An op that runs at once draws
// from the generator itself; what is recorded takes a copy of it, a place, while the generator goes on by what the op
// draws, which its `advance` tells. An op that draws by the values of its operands is not recorded.
#pragma once

#include <cstdint>
#include <memory>

#include "core/twister.h"
#include "dispatch/op.h"

namespace mt {

struct Generator {
    uint64_t seed = 0;
    uint64_t offset = 0;  // how many ops have drawn
    std::unique_ptr<Twister> twister;  // once it has been PyTorch's it is kept: a kernel may be drawing from it
    bool draws_as_torch = false;

    void begin(uint64_t from, uint64_t at);
    void draw_as_torch(bool torch);
};

// Each GPU has its own.
Generator& default_generator(Device device = {});
// What this thread draws from while an op is called with a generator of its own; null: the default one.
extern thread_local Generator* active_generator;

// Where a recorded op draws: PyTorch's generator as it was.
struct StreamPlace {
    Twister twister;
    const Generator* owner;
    uint64_t offset;  // the op's number among those that drew from the owner
    uint64_t id;

    StreamPlace(const Generator& generator);
    ~StreamPlace();
    StreamPlace(const StreamPlace&) = delete;
};
// Calls, nodes and compiled code know it by a seed that is its number, and this offset.
constexpr uint64_t kStreamPlace = ~uint64_t{0};
// Null if nothing has it any more.
std::shared_ptr<const StreamPlace> find_place(uint64_t id);

// Whether the call can't be recorded, since what it draws from a generator of PyTorch's depends on its operands.
bool draws_by_values(const Call& call);
// Takes what a call of a random op draws: `recorded` if it runs later.
void reserve_random(Call& call, bool recorded);
// The same for a recorded op that is run again, from the default generator. Sets the seed and the offset, and returns
// the place, which the caller keeps until the op has run, or null.
std::shared_ptr<const StreamPlace> reserve_again(Call& call);

}  // namespace mt
