#include "kernels/cpu/pointwise/pointwise.h"

#include <atomic>

#include "core/error.h"
#include "core/isa.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/infer/pointwise.h"
#include "dispatch/memory/memory_order.h"
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

namespace {

// The functions with a loop for each instruction set; those of the instruction set in use.
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

}  // namespace

Loop PointwiseRow::find(DType dtype) const {
    if (is_complex(dtype)) return {reinterpret_cast<const void*>(complex_function(complex, dtype)), dtype};
    return {loops.columns[dtype_index(dtype)].none, loops.to_bool ? DType::Bool : dtype};
}

RegisterPointwise::RegisterPointwise(const PointwiseTable& table) {
    for (const PointwiseRow *row = table.rows, *end = row + table.count; row != end; ++row) {
        RegisterLoops{
            {row->name, row->loops.inputs,
             [](const void* of, DType compute) { return static_cast<const PointwiseRow*>(of)->find(compute); }, row}};
        if (row->infer) register_native({row->name, row->infer, row->kernel, Takes::Any});
    }
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

void run_loop(const NamedLoop& named, Call& call, KeptNumber kept) {
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
    bool keeps = wide != compute && is_floating(compute);
    for (size_t i = 0; i < tensors; ++i) {
        if (const Tensor* t = call.operands[i].tensor) {
            operands[i] = operand_of(*t,
                                     keeps && kept.of_tensors && i == kept.operand && t->numel == 1 ? wide : compute);
            direct[i] = t->data();
            plain &= t->dtype == compute;
            if (t->numel == out.numel && is_flat(*t)) continue;
            plain &= t->numel == 1;
        } else {
            DType held = keeps && i == kept.operand ? wide : compute;
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
void run_weighted(Call& call) { run_loop(loop_of(*call.op), call, {.operand = 2}); }

namespace {

const RegisterPointwise rows(vector_functions());

// Powers of floats are those of the table, powers of integers elementwise.h's.
Loop power_loop(const void*, DType compute) {
    if (is_complex(compute)) return {reinterpret_cast<const void*>(complex_binary(BinaryOp::Pow, compute)), compute};
    if (!is_floating(compute))
        return {reinterpret_cast<const void*>(elementwise().get(BinaryOp::Pow, compute)), compute};
    static const NamedLoop& floats = *find_loop("_float_pow");
    return floats.find(compute);
}
// The divisions of floats likewise.
Loop fmod_loop(const void*, DType compute) {
    static const NamedLoop &floats = *find_loop("_float_fmod"), &others = *find_loop("_any_fmod");
    return is_floating(compute) ? floats.find(compute) : others.find(compute);
}
template <BinaryOp op> Loop division_loop(const void*, DType compute) {
    if (!is_floating(compute)) return {reinterpret_cast<const void*>(elementwise().get(op, compute)), compute};
    static const NamedLoop& floats = *find_loop(op == BinaryOp::Remainder ? "_float_remainder" : "_float_floor_divide");
    return floats.find(compute);
}
const RegisterOrder ordered{Order::KeptOfTensor, {"pow"}};
const RegisterLoops mixed{{"pow", 2, power_loop},
                          {"fmod", 2, fmod_loop},
                          {"remainder", 2, division_loop<BinaryOp::Remainder>},
                          {"floor_divide", 2, division_loop<BinaryOp::FloorDivide>}};

const RegisterNative registered{Takes::Any, {{"fmod", infer_numbers, run_pointwise}}};

}  // namespace
}  // namespace mt::cpu
