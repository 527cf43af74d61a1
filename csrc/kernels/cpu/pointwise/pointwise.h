// Pointwise functions by name: tables with a row for each. A row has all that C++ knows of a function beside its
// formula: the op's name, its inference, its loops, of complex numbers too. Everything about running them is generic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "dispatch/op.h"
#include "kernels/cpu/elementwise/complex_loops.h"
#include "kernels/cpu/elementwise/loops.h"
#include "kernels/cpu/loops/loop_library.h"

namespace mt::cpu {

// The form for more than three inputs, which compiled code does not call.
using ManyFn = void (*)(void* out, const void* const* in, int64_t n, unsigned scalars);

// The numbers of inputs that a loop's form has.
template <class F> inline constexpr unsigned kInputs = 0;
template <> inline constexpr unsigned kInputs<UnaryFn> = 1;
template <> inline constexpr unsigned kInputs<BinaryFn> = 2;
template <> inline constexpr unsigned kInputs<TernaryFn> = 3;
template <> inline constexpr unsigned kInputs<ManyFn> = 4;

// A loop in one of these forms.
union AnyLoop {
    const void* none = nullptr;
    UnaryFn unary;
    BinaryFn binary;
    TernaryFn ternary;
    ManyFn many;
    constexpr AnyLoop() = default;
    constexpr AnyLoop(std::nullptr_t) {}
    constexpr AnyLoop(UnaryFn f) : unary(f) {}
    constexpr AnyLoop(BinaryFn f) : binary(f) {}
    constexpr AnyLoop(TernaryFn f) : ternary(f) {}
    constexpr AnyLoop(ManyFn f) : many(f) {}
};

// The loops of one function, of one form: a column for each dtype of elementwise/loops.h, null where there is none.
struct DtypeLoops {
    unsigned inputs = 0;
    bool to_bool = false;
    AnyLoop columns[kCompiledDtypes];

    template <class... F> consteval DtypeLoops(bool tests, F... loops) : to_bool(tests), columns{loops...} {
        static_assert(sizeof...(F) <= kCompiledDtypes);
        ((inputs = kInputs<F> ? kInputs<F> : inputs), ...);
        static_assert(((std::is_null_pointer_v<F> || kInputs<F> > 0) && ...), "a loop is in one of the forms above");
        static_assert((std::is_null_pointer_v<F> + ... + 0) < sizeof...(F), "a function has a loop");
        constexpr unsigned most = [] {
            unsigned larger = 0;
            ((larger = kInputs<F> > larger ? kInputs<F> : larger), ...);
            return larger;
        }();
        static_assert(((std::is_null_pointer_v<F> || kInputs<F> == most) && ...), "the loops of a row have one form");
    }
};

// outputs[0] = loop(operands, numbers among the parameters), computed in call.compute, with the loop of the op's name.
void run_pointwise(Call& call);
// The same where a number as third operand weighs the others, and keeps its precision among floats of 16 bits.
void run_weighted(Call& call);

struct PointwiseRow {
    const char* name;
    InferFn infer;  // null: a loop that other functions and compiled code call, and no op
    DtypeLoops loops;
    ComplexFunction complex = ComplexFunction::None;
    KernelFn kernel = run_pointwise;

    Loop find(DType dtype) const;
};

struct PointwiseTable {
    const PointwiseRow* rows;
    size_t count;
};

// Whether every row has a name of its own.
template <size_t count> constexpr bool names_differ(const PointwiseRow (&rows)[count]) {
    for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; k < i; ++k)
            if (std::string_view(rows[i].name) == rows[k].name) return false;
    return true;
}

// Enters what the rows say: the loops by their names, and the ops.
struct RegisterPointwise {
    explicit RegisterPointwise(const PointwiseTable& table);
};

// An operand whose number keeps its precision among floats of 16 bits, as in PyTorch; of a tensor, if it has one
// element.
struct KeptNumber {
    size_t operand = SIZE_MAX;
    bool of_tensors = false;
};
// run_pointwise with another loop.
void run_loop(const NamedLoop& loop, Call& call, KeptNumber kept = {});

}  // namespace mt::cpu
