#include "kernels/cpu/loops/loop_library.h"

#include <map>
#include <string>

#include "kernels/cpu/elementwise/complex_loops.h"
#include "kernels/cpu/elementwise/loops.h"
#include "kernels/cpu/movement/transpose.h"

namespace mt::cpu {
namespace {

std::map<std::string_view, NamedLoop>& library() {
    static std::map<std::string_view, NamedLoop> loops;
    return loops;
}

// Small integers and floats are computed in other types, and the caller converts.
bool has_loops(DType dtype) { return loop_dtype(dtype) == dtype; }

template <UnaryOp op> Loop unary(const void*, DType compute) {
    if (!has_loops(compute)) return {};
    if (is_complex(compute)) {
        // The size of a complex number is real: hypot of its parts.
        bool same = !gives_bool(op) && op != UnaryOp::Abs;
        return {same ? reinterpret_cast<const void*>(complex_unary(op, compute)) : nullptr, compute};
    }
    return {reinterpret_cast<const void*>(elementwise().get(op, compute)), gives_bool(op) ? DType::Bool : compute};
}

template <BinaryOp op> Loop binary(const void*, DType compute) {
    if (!has_loops(compute)) return {};
    return {reinterpret_cast<const void*>(elementwise().get(op, compute)), gives_bool(op) ? DType::Bool : compute};
}

template <class T>
void transpose(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
    transpose_plane(static_cast<T*>(dst), dst_stride, static_cast<const T*>(src), src_stride, rows, cols);
}

Loop transposition(const void*, DType dtype) {
    switch (itemsize(dtype)) {
        case 1: return {reinterpret_cast<const void*>(transpose<uint8_t>), dtype};
        case 2: return {reinterpret_cast<const void*>(transpose<uint16_t>), dtype};
        case 4: return {reinterpret_cast<const void*>(transpose<float>), dtype};
        case 8: return {reinterpret_cast<const void*>(transpose<double>), dtype};
        default: return {};
    }
}

// The tables of elementwise/loops.h, by the names of the ops.
const RegisterLoops registered{
    {"transpose_plane", 0, transposition},
#define MT_UNARY(functor, op, ...) {op, 1, unary<UnaryOp::functor>},
#define MT_DIVISION(...)
#define MT_BINARY(functor, op, ...) {op, 2, binary<BinaryOp::functor>},
#include "kernels/cpu/elementwise/rows.h"
};

}  // namespace

RegisterLoops::RegisterLoops(std::initializer_list<NamedLoop> loops) {
    for (const NamedLoop& loop : loops) library().emplace(loop.name, loop);
}

const NamedLoop* find_loop(std::string_view name) {
    auto found = library().find(name);
    return found == library().end() ? nullptr : &found->second;
}

}  // namespace mt::cpu
