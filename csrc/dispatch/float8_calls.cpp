#include "dispatch/float8_calls.h"

#include <array>
#include <string_view>

#include "core/dtype.h"
#include "dispatch/registry.h"
#include "dispatch/thread_local_state.h"

namespace mt {

namespace {

bool of_one_float8(const Call& call) {
    if (call.operand_count != 2) return false;
    const Tensor *a = call.operands[0].tensor, *b = call.operands[1].tensor;
    return a && b && a->dtype == b->dtype && is_float8(a->dtype);
}

bool is_matrix_product(const Call& call) {
    return of_one_float8(call) && call.in(0).ndim() == 2 && call.in(1).ndim() == 2 &&
           call.in(0).dtype != DType::F8E8M0FNU;
}

Ref<Tensor> cast(Tensor& tensor, DType dtype) {
    static const OpDef* op = find_op("cast");
    Value value;
    value.tag = Value::Type;
    value.dtype = dtype;
    return call_op(*op, {&tensor}, {value});
}

}  // namespace

bool computes_with_float8(const Call& call) {
    static const OpDef *mul = find_op("mul"), *matmul = find_op("matmul");
    static const std::array tests{find_op("isinf"), find_op("isfinite")};
    static const std::array sums{find_op("sum"),  find_op("nansum"), find_op("mean"),
                                 find_op("prod"), find_op("cumsum"), find_op("cumprod")};
    const OpDef* op = call.op;
    if (op == mul) return of_one_float8(call);
    if (op == matmul) return is_matrix_product(call);
    for (const OpDef* one : tests)
        if (op == one) return true;
    for (const OpDef* one : sums)
        if (op == one) return !is_float8(call.results[0].dtype);
    return false;
}

Ref<Tensor> computed_wider(const Call& call) {
    const GradMode no_grad(false);
    const NoAutocast no_autocast;
    const DType result = call.results[0].dtype;
    const DType wide = is_float8(result) || result == DType::Bool ? DType::F32 : result;
    const std::span<const Value> params(call.params, call.param_count);
    const Ref<Tensor> first = cast(*call.operands[0].tensor, wide);
    Ref<Tensor> made;
    if (call.operand_count == 1) {
        made = call_op(*call.op, {first.get()}, params);
    } else {
        const Ref<Tensor> second = cast(*call.operands[1].tensor, wide);
        made = call_op(*call.op, {first.get(), second.get()}, params);
    }
    return made->dtype == result ? made : cast(*made, result);
}

}  // namespace mt
