// The inner loops of the elementwise ops by name. Compiled code calls them for ops that it has no code of its own for,
// on the lanes of a vector, so its bits are those of the eager kernels.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/dtype.h"

namespace mt::cpu {

// A loop over n contiguous elements, but for that of no inputs: transpose_plane, which copies arrays to lie the other
// way. It is called as its number of inputs says; bit i of `scalars` means that input i is a single value.
//   0: void (const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows, int64_t cols)
//   1: void (void* out, const void* in, int64_t n)                                                   UnaryFn
//   2: bool (void* out, const void* a, const void* b, int64_t n, unsigned scalars)                   BinaryFn
//   3: void (void* out, const void* a, const void* b, const void* c, int64_t n, unsigned scalars)    TernaryFn
struct Loop {
    const void* function = nullptr;  // null: there is none
    DType result = DType::Bool;
};

using TernaryFn = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n, unsigned scalars);

struct NamedLoop {
    const char* name;
    unsigned inputs;
    Loop (*find_in)(const void* row, DType compute);
    const void* row = nullptr;  // what it is found in, if that is a table

    // The loop for operands of a dtype that loops are compiled for.
    Loop find(DType compute) const { return find_in(row, compute); }
};

// Registers loops that are not in the elementwise tables: one line beside each.
struct RegisterLoops {
    RegisterLoops(std::initializer_list<NamedLoop> loops);
};

// Null for an unknown name; valid for the life of the process.
const NamedLoop* find_loop(std::string_view name);

}  // namespace mt::cpu
