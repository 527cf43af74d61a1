// where and clamp.
#include "dispatch/infer_elementwise.h"
#include "kernels/cpu/elementwise_kernels.h"
#include "kernels/cpu/strided_loop.h"

namespace mt::cpu {
namespace {

void where(Call& call) {
    DType compute = call.compute;
    alignas(8) char numbers[3][8];
    LoopOperand operands[3];
    for (size_t i = 0; i < 3; ++i) {
        DType wanted = i == 0 ? DType::Bool : compute;
        if (call.operands[i].tensor) {
            operands[i] = operand_of(call.in(i), wanted);
        } else {
            store_scalar(call.operands[i].scalar, wanted, numbers[i]);
            operands[i] = scalar_operand(numbers[i], wanted);
        }
    }
    WhereFn fn = elementwise().where[itemsize(compute)];
    run_elementwise(
        operand_of(*call.outputs[0], compute), operands, 3,
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
        alignas(8) char low[8], high[8];
        char* bound = nullptr;
        int64_t item;
    } context;
    context.item = static_cast<int64_t>(itemsize(compute));
    if (!call.param(0).is_none()) {
        store_scalar(call.param(0).as_scalar(), compute, context.low);
        context.one = table.get(BinaryOp::Maximum, compute);
        context.bound = context.low;
    }
    if (!call.param(1).is_none()) {
        store_scalar(call.param(1).as_scalar(), compute, context.high);
        if (context.one) context.both = table.clamp[dtype_index(compute)];
        context.one = table.get(BinaryOp::Minimum, compute);
        context.bound = context.high;
    }
    LoopOperand operand = operand_of(call.in(0), compute);
    run_elementwise(
        operand_of(*call.outputs[0], compute), &operand, 1,
        [](void* opaque, void* to, const void* const* from, int64_t n, unsigned scalars) {
            auto& c = *static_cast<Context*>(opaque);
            char value[8];
            void* result = scalars & 1 ? value : to;
            int64_t count = scalars & 1 ? 1 : n;
            if (c.both) c.both(result, from[0], c.low, c.high, count);
            else c.one(result, from[0], c.bound, count, 2);
            if (scalars & 1) gather_row(value, 0, c.item, n, to);
        },
        &context);
}

const RegisterNative registered{
    {"where", infer_where, where},
    {"clamp", infer_clamp, clamp},
};

}  // namespace
}  // namespace mt::cpu
