// Calls of ops from C++.
#include "dispatch/call.h"
#include "dispatch/thread_local_state.h"

namespace mt {

static Ref<Tensor> call_op(const OpDef& op, std::initializer_list<Tensor*> operands, const Value* params,
                           size_t param_count) {
    Operand slots[8];
    ParamCopies values(params, param_count);
    Call call(ambient());
    call.op = &op;
    call.operands = slots;
    for (Tensor* t : operands) slots[call.operand_count++].tensor = t;
    call.params = values.data();
    call.param_count = param_count;
    Ref<Tensor> results[kMaxResults];
    dispatch(call, results);
    return std::move(results[0]);
}

Ref<Tensor> call_op(const OpDef& op, std::initializer_list<Tensor*> operands, std::initializer_list<Value> params) {
    return call_op(op, operands, params.begin(), params.size());
}

Ref<Tensor> call_op(const OpDef& op, std::initializer_list<Tensor*> operands, std::span<const Value> params) {
    return call_op(op, operands, params.data(), params.size());
}

void call_op_inplace(const OpDef& op, Tensor& destination, std::initializer_list<Operand> operands,
                     std::initializer_list<Value> params) {
    Operand slots[8];
    ParamCopies values(params.begin(), params.size());
    Call call(ambient());
    call.op = &op;
    call.operands = slots;
    for (const Operand& o : operands) slots[call.operand_count++] = o;
    call.params = values.data();
    call.param_count = params.size();
    dispatch_inplace(call, destination);
}

Value value_of(const Dims& ints) {
    Value v;
    v.tag = Value::Ints;
    v.ints = ints;
    return v;
}

Value value_of(int64_t i) {
    Value v;
    v.tag = Value::Int;
    v.i = i;
    return v;
}

}  // namespace mt
