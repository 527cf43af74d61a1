#include "dispatch/infer/pointwise.h"

#include <string>

#include "core/error.h"
#include "dispatch/call.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/registry.h"

namespace mt {
namespace {

// The result has all operands' shapes, broadcast.
void set(Call& call, DType compute, DType result) {
    require_tensor(call);
    call.compute = compute;
    ResultMeta& meta = call.results[0];
    meta.dtype = result;
    meta.sizes.clear();
    bool first = true;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (!t) continue;
        if (first) meta.sizes = t->sizes;
        else if (!(meta.sizes == t->sizes)) meta.sizes = broadcast_shapes(meta.sizes, t->sizes);
        first = false;
    }
}

[[noreturn]] void refuse(const Call& call, DType dtype) { refuse_dtype(*call.op, dtype); }

}  // namespace

void infer_promoted(Call& call) {
    DType dtype = result_type(call);
    if (info(dtype).category < kFloating) dtype = call.ambient.default_dtype();
    set(call, dtype, dtype);
}

void infer_wide(Call& call) {
    infer_promoted(call);
    if (call.compute == DType::F16 || call.compute == DType::BF16) refuse(call, call.compute);
}

void infer_same(Call& call) {
    DType dtype = result_type(call);
    set(call, dtype, dtype);
}

void infer_numbers(Call& call) {
    DType dtype = result_type(call);
    if (dtype == DType::Bool) refuse(call, dtype);
    set(call, dtype, dtype);
}

void infer_integers(Call& call) {
    DType dtype = result_type(call);
    if (!is_integral(dtype)) refuse(call, dtype);
    set(call, dtype, dtype);
}

void infer_floats(Call& call) {
    DType dtype = result_type(call);
    if (info(dtype).category < kFloating) refuse(call, dtype);
    set(call, dtype, dtype);
}

void infer_lerp(Call& call) {
    DType dtype = call.in(0).dtype;
    for (size_t i = 1; i < 3; ++i)
        // A weight without dimensions is taken like a number.
        if (const Tensor* t = call.operands[i].tensor; t && t->dtype != dtype && (i == 1 || t->ndim() > 0))
            fail(std::string("expected dtype ") + torch_type_name(dtype) + " for `" + (i == 1 ? "end" : "weight") +
                 "` but got dtype " + torch_type_name(t->dtype));
    const Tensor* weight = call.operands[2].tensor;
    if (info(dtype).category < kFloating && !(weight && weight->ndim() == 0)) refuse(call, dtype);
    infer_floats(call);
}

namespace {

// The last operand is a number that has no say in types.
void infer_with_number(Call& call, InferFn infer) {
    const size_t last = call.operand_count - 1;
    const Operand& number = call.operands[last];
    if (number.tensor) fail_type(call.op->name + "(): argument 'value' must be Number, not Tensor");
    struct Without {
        Call& call;
        explicit Without(Call& all) : call(all) { --call.operand_count; }
        ~Without() { ++call.operand_count; }
    } without(call);
    infer(call);
    if (number.scalar.tag == Scalar::Complex)
        fail(std::string("value cannot be converted to type ") + info(loop_dtype(call.compute)).name +
             " without overflow");
}

}  // namespace

void infer_numbers_with_number(Call& call) { infer_with_number(call, infer_numbers); }
void infer_floats_with_number(Call& call) { infer_with_number(call, infer_floats); }

void infer_test(Call& call) { set(call, result_type(call), DType::Bool); }

}  // namespace mt
