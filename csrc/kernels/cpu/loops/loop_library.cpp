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

template <UnaryOp op> Loop unary(DType compute) {
    if (!has_loops(compute)) return {};
    if (is_complex(compute)) {
        // The size of a complex number is real: hypot of its parts.
        bool same = !gives_bool(op) && op != UnaryOp::Abs;
        return {same ? reinterpret_cast<const void*>(complex_unary(op, compute)) : nullptr, compute};
    }
    return {reinterpret_cast<const void*>(elementwise().get(op, compute)), gives_bool(op) ? DType::Bool : compute};
}

template <BinaryOp op> Loop binary(DType compute) {
    if (!has_loops(compute)) return {};
    return {reinterpret_cast<const void*>(elementwise().get(op, compute)), gives_bool(op) ? DType::Bool : compute};
}

template <class T>
void transpose(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows, int64_t cols) {
    transpose_plane(static_cast<T*>(dst), dst_stride, static_cast<const T*>(src), src_stride, rows, cols);
}

Loop transposition(DType dtype) {
    switch (itemsize(dtype)) {
        case 1: return {reinterpret_cast<const void*>(transpose<uint8_t>), dtype};
        case 2: return {reinterpret_cast<const void*>(transpose<uint16_t>), dtype};
        case 4: return {reinterpret_cast<const void*>(transpose<float>), dtype};
        case 8: return {reinterpret_cast<const void*>(transpose<double>), dtype};
        default: return {};
    }
}

// The tables of elementwise.h, by the names of the ops.
const RegisterLoops registered{
    {"transpose_plane", 0, transposition},
    {"neg", 1, unary<UnaryOp::Neg>},
    {"abs", 1, unary<UnaryOp::Abs>},
    {"sign", 1, unary<UnaryOp::Sign>},
    {"square", 1, unary<UnaryOp::Square>},
    {"sqrt", 1, unary<UnaryOp::Sqrt>},
    {"rsqrt", 1, unary<UnaryOp::Rsqrt>},
    {"reciprocal", 1, unary<UnaryOp::Reciprocal>},
    {"exp", 1, unary<UnaryOp::Exp>},
    {"log", 1, unary<UnaryOp::Log>},
    {"tanh", 1, unary<UnaryOp::Tanh>},
    {"sigmoid", 1, unary<UnaryOp::Sigmoid>},
    {"relu", 1, unary<UnaryOp::Relu>},
    {"floor", 1, unary<UnaryOp::Floor>},
    {"ceil", 1, unary<UnaryOp::Ceil>},
    {"trunc", 1, unary<UnaryOp::Trunc>},
    {"round", 1, unary<UnaryOp::Round>},
    {"logical_not", 1, unary<UnaryOp::LogicalNot>},
    {"bitwise_not", 1, unary<UnaryOp::BitwiseNot>},
    {"isnan", 1, unary<UnaryOp::IsNan>},
    {"isinf", 1, unary<UnaryOp::IsInf>},
    {"isfinite", 1, unary<UnaryOp::IsFinite>},
    {"maximum", 2, binary<BinaryOp::Maximum>},
    {"minimum", 2, binary<BinaryOp::Minimum>},
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
