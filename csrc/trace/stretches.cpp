#include "trace/stretches.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dispatch/settings.h"
#include "trace/plan.h"

namespace mt::trace {

int64_t (*stretch_clock)() = now_ns;
PyRef (*stretch_lost_hook)(const PyRef&, const SourceRef&, int64_t, int64_t) = nullptr;
void (*stretch_ran_hook)(const PyRef&) = nullptr;

namespace {

// What plans take to make: about so long at first, and then what they took. The first one loads the compiler.
constexpr int64_t kLoadNs = 150'000'000;
constexpr double kNsPerNode = 1'000'000;
double ns_per_node = kNsPerNode;
bool loaded = false;

int64_t cost_of_plan(size_t nodes) {
    return static_cast<int64_t>(ns_per_node * static_cast<double>(nodes)) + (loaded ? 0 : kLoadNs);
}

// How many times as long as a plan takes to make a stretch runs eagerly before: the longer the less there is to win.
// Small ops are hardly anything but their calls, of which recording saves little, and products are what they are; a
// chain of large elementwise ops may take a fraction of the time.
double patience(int64_t ns_per_call, double fusible) {
    constexpr double kLarge = 20'000, kLeast = 0.5, kMost = 20;
    const double share = std::max(std::pow(fusible, 5), 1e-3);
    return std::clamp(kLarge / (static_cast<double>(std::max<int64_t>(ns_per_call, 1)) * share), kLeast, kMost);
}

// About what the ops take one by one, from their number and sizes.
int64_t work_of_ops(const Trace& trace) {
    constexpr int64_t kCall = 1'000, kElementsPerNs = 2;
    int64_t elements = 0;
    for (const ResultInfo& result : trace.results) elements += product(result.sizes);
    return static_cast<int64_t>(trace.nodes.size()) * kCall + elements / kElementsPerNs;
}

uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDull;
    return hash ^ hash >> 32;
}

// Of what the call is made on.
uint64_t operands_of(const Call& call) {
    uint64_t hash = settings_word();
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (!t) continue;
        hash = mixed(hash, static_cast<uint64_t>(t->dtype) << 8 | t->sizes.size());
        for (int64_t size : t->sizes) hash = mixed(hash, static_cast<uint64_t>(size));
    }
    return hash;
}

}  // namespace

uint64_t Stretches::epoch = 0;

size_t Stretches::Hash::operator()(const Key& key) const {
    uint64_t hash = mixed(reinterpret_cast<uintptr_t>(key.op), reinterpret_cast<uintptr_t>(key.code));
    return mixed(hash, static_cast<uint64_t>(key.lasti) << 32 ^ key.options);
}

Stretches::Place& Stretches::place_of(const Key& key) {
    const bool valid = epoch_ == epoch;
    if (valid && place_ && place_->next && place_->next->key == key) return *place_->next;
    if (auto known = places_.find(key); valid && known != places_.end()) {
        if (place_) place_->next = &known->second;
        return known->second;
    }
    if (!valid || places_.size() >= kMaxPlaces) {
        forget();
        place_ = nullptr;
        epoch_ = epoch;
        auto dying = std::exchange(places_, {});  // code objects may run code when they die
    }
    Place& place = places_[key];
    place.code = PyRef::borrow(const_cast<PyObject*>(key.code));
    place.key = key;
    place.open = !may_put_off();
    return place;
}

Stretches::Stretch& Stretches::stretch_of(Place& place, uint64_t operands) {
    for (const auto& stretch : place.stretches)
        if (stretch->operands == operands) return *stretch;
    if (place.stretches.size() >= kMaxStretches) auto dying = std::exchange(place.stretches, {});
    place.stretches.push_back(std::make_unique<Stretch>());
    place.stretches.back()->operands = operands;
    return *place.stretches.back();
}

uint32_t Stretches::run_eagerly(size_t calls, bool timed) {
    limit_ = static_cast<uint32_t>(2 * calls + 64);
    timed_ = timed;
    if (timed) started_ = stretch_clock();
    return limit_;
}

uint32_t Stretches::begin(const Call& call, const SourceRef& at) {
    Place& place = place_of({call.op, at.code, at.lasti, options_id()});
    Stretch& stretch = stretch_of(place, operands_of(call));
    place_ = &place;
    now_ = &stretch;
    // Where an account is kept or a profile taken, everything is planned.
    if (flush_hook || launch_profile_hook) place.open = true;
    if (!place.open && std::exchange(place.seen, true)) {
        const uint32_t run = place.waits++;
        return run_eagerly(place.calls, run < kTimed || run % kEvery == 0);
    }
    if (place.open && place.left) {
        --place.left;
        return run_eagerly(place.calls, false);
    }
    if (stretch.state != State::Measured) {
        if (--stretch.left) {
            if (stretch.state == State::Eager) return run_eagerly(stretch.calls, false);
            forget();
            return 0;
        }
        stretch.state = State::Measured;
        stretch.recorded_runs = stretch.eager_runs = 0;
        stretch.recorded_ns = stretch.eager_ns = INT64_MAX;
    }
    if (launch_profile_hook) {  // what looks at launches takes time itself
        forget();
        return 0;
    }
    if (place.open && ++stretch.tries > kTries) {  // never twice the same
        stretch.tries = 0;
        stretch.state = State::Recorded;
        stretch.left = std::exchange(stretch.again, 4 * stretch.again);
        forget();
        return 0;
    }
    if (stretch.recorded_runs >= kRuns) return run_eagerly(stretch.calls, true);
    started_ = stretch_clock();
    return 0;
}

void Stretches::end_eager(uint32_t left) {
    if (!now_) return;
    const size_t calls = limit_ - left + 1;
    const int64_t took_ns = timed_ ? stretch_clock() - started_ : 0;
    const Stretch* ended = now_;
    if (flush_hook && stretch_ran_hook && now_->record) stretch_ran_hook(now_->record);
    if (now_ == ended) {  // what Python ran may have begun another
        if (place_->open && timed_) enter(took_ns, calls, false);
        else if (timed_) waited(took_ns, calls);
    }
    forget();
}

void Stretches::waited(int64_t took_ns, size_t calls) {
    place_->calls = std::max(place_->calls, calls);
    place_->spent_ns += took_ns * (place_->waits > kTimed ? kEvery : 1);
    enter(took_ns, calls, false);
    const double worth = patience(took_ns / static_cast<int64_t>(calls), place_->fusible) *
                         static_cast<double>(cost_of_plan(std::max(place_->nodes, calls)));
    place_->open = static_cast<double>(place_->spent_ns) >= worth;
}

bool Stretches::puts_off(const Trace& trace) {
    if (!now_ || place_->open) return false;
    place_->nodes = std::max(place_->nodes, trace.nodes.size());
    place_->open = work_of_ops(trace) >= cost_of_plan(trace.nodes.size()) ||
                   std::any_of(trace.nodes.begin(), trace.nodes.end(), [](const TraceNode& node) {
                       return node.device.type != DeviceType::CPU || node.tag.must || node.tag.compile == 1;
                   });
    return !place_->open;
}

void Stretches::end_recorded(const Plan& plan, bool hit, size_t calls) {
    if (!now_) return;
    place_->calls = std::max(place_->calls, calls);
    if (!place_->open) {
        place_->open = !plan.op_by_op;  // there is a plan already
        if (plan.ops_ns) place_->fusible = static_cast<double>(plan.fusible_ns) / static_cast<double>(plan.ops_ns);
    } else {
        const bool unplanned = plan.op_by_op != 0;
        place_->unplanned = unplanned ? place_->unplanned + 1 : 0;
        if (place_->unplanned >= kUnplanned) place_->left = kPause;
        if (hit && plan.revisit == ~uint64_t{0}) {
            if (plan.record && plan.record.get() != Py_None) now_->record = PyRef::borrow(plan.record.get());
            enter(stretch_clock() - started_, calls, true);
        }
    }
    forget();
}

void Stretches::enter(int64_t took_ns, size_t calls, bool recorded) {
    Stretch& stretch = *now_;
    if (calls != stretch.calls) {
        if (!recorded && stretch.recorded_runs) return;
        stretch.calls = calls;
        stretch.recorded_runs = stretch.eager_runs = 0;
        stretch.recorded_ns = stretch.eager_ns = INT64_MAX;
    }
    int64_t& fastest = recorded ? stretch.recorded_ns : stretch.eager_ns;
    fastest = std::min(fastest, took_ns);
    ++(recorded ? stretch.recorded_runs : stretch.eager_runs);
    if (stretch.recorded_runs >= kRuns && stretch.eager_runs >= kRuns) decide();
}

void Stretches::decide() {
    Stretch& stretch = *now_;
    const bool lost = stretch.recorded_ns > stretch.eager_ns;
    stretch.state = lost ? State::Eager : State::Recorded;
    stretch.tries = 0;
    stretch.left = std::exchange(stretch.again, 4 * stretch.again);
    if (!lost || !stretch_lost_hook) return;
    const SourceRef at{place_->code.get(), place_->key.lasti};
    PyRef record = stretch_lost_hook(stretch.record, at, stretch.recorded_ns, stretch.eager_ns);
    // Python ran: another may have begun, and this one be gone.
    if (now_ == &stretch) stretch.record = std::move(record);
}

void Stretches::planned(size_t nodes, int64_t took_ns) {
    if (!nodes) return;
    const double now = std::clamp(static_cast<double>(took_ns) / static_cast<double>(nodes), 1e5, 1e7);
    // The first one took longer.
    ns_per_node = loaded ? 0.75 * ns_per_node + 0.25 * now : std::min(ns_per_node, now);
    loaded = true;
}

}  // namespace mt::trace
