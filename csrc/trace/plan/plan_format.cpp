#include "trace/plan/plan_format.h"

#include <cstring>
#include <type_traits>

namespace mt::trace {

namespace {

enum class SlotKind : uint8_t { Value, Random, Size };

class Writer {
  public:
    template <class T> void put(T value) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);  // no padding, whose bytes would be anything
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    template <class List, class F> void list(const List& items, F&& each) {
        put(static_cast<uint32_t>(items.size()));
        for (const auto& item : items) each(item);
    }
    void value(ValueRef value) {
        put(value.kind);
        put(value.result);
        put(value.index);
    }

    std::string bytes;
};

// Reads nothing but zeros after the end, and remembers.
class Reader {
  public:
    Reader(const Trace& trace, std::string_view bytes) : trace_(trace), rest_(bytes) {}

    template <class T> T get() {
        T value{};
        if (rest_.size() < sizeof value) return refuse(value);
        std::memcpy(&value, rest_.data(), sizeof value);
        rest_.remove_prefix(sizeof value);
        return value;
    }
    template <class F> void list(F&& each) {
        for (uint32_t n = get<uint32_t>(); n && good_; --n) each();
    }
    ValueRef value() {
        ValueRef value;
        value.kind = get<RefKind>();
        value.result = get<uint8_t>();
        value.index = get<uint32_t>();
        switch (value.kind) {
            case RefKind::Node:
                if (!is_node(value.index) || value.result >= trace_.nodes[value.index].result_count) refuse(0);
                break;
            case RefKind::Input: within(value.index, trace_.inputs.size()); break;
            case RefKind::Scalar: within(value.index, trace_.scalars.size()); break;
            default: refuse(0);
        }
        return value;
    }
    ValueRef result() {
        ValueRef found = value();
        if (found.kind != RefKind::Node) refuse(0);
        return found;
    }
    uint32_t node() { return within(get<uint32_t>(), trace_.nodes.size()); }
    uint32_t input() { return within(get<uint32_t>(), trace_.inputs.size()); }
    DType dtype() {
        auto found = get<DType>();
        within(static_cast<uint32_t>(found), static_cast<size_t>(DType::Count));
        return found;
    }
    bool whole() const { return good_ && rest_.empty(); }

  private:
    template <class T> T refuse(T value) {
        good_ = false;
        rest_ = {};
        return value;
    }
    bool is_node(uint32_t index) const { return index < trace_.nodes.size(); }
    uint32_t within(uint32_t index, size_t count) { return index < count ? index : refuse(0u); }

    const Trace& trace_;
    std::string_view rest_;
    bool good_ = true;
};

void put_launch(Writer& out, const Step& step) {
    out.list(step.inputs, [&](const InputSlot& slot) {
        out.put(slot.is_size ? SlotKind::Size : slot.random ? SlotKind::Random : SlotKind::Value);
        if (slot.is_size) {
            out.put(slot.size);
        } else if (slot.random) {
            out.put(slot.value.index);
        } else {
            out.value(slot.value);
            out.put(slot.dtype);
        }
    });
    out.list(step.outputs, [&](ValueRef value) { out.value(value); });
    out.list(step.inside, [&](uint32_t node) { out.put(node); });
    out.put(static_cast<uint64_t>(step.scratch_bytes));
    out.put(step.work_bytes);
    out.put(static_cast<uint8_t>(step.reports_errors));
    out.put(static_cast<uint8_t>(step.guarded));
}

void get_launch(Reader& in, Step& step) {
    in.list([&] {
        InputSlot slot;
        switch (in.get<SlotKind>()) {
            case SlotKind::Size:
                slot.is_size = true;
                slot.size = in.get<int64_t>();
                break;
            case SlotKind::Random:
                slot.random = true;
                slot.value.index = in.node();
                break;
            default: slot.value = in.value(); slot.dtype = in.dtype();
        }
        step.inputs.push_back(slot);
    });
    in.list([&] { step.outputs.push_back(in.result()); });
    in.list([&] { step.inside.push_back(in.node()); });
    step.scratch_bytes = static_cast<size_t>(in.get<uint64_t>());
    step.work_bytes = in.get<int64_t>();
    step.reports_errors = in.get<uint8_t>();
    step.guarded = in.get<uint8_t>();
}

}  // namespace

std::string plan_to_bytes(const Plan& plan) {
    Writer out;
    out.list(plan.steps, [&](const Step& step) {
        out.put(step.type);
        if (step.type == Step::Type::Op) out.put(step.node);
        else put_launch(out, step);
    });
    out.list(plan.deferred, [&](ValueRef value) { out.value(value); });
    out.list(plan.checks, [&](const BoundsCheck& check) {
        out.put(check.input);
        out.put(check.low);
        out.put(check.high);
        out.put(check.ignored);
    });
    return std::move(out.bytes);
}

std::shared_ptr<Plan> plan_from_bytes(const Trace& trace, std::string_view bytes) {
    auto plan = std::make_shared<Plan>();
    Reader in(trace, bytes);
    in.list([&] {
        Step step;
        step.type = in.get<Step::Type>();
        if (step.type == Step::Type::Op) step.node = in.node();
        else get_launch(in, step);
        plan->steps.push_back(std::move(step));
    });
    in.list([&] { plan->deferred.push_back(in.result()); });
    in.list([&] {
        BoundsCheck check;
        check.input = in.input();
        check.low = in.get<int64_t>();
        check.high = in.get<int64_t>();
        check.ignored = in.get<int64_t>();
        plan->checks.push_back(check);
    });
    if (!in.whole() || !plan->makes_all(trace)) return nullptr;
    plan->complete(trace);
    return plan;
}

}  // namespace mt::trace
