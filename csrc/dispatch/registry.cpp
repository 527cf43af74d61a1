#include "dispatch/registry.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/error.h"
#include "core/process/fork.h"
#include "dispatch/schema_parser.h"

namespace mt {

namespace {

std::unordered_map<std::string_view, NativeOp>& natives() {
    static auto* table = new std::unordered_map<std::string_view, NativeOp>;
    return *table;
}

std::deque<OpDef>& definitions() {
    static auto* table = new std::deque<OpDef>;
    return *table;
}

// Ops are defined under the GIL, by modules that are imported when they are wanted; compiled code looks them up
// without.
std::unordered_map<std::string_view, OpDef*>& names() {
    static auto* table = new std::unordered_map<std::string_view, OpDef*>;
    return *table;
}

}  // namespace

void register_native(const NativeOp& op) { natives()[op.name] = op; }

const NativeOp* find_native(std::string_view name) {
    auto found = natives().find(name);
    return found == natives().end() ? nullptr : &found->second;
}

OpDef& define_op(const std::string& schema, Kind kind) {
    OpDef op = parse_schema(schema);
    op.kind = kind;
    // PyTorch's iterators cast what they write, its other kernels don't.
    op.out = kind == Kind::View                                  ? OutRule::None
             : kind == Kind::Elementwise || kind == Kind::Random ? OutRule::Cast
                                                                 : OutRule::Exact;
    if (find_op(op.name)) fail_value("op '" + op.name + "' is defined twice");
    if (const NativeOp* native = find_native(op.name)) {
        op.infer = native->infer;
        op.cpu = native->cpu;
        op.takes = native->takes;
        op.advance = native->advance;
    }
    op.id = static_cast<int>(definitions().size());
    OpDef& stored = definitions().emplace_back(std::move(op));
    std::lock_guard lock(process_lock(ProcessLock::OpNames));
    names()[stored.name] = &stored;
    return stored;
}

OpDef* find_op(std::string_view name) {
    std::lock_guard lock(process_lock(ProcessLock::OpNames));
    auto found = names().find(name);
    return found == names().end() ? nullptr : found->second;
}

OpDef& op_by_id(int id) { return definitions()[static_cast<size_t>(id)]; }
size_t op_count() { return definitions().size(); }

std::string_view op_name(const Call& call) { return call.op ? std::string_view(call.op->name) : "op"; }

}  // namespace mt
