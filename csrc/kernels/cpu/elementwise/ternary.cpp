// where and clamp.
#include "dispatch/infer/elementwise.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/strided_loop.h"

namespace mt::cpu {
namespace {

void where(Call& call) {
    DType compute = call.compute;
    Number numbers[3];
    LoopOperand operands[3];
    for (size_t i = 0; i < 3; ++i) {
        DType wanted = i == 0 ? DType::Bool : compute;
        if (call.operands[i].tensor) {
            operands[i] = operand_of(call.in(i), wanted, true);
        } else {
            store_scalar(call.operands[i].scalar, wanted, numbers[i].bytes);
            operands[i] = scalar_operand(numbers[i].bytes, wanted);
            operands[i].raw = true;
        }
    }
    WhereFn fn = elementwise().where[itemsize(compute)];
    run_elementwise(
        operand_of(*call.outputs[0], compute, true), operands, 3,
        [](void* context, void* to, const void* const* from, int64_t n, unsigned scalars) {
            (*static_cast<WhereFn*>(context))(to, from[0], from[1], from[2], n, scalars);
        },
        &fn);
}

void clamp(Call& call) {
    DType compute = call.compute;
    const ElementwiseTable& table = elementwise();
    struct Context {
        ClampFn both = nullptr;
        BinaryFn one = nullptr;
        Number low, high;
        char* bound = nullptr;
        int64_t item;
    } context;
    context.item = static_cast<int64_t>(itemsize(loop_dtype(compute)));
    check_loop(table.get(BinaryOp::Maximum, compute), call);
    if (!call.param(0).is_none()) {
        store_scalar(call.param(0).as_scalar(), loop_dtype(compute), context.low.bytes);
        context.one = table.get(BinaryOp::Maximum, compute);
        context.bound = context.low.bytes;
    }
    if (!call.param(1).is_none()) {
        store_scalar(call.param(1).as_scalar(), loop_dtype(compute), context.high.bytes);
        if (context.one) context.both = table.clamp[dtype_index(compute)];
        context.one = table.get(BinaryOp::Minimum, compute);
        context.bound = context.high.bytes;
    }
    LoopOperand operand = operand_of(call.in(0), compute);
    run_elementwise(
        operand_of(*call.outputs[0], compute), &operand, 1,
        [](void* opaque, void* to, const void* const* from, int64_t n, unsigned scalars) {
            auto& c = *static_cast<Context*>(opaque);
            Number value;
            void* result = scalars & 1 ? value.bytes : to;
            int64_t count = scalars & 1 ? 1 : n;
            if (c.both) c.both(result, from[0], c.low.bytes, c.high.bytes, count);
            else c.one(result, from[0], c.bound, count, 2);
            if (scalars & 1) gather_row(value.bytes, 0, c.item, n, to);
        },
        &context);
}

const RegisterNative registered{Takes::Any,
                                {
                                    {"where", infer_where, where, Takes::Stored},
                                    {"clamp", infer_clamp, clamp},
                                }};

}  // namespace
}  // namespace mt::cpu
