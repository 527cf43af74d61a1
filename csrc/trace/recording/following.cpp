// How a call is compared with the node that came then, and copied from it.
#include "trace/recording/following.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "autograd/engine.h"
#include "core/error.h"
#include "core/hash.h"
#include "dispatch/thread_local_state.h"
#include "trace/recording/trace.h"

namespace mt::trace {

bool Following::verifies() {
    static const bool verifies = std::getenv("MT_VERIFY_FOLLOWING") != nullptr;
    return verifies;
}

Following::Known& Following::known_at(const Start& start) {
    return known_[mixed(reinterpret_cast<uintptr_t>(start.code), static_cast<uint64_t>(start.lasti)) % kStarts];
}

void Following::begin(const Start& start) {
    forget();
    start_ = start;
    began_ = true;
    ++begun_count_;
    Known& known = known_at(start);
    if (known.start == start) {
        known.repeated = true;
        if (!known.recorded.nodes.empty()) expected_ = &known.recorded;
        return;
    }
    known = Known();
    known.start = start;
}

void Following::forget() {
    began_ = false;
    expected_ = nullptr;
    nodes_ = inputs_ = 0;
}

namespace {

bool same_node(const Recorded& now, const Recorded& then, size_t n) {
    const TraceNode &a = now.nodes[n], &b = then.nodes[n];
    if (a.op != b.op || a.last_word != b.last_word || a.first_operand != b.first_operand ||
        a.operand_count != b.operand_count || a.first_param != b.first_param || a.param_count != b.param_count ||
        a.first_result != b.first_result || a.result_count != b.result_count || a.compute != b.compute ||
        !(a.device == b.device) || !(a.ambient == b.ambient) || !(a.tag == b.tag))
        return false;
    for (uint32_t r = a.first_result; r < a.first_result + a.result_count; ++r)
        if (!(now.results[r].sizes == then.results[r].sizes) || now.results[r].dtype != then.results[r].dtype)
            return false;
    return true;
}

bool same_layout(const TraceInput& a, const TraceInput& b) {
    return a.offset == b.offset && a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides;
}

}  // namespace

bool Following::keeps_up(const Recorded& now) {
    if (!expected_) return false;
    const Recorded& then = *expected_;
    const size_t first = nodes_;
    bool same = now.nodes.size() <= then.nodes.size() && now.inputs.size() <= then.inputs.size();
    for (; same && nodes_ < now.nodes.size(); ++nodes_) same = same_node(now, then, nodes_);
    for (; same && inputs_ < now.inputs.size(); ++inputs_)
        same = same_layout(now.inputs[inputs_], then.inputs[inputs_]);
    if (same && nodes_ > first) {
        const auto words = now.signature.begin();
        const size_t begin = first ? then.nodes[first - 1].last_word : 0;
        same = std::equal(words + begin, words + now.nodes.back().last_word, then.signature.begin() + begin);
    }
    if (!same) expected_ = nullptr;
    return same;
}

std::optional<Following::Start> Following::end(const Recorded& over) {
    const bool wanted = began_ && !keeps_up(over) && known_at(start_).repeated && over.nodes.size() <= kMostNodes;
    forget();
    return wanted && !over.nodes.empty() ? std::optional(start_) : std::nullopt;
}

void Following::keep(const Start& start, Recorded& over) {
    Known& known = known_at(start);
    if (!(known.start == start) || expected_ == &known.recorded) return;  // code that ran meanwhile has recorded
    size_t kept = over.nodes.size();
    for (const Known& other : known_) kept += &other == &known ? 0 : other.recorded.nodes.size();
    if (kept > kMostNodes)
        for (Known& other : known_)
            if (expected_ != &other.recorded) other.recorded = Recorded();
    for (TraceNode& node : over.nodes) node.source = {};
    for (ResultInfo& result : over.results) {
        result.storage = nullptr;
        result.before = {};
    }
    over.signature.resize(over.nodes.back().last_word);
    std::swap(known.recorded, over);
}

namespace {

// Gives `to` what `from` has up to `end`: a few elements, for which a loop is less than a call.
template <class T>
void catch_up(std::vector<T>& to, const std::vector<T>& from, size_t end) {
    for (const T *next = from.data() + to.size(), *last = from.data() + end; next != last; ++next) to.push_back(*next);
}

// An index of an array that grows is the next one.
bool same_scalar(const ScalarInput& then, const Scalar& now) {
    return then.scalar.tag == now.tag && then.baked == is_baked(now) && (!then.baked || then.scalar == now);
}

}  // namespace

// Whether the operand of the call at hand is recorded as `wanted`. Views of recorded values are read by the nodes from
// `read` to `call`; an input that is as expected is there afterwards.
[[gnu::hot]] bool Trace::is_expected(const Operand& operand, ValueRef wanted, const Recorded& then, size_t& read,
                                     size_t call) {
    if (!operand.tensor) {
        if (!operand.is_scalar) return wanted.kind == RefKind::None;
        return wanted.kind == RefKind::Scalar && same_scalar(then.scalars[wanted.index], operand.scalar);
    }
    const Tensor& t = *operand.tensor;
    const Storage& storage = *t.storage;
    if (t.wrapped_number || storage.device.type != DeviceType::CPU) return false;
    if (const Pending* pending = storage.pending) {
        const ValueRef base{RefKind::Node, static_cast<uint8_t>(pending->result), pending->node};
        if (pending->trace != this || wanted.kind != RefKind::Node) return false;
        if (t.offset == 0 && t.sizes == pending->sizes && t.contiguous()) return wanted == base;
        if (read == call || wanted.index != read || wanted.result != 0) return false;
        const TraceNode& node = then.nodes[read++];
        const Value* region = &then.params[node.first_param];
        return then.operands[node.first_operand] == base && then.results[node.first_result].dtype == t.dtype &&
               region[0].ints == t.sizes && region[1].ints == t.strides && region[2].i == t.offset;
    }
    if (wanted.kind != RefKind::Input || storage.external()) return false;
    if (wanted.index < inputs.size()) return inputs[wanted.index].is(t.storage, t.offset, t.sizes, t.strides, t.dtype);
    const TraceInput& input = then.inputs[wanted.index];
    return input.offset == t.offset && input.dtype == t.dtype && input.sizes == t.sizes && input.strides == t.strides &&
           input_of(t.storage, t.offset, t.sizes, t.strides, t.dtype).index == wanted.index;
}

[[gnu::hot]] bool Trace::follow(Call& call, Ref<Tensor>* out) {
    const Recorded* expected = following_.expected(*this);
    follows = expected != nullptr;
    if (!expected) return false;
    const Recorded& then = *expected;
    const size_t first = nodes.size();
    size_t n = first;
    while (n < then.nodes.size() && then.nodes[n].op == &view_read_op()) ++n;
    if (n == then.nodes.size()) return false;
    const TraceNode& node = then.nodes[n];
    if (node.op != call.op || !node.repeatable || node.operand_count != call.operand_count ||
        node.param_count != call.param_count || !(node.ambient == call.ambient) || !(node.tag == current_tag) ||
        node.called != (backward_id() == 0) || runner || eager_region_ || n + 1 >= kMaxNodes ||
        (gated && first < Repetition::kNodes) || thread_settings.default_device.type != DeviceType::CPU)
        return false;
    for (size_t p = 0; p < call.param_count; ++p)
        if (!(then.params[node.first_param + p] == call.params[p])) return false;
    struct Position {
        SourceRef source;
        ~Position() { Py_XDECREF(source.code); }
    } position;
    const uint64_t begun = following_.begun();
    capture_source(&position.source, source_.code);  // makes Python objects: other code may run, and record
    if (!follows || following_.begun() != begun || nodes.size() != first || runner ||
        repetition_.counts(first, *call.op, position.source))
        return false;
    size_t read = first;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (!is_expected(call.operands[i], then.operands[node.first_operand + i], then, read, n)) return false;
    if (read != n) return false;
    if (__builtin_expect(Following::verifies(), 0)) {
        promised_ = n + 1;
        return false;
    }
    // Nothing from here on runs other code.
    std::swap(source_, position.source);
    ++calls_;
    ++Following::followed;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (call.operands[i].is_scalar && !call.operands[i].tensor)
            scalars.push_back({call.operands[i].scalar, is_baked(call.operands[i].scalar)});
    catch_up(operands, then.operands, node.first_operand + node.operand_count);
    catch_up(params, then.params, node.first_param + node.param_count);
    catch_up(results, then.results, node.first_result + node.result_count);
    catch_up(signature, then.signature, node.last_word);
    catch_up(nodes, then.nodes, n + 1);
    for (size_t k = first; k <= n; ++k) nodes[k].source = {Py_XNewRef(source_.code), source_.lasti};
    following_.advance(*this);
    if (n + 1 >= Repetition::kNodes) gated = is_program_;
    call.device = node.device;
    call.compute = node.compute;
    call.result_count = node.result_count;
    for (uint32_t r = 0; r < node.result_count; ++r) {
        const ResultInfo& result = then.results[node.first_result + r];
        out[r] = pending_tensor({RefKind::Node, static_cast<uint8_t>(r), static_cast<uint32_t>(n)}, result.dtype,
                                result.device, result.sizes);
    }
    return true;
}

// After a call that was recorded as ever.
void Trace::note_recorded(const Call& call) {
    if (calls_ == 1) following_.begin({call.op, source_.code, source_.lasti});
    follows = following_.keeps_up(*this);
    if (const size_t promised = std::exchange(promised_, 0); __builtin_expect(promised != 0, 0))
        if (!follows || nodes.size() != promised)
            fail("internal error: " + call.op->name + " is recorded otherwise than it was expected");
}

}  // namespace mt::trace
