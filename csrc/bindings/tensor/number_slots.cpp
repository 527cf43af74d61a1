// Arithmetic and comparison operators of tensors: the type's number slots, straight to the call path.
#include "bindings/ops/overrides.h"
#include "bindings/py.h"
#include "bindings/tensor/shared_memory.h"
#include "bindings/tensor/temporary.h"

#include <string>

#include "core/error.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

const OpDef& op(const char* name) {
    OpDef* found = find_op(name);
    if (!found) fail(std::string("op '") + name + "' is not defined; import minitensor first");
    return *found;
}

// An op resolved once, by name: rows are registered when minitensor is imported, before any tensor exists.
struct LazyOp {
    const char* name;
    // The attributes of Tensor by which an override knows the operator, that with the tensor on the right, and that
    // in place.
    const char *forward, *reflected, *in_place;
    const OpDef* def = nullptr;
    const OpDef& get() {
        if (!def) def = &op(name);
        return *def;
    }
};

bool operand_from(PyObject* object, Operand* operand) {
    if (is_tensor(object)) {
        operand->tensor = tensor_of(object);
        return true;
    }
    operand->is_scalar = operand_number(object, &operand->scalar);
    return operand->is_scalar;
}

bool binary_overridden(const LazyOp& which, PyObject* a, PyObject* b, PyObject** result) {
    const bool forward = is_tensor(a);
    PyObject* args[] = {forward ? a : b, forward ? b : a};
    return method_overridden(forward ? which.forward : which.reflected, args, 2, nullptr, result);
}

// Where an operand is neither a tensor nor a number.
[[gnu::noinline, gnu::cold]] PyObject* not_ours(const LazyOp& which, PyObject* a, PyObject* b, bool asked) {
    PyObject* result;
    for (PyObject* object : {a, b})
        if (!asked && !is_tensor(object) && class_overrides(Py_TYPE(object)) && binary_overridden(which, a, b, &result))
            return result;
    Py_RETURN_NOTIMPLEMENTED;
}

[[gnu::always_inline]] inline PyObject* run_binary(LazyOp& which, PyObject* a, PyObject* b, bool asked) {
    return guarded([&]() -> PyObject* {
        Operand operands[2];
        if (!operand_from(a, &operands[0]) || !operand_from(b, &operands[1])) return not_ours(which, a, b, asked);
        Call call(ambient());
        call.op = &which.get();
        call.operands = operands;
        call.operand_count = 2;
        call.dying = elidable_temporaries(call, {a, b});
        Ref<Tensor> results[kMaxResults];
        dispatch(call, results);
        return wrap(std::move(results[0]));
    });
}

[[gnu::noinline, gnu::cold]] PyObject* watched_binary(LazyOp& which, PyObject* a, PyObject* b) {
    PyObject* result;
    return binary_overridden(which, a, b, &result) ? result : run_binary(which, a, b, true);
}

PyObject* binary(LazyOp& which, PyObject* a, PyObject* b) {
    return may_override() ? watched_binary(which, a, b) : run_binary(which, a, b, false);
}

PyObject* inplace(LazyOp& which, PyObject* a, PyObject* b) {
    PyObject *args[] = {a, b}, *result;
    const bool asked = may_override();
    if (asked && method_overridden(which.in_place, args, 2, nullptr, &result)) return result;
    return guarded([&]() -> PyObject* {
        Operand operands[2];
        if (!operand_from(a, &operands[0]) || !operand_from(b, &operands[1])) {
            if (!asked && !is_tensor(b) && class_overrides(Py_TYPE(b)) &&
                method_overridden(which.in_place, args, 2, nullptr, &result))
                return result;
            Py_RETURN_NOTIMPLEMENTED;
        }
        Call call(ambient());
        call.op = &which.get();
        call.operands = operands;
        call.operand_count = 2;
        dispatch_inplace(call, *operands[0].tensor);
        return Py_NewRef(a);
    });
}

PyObject* unary(LazyOp& which, PyObject* a, void (*check)(const Tensor&) = nullptr) {
    PyObject* result;
    if (may_override() && method_overridden(which.forward, &a, 1, nullptr, &result)) return result;
    return guarded([&]() -> PyObject* {
        Operand operand;
        operand.tensor = tensor_of(a);
        if (check) check(*operand.tensor);
        Call call(ambient());
        call.op = &which.get();
        call.operands = &operand;
        call.operand_count = 1;
        call.dying = elidable_temporaries(call, {a});
        Ref<Tensor> results[kMaxResults];
        dispatch(call, results);
        return wrap(std::move(results[0]));
    });
}

#define MT_BINARY_SLOT(NAME, FORWARD, REFLECTED, INPLACE) \
    LazyOp op_##NAME{#NAME, FORWARD, REFLECTED, INPLACE}; \
    PyObject* slot_##NAME(PyObject* a, PyObject* b) { return binary(op_##NAME, a, b); }
#define MT_INPLACE_SLOT(NAME) \
    PyObject* slot_i##NAME(PyObject* a, PyObject* b) { return inplace(op_##NAME, a, b); }
#define MT_UNARY_SLOT(NAME, FORWARD)                    \
    LazyOp op_##NAME{#NAME, FORWARD, nullptr, nullptr}; \
    PyObject* slot_##NAME(PyObject* a) { return unary(op_##NAME, a); }

MT_BINARY_SLOT(add, "add", "add", "add_")
MT_INPLACE_SLOT(add)
MT_BINARY_SLOT(sub, "sub", "__rsub__", "sub_")
MT_INPLACE_SLOT(sub)
// A number is the second factor, also on the left, as in PyTorch: with float16 it keeps its precision there.
LazyOp op_mul{"mul", "mul", "mul", "mul_"};
PyObject* slot_mul(PyObject* a, PyObject* b) { return is_tensor(a) ? binary(op_mul, a, b) : binary(op_mul, b, a); }
MT_INPLACE_SLOT(mul)
MT_BINARY_SLOT(div, "div", "__rtruediv__", "div_")
MT_INPLACE_SLOT(div)
MT_BINARY_SLOT(floor_divide, "__floordiv__", "__rfloordiv__", "floor_divide_")
MT_INPLACE_SLOT(floor_divide)
MT_BINARY_SLOT(remainder, "remainder", "__rmod__", "remainder_")
MT_INPLACE_SLOT(remainder)
MT_BINARY_SLOT(bitwise_and, "__and__", "bitwise_and", "__iand__")
MT_INPLACE_SLOT(bitwise_and)
MT_BINARY_SLOT(bitwise_or, "__or__", "bitwise_or", "__ior__")
MT_INPLACE_SLOT(bitwise_or)
MT_BINARY_SLOT(bitwise_xor, "__xor__", "bitwise_xor", "__ixor__")
MT_INPLACE_SLOT(bitwise_xor)
MT_BINARY_SLOT(bitwise_left_shift, "__lshift__", "__rlshift__", "__ilshift__")
MT_INPLACE_SLOT(bitwise_left_shift)
MT_BINARY_SLOT(bitwise_right_shift, "__rshift__", "__rrshift__", "__irshift__")
MT_INPLACE_SLOT(bitwise_right_shift)
MT_BINARY_SLOT(matmul, "matmul", "__rmatmul__", nullptr)
MT_BINARY_SLOT(pow, "__pow__", "__rpow__", "pow_")
MT_BINARY_SLOT(eq, "eq", "eq", nullptr)
MT_BINARY_SLOT(ne, "ne", "ne", nullptr)
MT_BINARY_SLOT(lt, "lt", "gt", nullptr)
MT_BINARY_SLOT(le, "le", "ge", nullptr)
MT_BINARY_SLOT(gt, "gt", "lt", nullptr)
MT_BINARY_SLOT(ge, "ge", "le", nullptr)
MT_UNARY_SLOT(neg, "neg")
MT_UNARY_SLOT(abs, "abs")

// The operator's error is Python's, that of the function is about kernels.
void check_invert(const Tensor& x) {
    if (is_floating(x.dtype) || is_complex(x.dtype))
        fail_type("~ (operator.invert) is only implemented on integer and Boolean-type tensors");
}
LazyOp op_bitwise_not{"bitwise_not", "__invert__", nullptr, nullptr};
PyObject* slot_bitwise_not(PyObject* a) { return unary(op_bitwise_not, a, check_invert); }

PyObject* slot_power(PyObject* a, PyObject* b, PyObject* modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return slot_pow(a, b);
}
PyObject* slot_ipower(PyObject* a, PyObject* b, PyObject*) { return inplace(op_pow, a, b); }
PyObject* slot_positive(PyObject* a) { return Py_NewRef(a); }

}  // namespace

namespace {

PyObject* compare(PyObject* a, PyObject* b, int operation) {
    switch (operation) {
        case Py_EQ: return slot_eq(a, b);
        case Py_NE: return slot_ne(a, b);
        case Py_LT: return slot_lt(a, b);
        case Py_LE: return slot_le(a, b);
        case Py_GT: return slot_gt(a, b);
        default: return slot_ge(a, b);
    }
}

}  // namespace

PyObject* tensor_richcompare(PyObject* a, PyObject* b, int operation) {
    PyObject* result = compare(a, b, operation);
    // NumPy would ask the tensor in turn: an array is what it's compared with.
    if (result != Py_NotImplemented || std::string_view(Py_TYPE(b)->tp_name) != "numpy.ndarray") return result;
    Py_DECREF(result);
    return guarded([&]() -> PyObject* {
        PyRef array = checked(wrap(from_buffer(b, true)));
        return compare(a, array.get(), operation);
    });
}

void fill_arithmetic(PyNumberMethods& n) {
    n.nb_add = slot<slot_add>;
    n.nb_inplace_add = slot<slot_iadd>;
    n.nb_subtract = slot<slot_sub>;
    n.nb_inplace_subtract = slot<slot_isub>;
    n.nb_multiply = slot<slot_mul>;
    n.nb_inplace_multiply = slot<slot_imul>;
    n.nb_true_divide = slot<slot_div>;
    n.nb_inplace_true_divide = slot<slot_idiv>;
    n.nb_floor_divide = slot<slot_floor_divide>;
    n.nb_inplace_floor_divide = slot<slot_ifloor_divide>;
    n.nb_remainder = slot<slot_remainder>;
    n.nb_inplace_remainder = slot<slot_iremainder>;
    n.nb_and = slot<slot_bitwise_and>;
    n.nb_inplace_and = slot<slot_ibitwise_and>;
    n.nb_or = slot<slot_bitwise_or>;
    n.nb_inplace_or = slot<slot_ibitwise_or>;
    n.nb_xor = slot<slot_bitwise_xor>;
    n.nb_inplace_xor = slot<slot_ibitwise_xor>;
    n.nb_lshift = slot<slot_bitwise_left_shift>;
    n.nb_inplace_lshift = slot<slot_ibitwise_left_shift>;
    n.nb_rshift = slot<slot_bitwise_right_shift>;
    n.nb_inplace_rshift = slot<slot_ibitwise_right_shift>;
    n.nb_matrix_multiply = slot<slot_matmul>;
    n.nb_power = slot<slot_power>;
    n.nb_inplace_power = slot<slot_ipower>;
    n.nb_negative = slot<slot_neg>;
    n.nb_positive = overridable<slot_positive, "positive">;
    n.nb_absolute = slot<slot_abs>;
    n.nb_invert = slot<slot_bitwise_not>;
}

}  // namespace mt::py
