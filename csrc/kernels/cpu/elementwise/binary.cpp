// Kernels with two operands, tensors or numbers.
#include <atomic>
#include <cmath>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"
#include "kernels/cpu/elementwise/complex_loops.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/strided_loop.h"
#include "kernels/cpu/pointwise/pointwise.h"

namespace mt::cpu {
namespace {

[[noreturn]] void divided_by_zero() { throw Error(ErrorKind::ZeroDivision, "integer division or modulo by zero"); }

BinaryFn loop_of(BinaryOp op, DType compute) {
    BinaryFn fn = elementwise().get(op, compute);
    return fn || !is_complex(compute) ? fn : complex_binary(op, compute);
}

// Whether two tensors of float16 or bfloat16 give a third: nothing is converted outside of the loop. A single number as
// second operand keeps its precision, and goes another way.
bool runs_narrow(DType result, const Call& call) {
    if (call.outputs[0]->dtype != result || result != call.compute) return false;
    for (size_t i = 0; i < 2; ++i)
        if (!call.operands[i].tensor || call.in(i).dtype != result) return false;
    return call.in(1).numel != 1;
}

// Any operands, any size.
__attribute__((noinline)) void general_binary(BinaryOp op, DType result, Call& call) {
    DType compute = call.compute, loop = loop_dtype(compute);
    if (BinaryFn narrow = elementwise().get_narrow(op, compute); narrow && runs_narrow(result, call)) {
        LoopOperand operands[] = {operand_of(call.in(0), compute, true), operand_of(call.in(1), compute, true)};
        return run_elementwise(
            operand_of(*call.outputs[0], compute, true), operands, 2,
            [](void* fn, void* to, const void* const* from, int64_t n, unsigned scalars) {
                reinterpret_cast<BinaryFn>(fn)(to, from[0], from[1], n, scalars);
            },
            reinterpret_cast<void*>(narrow));
    }
    Number numbers[2];
    LoopOperand operands[2];
    for (size_t i = 0; i < 2; ++i) {
        // As in PyTorch, the second operand of float16 products and quotients keeps its precision if it is one number.
        bool wide = i == 1 && is_arithmetic(op) && op != BinaryOp::Add && op != BinaryOp::Sub && is_floating(compute);
        if (call.operands[i].tensor) {
            operands[i] = operand_of(call.in(i), wide && call.in(i).numel == 1 ? loop : compute);
        } else {
            operands[i] = scalar_operand(numbers[i].bytes, wide ? loop : compute);
            store_scalar(call.operands[i].scalar, operands[i].stored, numbers[i].bytes);
        }
    }
    struct Context {
        BinaryFn fn, stream;
        std::atomic<bool> failed;
    } context{loop_of(op, compute), elementwise().get_stream(op, compute), false};
    BlockFn stream = [](void* opaque, void* to, const void* const* from, int64_t n, unsigned scalars) {
        static_cast<Context*>(opaque)->stream(to, from[0], from[1], n, scalars);
    };
    run_elementwise(
        operand_of(*call.outputs[0], result), operands, 2,
        [](void* opaque, void* to, const void* const* from, int64_t n, unsigned scalars) {
            auto& c = *static_cast<Context*>(opaque);
            if (!c.fn(to, from[0], from[1], n, scalars)) c.failed.store(true, std::memory_order_relaxed);
        },
        &context, context.stream ? stream : nullptr);
    if (context.failed) divided_by_zero();
}

template <BinaryOp op> void binary(Call& call) {
    constexpr bool to_bool = gives_bool(op);
    DType compute = call.compute;
    DType result = to_bool ? DType::Bool : compute;
    BinaryFn fn = loop_of(op, compute);
    check_loop(fn, call);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;  // loops look at an input that is one number, which may not be there
    // Small and plain: straight to the loop.
    if (out.numel <= kElementwiseGrain && out.dtype == result && loop_dtype(compute) == compute && is_flat(out)) {
        const void* in[2];
        Number numbers[2];
        unsigned scalars = 0;
        bool plain = true;
        size_t item = itemsize(compute);
        for (size_t i = 0; i < 2; ++i) {
            const Operand& operand = call.operands[i];
            if (const Tensor* t = operand.tensor) {
                in[i] = first_element(*t, item);
                plain &= t->dtype == compute;
                if (t->numel == out.numel && is_flat(*t)) continue;
                plain &= t->numel == 1;
            } else {
                store_scalar(operand.scalar, compute, numbers[i].bytes);
                in[i] = numbers[i].bytes;
            }
            scalars |= 1u << i;
        }
        if (plain) {
            if (!fn(first_element(out, to_bool ? 1 : item), in[0], in[1], out.numel, scalars)) divided_by_zero();
            return;
        }
    }
    general_binary(op, result, call);
}

// A number as exponent for which the power is a short product, root or quotient.
template <BinaryOp op> void pow(Call& call) {
    const Operand& exponent = call.operands[1];
    if (exponent.is_scalar && call.operands[0].tensor) {
        double e = exponent.scalar.imag == 0.0 ? exponent.scalar.as_double() : NAN;
        bool floating = is_floating(call.compute) || is_complex(call.compute);
        if (e == 0.0) return run_fill(*call.outputs[0], Scalar::of(int64_t(1)));
        if (e == 1.0) return run_copy(call.in(0), *call.outputs[0]);
        if (e == 2.0) return run_unary(UnaryOp::Square, call);
        if (floating) {
            if (e == 3.0) return run_unary(UnaryOp::Cube, call);
            if (e == 0.5) return run_unary(UnaryOp::Sqrt, call);
            if (e == -0.5) return run_unary(UnaryOp::Rsqrt, call);
            if (e == -1.0) return run_unary(UnaryOp::Reciprocal, call);
            if (e == -2.0) return run_unary(UnaryOp::InverseSquare, call);
        }
    }
    static const NamedLoop& powers = *find_loop("pow");
    run_loop(powers, call);
}

// Of floats in vectors, of integers by the loops of the row.
template <BinaryOp op> void division(Call& call) {
    if (!is_floating(call.compute)) return binary<op>(call);
    static const NamedLoop& loop = *find_loop(op == BinaryOp::Remainder ? "remainder" : "floor_divide");
    run_loop(loop, call, op == BinaryOp::FloorDivide ? KeptNumber{.operand = 1, .of_tensors = true} : KeptNumber{});
}

const RegisterNative registered{
#define MT_BINARY(functor, op, result, inference, kernel, takes, ...) \
    {op, inference, kernel<BinaryOp::functor>, Takes::takes},
#include "kernels/cpu/elementwise/rows.h"
};

}  // namespace
}  // namespace mt::cpu
