// Kernels with one tensor operand.
#include "core/error.h"
#include "dispatch/call.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/registry.h"
#include "kernels/cpu/elementwise/complex_loops.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/strided_loop.h"

namespace mt::cpu {

void check_loop(bool exists, const Call& call) {
    if (__builtin_expect(exists, 1)) return;
    refuse_dtype(*call.op, call.compute);
}

void run_unary(UnaryOp op, Call& call) {
    const Tensor& in = call.in(0);
    Tensor& out = *call.outputs[0];
    DType compute = call.compute;
    DType result = loop_result(op, compute);
    UnaryFn fn = elementwise().get(op, compute);
    if (!fn && is_complex(compute)) fn = complex_unary(op, compute);
    check_loop(fn, call);
    DType loop = loop_dtype(compute);
    if (in.dtype == loop && compute == loop && out.dtype == result && out.numel <= kElementwiseGrain && is_flat(in) &&
        is_flat(out)) {
        fn(first_element(out, itemsize(result)), first_element(in, itemsize(compute)), out.numel);
        return;
    }
    struct Context {
        UnaryFn fn;
        int64_t item;
    } context{fn, static_cast<int64_t>(itemsize(loop_dtype(result)))};
    LoopOperand operand = operand_of(in, compute);
    run_elementwise(
        operand_of(out, result), &operand, 1,
        [](void* opaque, void* to, const void* const* from, int64_t n, unsigned scalars) {
            auto [loop, item] = *static_cast<Context*>(opaque);
            if (!(scalars & 1)) return loop(to, from[0], n);
            Number value;
            loop(value.bytes, from[0], 1);
            gather_row(value.bytes, 0, item, n, to);
        },
        &context);
}

namespace {

template <UnaryOp op> void unary(Call& call) { run_unary(op, call); }

void copy_result(Call& call) { run_copy(call.in(0), *call.outputs[0]); }

// Integers are whole already.
template <UnaryOp op> void unary_or_copied_integers(Call& call) {
    if (is_floating(call.compute)) run_unary(op, call);
    else copy_result(call);
}

template <UnaryOp op> void unary_or_copied_bool(Call& call) {
    if (call.compute == DType::Bool) copy_result(call);
    else run_unary(op, call);
}

template <UnaryOp op> void unary_or_logical_not(Call& call) {
    run_unary(call.compute == DType::Bool ? UnaryOp::LogicalNot : op, call);
}

const RegisterNative registered{
#define MT_UNARY(functor, op, result, inference, kernel, takes, ...) \
    {op, inference, kernel<UnaryOp::functor>, Takes::takes},
#include "kernels/cpu/elementwise/rows.h"
};

}  // namespace
}  // namespace mt::cpu
