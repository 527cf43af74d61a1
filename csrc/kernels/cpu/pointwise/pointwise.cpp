#include "kernels/cpu/pointwise/pointwise.h"

#include <atomic>

#include "core/error.h"
#include "core/isa.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/infer/pointwise.h"
#include "dispatch/registry.h"
#include "kernels/cpu/elementwise/complex_loops.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/strided_loop.h"
#include "runtime/errors.h"

namespace mt::cpu {

namespace baseline {
extern const PointwiseTable pointwise_table;
}
namespace avx2 {
extern const PointwiseTable pointwise_table;
}
namespace avx512 {
extern const PointwiseTable pointwise_table;
}

const PointwiseTable& vector_functions() {
    switch (isa()) {
#ifdef MT_BUILT_AVX512
        case Isa::Avx512: return avx512::pointwise_table;
#endif
#ifdef MT_BUILT_AVX2
        case Isa::Avx2: return avx2::pointwise_table;
#endif
        default: break;
    }
    return baseline::pointwise_table;
}

Loop PointwiseEntry::find(DType dtype) const {
    if (is_complex(dtype)) return {reinterpret_cast<const void*>(complex_function(name, dtype)), dtype};
    return {loops[dtype_index(dtype)].none, to_bool ? DType::Bool : dtype};
}

namespace {

constexpr size_t kMostInputs = 4;

// The loop of an op, looked up once.
const NamedLoop& loop_of(const OpDef& op) {
    static std::atomic<const NamedLoop*> known[4096];
    std::atomic<const NamedLoop*>* slot = static_cast<size_t>(op.id) < std::size(known) ? &known[op.id] : nullptr;
    const NamedLoop* named = slot ? slot->load(std::memory_order_relaxed) : nullptr;
    if (named) return *named;
    named = find_loop(op.name);
    if (!named) throw Error(ErrorKind::NotImplemented, "op '" + op.name + "' has no loop");
    if (slot) slot->store(named, std::memory_order_relaxed);
    return *named;
}

struct Context {
    const void* function;
    size_t inputs, tensors;
    const void* numbers[kMostInputs];
    int64_t item;
    std::atomic<bool> failed;

    void run(void* to, const void* const* from, int64_t n, unsigned scalars) {
        const void* in[kMostInputs];
        for (size_t i = 0; i < tensors; ++i) in[i] = from[i];
        for (size_t i = tensors; i < inputs; ++i) {
            in[i] = numbers[i];
            scalars |= 1u << i;
        }
        switch (inputs) {
            case 1: {
                auto* loop = reinterpret_cast<UnaryFn>(const_cast<void*>(function));
                if (!(scalars & 1)) return loop(to, in[0], n);
                Number value;
                loop(value.bytes, in[0], 1);
                return gather_row(value.bytes, 0, item, n, to);
            }
            case 2:
                if (!reinterpret_cast<BinaryFn>(const_cast<void*>(function))(to, in[0], in[1], n, scalars))
                    failed.store(true, std::memory_order_relaxed);
                return;
            case 3:
                return reinterpret_cast<TernaryFn>(const_cast<void*>(function))(to, in[0], in[1], in[2], n, scalars);
            default: return reinterpret_cast<ManyFn>(const_cast<void*>(function))(to, in, n, scalars);
        }
    }
};

}  // namespace

void run_loop(const NamedLoop& named, Call& call) {
    DType compute = call.compute, wide = loop_dtype(compute);
    Loop loop = named.find(compute);
    check_loop(loop.function, call);
    DType result = loop.result == DType::Bool ? DType::Bool : compute;
    Number numbers[kMostInputs];
    LoopOperand operands[kMostInputs];
    // The driver has room for three inputs: what comes fourth is a number.
    const size_t tensors = std::min<size_t>(call.operand_count, 3);
    Context context{loop.function, named.inputs, tensors, {}, 0, false};
    context.item = static_cast<int64_t>(itemsize(loop_dtype(result)));
    Tensor& out = *call.outputs[0];
    bool plain = wide == compute && out.dtype == result && out.numel <= kElementwiseGrain && is_flat(out);
    const void* direct[kMostInputs];
    unsigned scalars = 0;
    // As in PyTorch, a number that 16-bit floats are weighted with or divided by keeps its precision; a divisor also if
    // it is a tensor of one element.
    bool keeps = wide != compute && is_floating(compute);
    bool weighs = keeps && call.op->name == "lerp", divides = keeps && call.op->name == "floor_divide";
    for (size_t i = 0; i < tensors; ++i) {
        if (const Tensor* t = call.operands[i].tensor) {
            operands[i] = operand_of(*t, divides && i == 1 && t->numel == 1 ? wide : compute);
            direct[i] = t->data();
            plain &= t->dtype == compute;
            if (t->numel == out.numel && is_flat(*t)) continue;
            plain &= t->numel == 1;
        } else {
            DType held = (weighs && i == 2) || (divides && i == 1) ? wide : compute;
            store_scalar(call.operands[i].scalar, held, numbers[i].bytes);
            operands[i] = scalar_operand(numbers[i].bytes, held);
            direct[i] = numbers[i].bytes;
        }
        scalars |= 1u << i;
    }
    // Parameters follow the operands, in full precision.
    for (size_t i = tensors; i < named.inputs; ++i) {
        size_t k = i - call.operand_count;
        if (i >= call.operand_count && (k >= call.param_count || call.param(k).is_none()))
            fail(call.op->name + ": a parameter is missing");
        store_scalar(i < call.operand_count ? call.operands[i].scalar : call.param(k).as_scalar(), wide,
                     numbers[i].bytes);
        context.numbers[i] = numbers[i].bytes;
    }
    if (out.numel == 0) return;  // loops look at an input that is one number, which may not be there
    forget_runtime_error();
    if (plain) {
        context.run(out.data(), direct, out.numel, scalars);
        rethrow_runtime_error();
    } else {
        run_elementwise(
            operand_of(out, result), operands, tensors,
            [](void* opaque, void* to, const void* const* from, int64_t n, unsigned single) {
                static_cast<Context*>(opaque)->run(to, from, n, single);
                rethrow_runtime_error();
            },
            &context);
    }
    if (context.failed) throw Error(ErrorKind::ZeroDivision, "integer division or modulo by zero");
}

void run_pointwise(Call& call) { run_loop(loop_of(*call.op), call); }

namespace {

const RegisterTable<vector_functions, kVectorFunctions> loops;

// Powers of floats are those of the table, powers of integers elementwise.h's.
Loop power_loop(DType compute) {
    if (is_complex(compute)) return {reinterpret_cast<const void*>(complex_binary(BinaryOp::Pow, compute)), compute};
    if (!is_floating(compute))
        return {reinterpret_cast<const void*>(elementwise().get(BinaryOp::Pow, compute)), compute};
    static const NamedLoop& floats = *find_loop("_float_pow");
    return floats.find(compute);
}
// The divisions of floats likewise.
Loop fmod_loop(DType compute) {
    static const NamedLoop &floats = *find_loop("_float_fmod"), &others = *find_loop("_any_fmod");
    return is_floating(compute) ? floats.find(compute) : others.find(compute);
}
template <BinaryOp op> Loop division_loop(DType compute) {
    if (!is_floating(compute)) return {reinterpret_cast<const void*>(elementwise().get(op, compute)), compute};
    static const NamedLoop& floats = *find_loop(op == BinaryOp::Remainder ? "_float_remainder" : "_float_floor_divide");
    return floats.find(compute);
}
const RegisterLoops mixed{{"pow", 2, power_loop},
                          {"fmod", 2, fmod_loop},
                          {"remainder", 2, division_loop<BinaryOp::Remainder>},
                          {"floor_divide", 2, division_loop<BinaryOp::FloorDivide>}};

const RegisterNative registered{Takes::Any,
                                {
                                    {"sin", infer_float_unary, run_pointwise},
                                    {"cos", infer_float_unary, run_pointwise},
                                    {"tan", infer_float_unary, run_pointwise},
                                    {"asin", infer_float_unary, run_pointwise},
                                    {"acos", infer_float_unary, run_pointwise},
                                    {"atan", infer_float_unary, run_pointwise},
                                    {"sinh", infer_float_unary, run_pointwise},
                                    {"cosh", infer_float_unary, run_pointwise},
                                    {"asinh", infer_float_unary, run_pointwise},
                                    {"acosh", infer_float_unary, run_pointwise},
                                    {"atanh", infer_float_unary, run_pointwise},
                                    {"exp2", infer_float_unary, run_pointwise},
                                    {"expm1", infer_float_unary, run_pointwise},
                                    {"log1p", infer_float_unary, run_pointwise},
                                    {"log2", infer_float_unary, run_pointwise},
                                    {"log10", infer_float_unary, run_pointwise},
                                    {"erf", infer_float_unary, run_pointwise},
                                    {"erfc", infer_float_unary, run_pointwise},
                                    {"erfinv", infer_float_unary, run_pointwise},
                                    {"sinc", infer_float_unary, run_pointwise},
                                    {"_logit", infer_float_unary, run_pointwise},
                                    {"_gelu", infer_floats, run_pointwise},
                                    {"_gelu_tanh", infer_floats, run_pointwise},
                                    {"silu", infer_floats, run_pointwise},
                                    {"mish", infer_floats, run_pointwise},
                                    {"logsigmoid", infer_floats, run_pointwise},
                                    {"selu", infer_floats, run_pointwise},
                                    {"hardswish", infer_floats, run_pointwise},
                                    {"hardsigmoid", infer_floats, run_pointwise},
                                    {"elu", infer_floats, run_pointwise},
                                    {"celu", infer_floats, run_pointwise},
                                    {"softplus", infer_floats, run_pointwise},
                                    {"lerp", infer_lerp, run_pointwise},
                                    {"logaddexp", infer_floats, run_pointwise},
                                    {"logaddexp2", infer_floats, run_pointwise},
                                    {"atan2", infer_promoted, run_pointwise},
                                    {"xlogy", infer_promoted, run_pointwise},
                                    {"xlog1py", infer_promoted, run_pointwise},
                                    {"_tanh_backward", infer_floats, run_pointwise},
                                    {"_sigmoid_backward", infer_floats, run_pointwise},
                                    {"_silu_backward", infer_floats, run_pointwise},
                                    {"_gelu_backward", infer_floats, run_pointwise},
                                    {"_gelu_tanh_backward", infer_floats, run_pointwise},
                                    {"_squared_difference", infer_floats, run_pointwise},
                                    {"_squared_difference_backward", infer_floats, run_pointwise},
                                    {"_smooth_l1", infer_floats, run_pointwise},
                                    {"_smooth_l1_backward", infer_floats, run_pointwise},
                                    {"_larger_share", infer_promoted, run_pointwise},
                                    {"_root_of_positive", infer_floats, run_pointwise},
                                    {"_root_of_positive_backward", infer_floats, run_pointwise},
                                    {"_logits_loss", infer_floats, run_pointwise},
                                    {"_logits_loss_backward", infer_floats, run_pointwise},
                                }};

}  // namespace
}  // namespace mt::cpu
