// Pointwise functions by name: tables of loops, one entry a function. Everything about running them is generic, so a
// function is a formula, an entry here, a rule of inference (pointwise.cpp), and a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "dispatch/op.h"
#include "kernels/cpu/elementwise/loops.h"
#include "kernels/cpu/loops/loop_library.h"

namespace mt::cpu {

// The form for more than three inputs, which compiled code does not call.
using ManyFn = void (*)(void* out, const void* const* in, int64_t n, unsigned scalars);

// A loop in one of the forms of loop_library.h, or that one.
union AnyLoop {
    const void* none = nullptr;
    UnaryFn unary;
    BinaryFn binary;
    TernaryFn ternary;
    ManyFn many;
    constexpr AnyLoop() = default;
    constexpr AnyLoop(UnaryFn f) : unary(f) {}
    constexpr AnyLoop(BinaryFn f) : binary(f) {}
    constexpr AnyLoop(TernaryFn f) : ternary(f) {}
    constexpr AnyLoop(ManyFn f) : many(f) {}
};

struct PointwiseEntry {
    const char* name;
    unsigned inputs;
    bool to_bool;
    AnyLoop loops[kCompiledDtypes];  // the columns of elementwise.h; null: there is none

    Loop find(DType dtype) const;
};

struct PointwiseTable {
    const PointwiseEntry* entries;
    size_t count;
};

// The functions with a loop for each instruction set; those of the instruction set in use.
const PointwiseTable& vector_functions();
inline constexpr size_t kVectorFunctions = 65;

// Enters a table into the library of loops: entry i of the table that `table()` gives, for all i below `count`.
template <const PointwiseTable& (*table)(), size_t count> struct RegisterTable {
    template <size_t i> static Loop find(DType dtype) { return table().entries[i].find(dtype); }
    template <size_t... i> explicit RegisterTable(std::index_sequence<i...>) {
        RegisterLoops{{table().entries[i].name, table().entries[i].inputs, find<i>}...};
    }
    RegisterTable() : RegisterTable(std::make_index_sequence<count>()) {}
};

// outputs[0] = loop(operands, numbers among the parameters), computed in call.compute.
void run_loop(const NamedLoop& loop, Call& call);
// The same with the loop of the op's name.
void run_pointwise(Call& call);

}  // namespace mt::cpu
