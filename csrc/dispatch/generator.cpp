#include "dispatch/generator.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/process/fork.h"
#include "dispatch/registry.h"

namespace mt {

namespace {

using Places = std::unordered_map<uint64_t, std::weak_ptr<const StreamPlace>>;

Places& places() {
    static Places* all = new Places;  // places may die after static objects
    return *all;
}

uint64_t next_id() {
    static uint64_t last = 0;
    std::lock_guard lock(process_lock(ProcessLock::Streams));
    return ++last;
}

// Other ops that draw, which know Philox only, are keyed by a number of the generator's.
bool is_keyed(const Call& call) { return !call.op->advance && call.operand_count == 0; }

std::shared_ptr<const StreamPlace> take_place(Call& call, Generator& generator) {
    auto place = std::make_shared<const StreamPlace>(generator);
    {
        std::lock_guard lock(process_lock(ProcessLock::Streams));
        places()[place->id] = place;
    }
    ++generator.offset;
    call.op->advance(call, *generator.twister);
    call.seed = place->id;
    call.philox_offset = kStreamPlace;
    return place;
}

}  // namespace

void Generator::begin(uint64_t from, uint64_t at) {
    seed = from;
    offset = at;
    if (draws_as_torch) *twister = Twister(from);
}

void Generator::draw_as_torch(bool torch) {
    if (torch && !draws_as_torch) {
        if (!twister) twister = std::make_unique<Twister>(seed);
        else *twister = Twister(seed);
    }
    draws_as_torch = torch;
    offset = 0;
}

Generator& default_generator(Device device) {
    static Generator generator, gpus[128];
    return on_gpu(device) ? gpus[std::max<int>(device.index, 0)] : generator;
}

thread_local Generator* active_generator = nullptr;

StreamPlace::StreamPlace(const Generator& generator)
    : twister(*generator.twister), owner(&generator), offset(generator.offset), id(next_id()) {}

StreamPlace::~StreamPlace() {
    std::lock_guard lock(process_lock(ProcessLock::Streams));
    places().erase(id);
}

std::shared_ptr<const StreamPlace> find_place(uint64_t id) {
    std::shared_ptr<const StreamPlace> found;
    {
        std::lock_guard lock(process_lock(ProcessLock::Streams));
        auto at = places().find(id);
        if (at != places().end()) found = at->second.lock();
    }
    return found;
}

static Generator& generator_of(const Call& call) {
    return active_generator ? *active_generator : default_generator(call.device);
}

bool draws_by_values(const Call& call) {
    return call.op->kind == Kind::Random && generator_of(call).draws_as_torch && !call.op->advance && !is_keyed(call);
}

// What was taken for the call that is being recorded: the trace takes it over from here (dispatch/generator.h).
static thread_local std::shared_ptr<const StreamPlace> taken;

void reserve_random(Call& call, bool recorded) {
    Generator& generator = generator_of(call);
    call.twister = nullptr;
    if (!generator.draws_as_torch) {
        call.seed = generator.seed;
        call.philox_offset = generator.offset++;
        return;
    }
    if (call.device.type == DeviceType::Meta) return;
    if (is_keyed(call)) {
        ++generator.offset;
        call.seed = generator.twister->word_64();
        call.philox_offset = 0;
    } else if (recorded && call.op->advance) {
        taken = take_place(call, generator);
    } else {
        ++generator.offset;
        call.twister = generator.twister.get();
    }
}

std::shared_ptr<const StreamPlace> reserve_again(Call& call) {
    Generator& generator = default_generator();
    if (generator.draws_as_torch && call.op->advance) return take_place(call, generator);
    call.seed = generator.seed;
    call.philox_offset = generator.offset++;
    return nullptr;
}

}  // namespace mt
