// Shortcuts: plain calls of a composed function that are one call of an op. What the op gets is worked out when the
// shortcut is made, so that a call has neither a Python frame nor tuples of sizes, nor is parsed by the op's schema.
#include "bindings/ops/shortcut.h"
#include "dispatch/thread_local_state.h"

#include <cstring>
#include <memory>
#include <string>

namespace mt::py {

namespace {

constexpr size_t kMost = 8;  // arguments of a call

// How an argument is recognised, and where it goes.
struct Letter {
    char kind = 0;
    bool or_none = false;
    uint8_t place = 0;     // among the op's operands, or among its parameters
    bool operand = false;  // which of the two
};

struct Target {
    const OpDef* op = nullptr;  // null: only called, with before + args + after
    Letter letters[kMost];
    size_t most = 0, required = 0;
    bool packed = false;    // any number of ints, which the op gets as one parameter
    bool detached = false;  // only where nobody wants a gradient
    bool inplace = false;   // the op writes over its first operand
    // Calling the op with before + args + after and `out` is what the function does, but for its own copy.
    bool may_store = false;
    size_t rank = 0;        // the spatial dimensions of the first argument: how many numbers `w` stands for
    // What the op gets where no argument says otherwise.
    Operand operands[kMost];
    std::vector<Value> params;
    PyRef function;
    std::vector<PyRef> before, after;
};

struct ShortcutObject {
    PyObject_HEAD Target* target;
};

bool is_operand(char kind) { return kind == 'T' || kind == 'R' || kind == 'B' || (kind >= '1' && kind <= '5'); }

bool exact_ints(PyObject* object, size_t count) {
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
    auto n = static_cast<size_t>(PySequence_Fast_GET_SIZE(object));
    if (count && n != count) return false;
    PyObject** items = PySequence_Fast_ITEMS(object);
    for (size_t i = 0; i < n; ++i)
        if (!PyLong_CheckExact(items[i])) return false;
    return true;
}

bool fits(const Target& target, const Letter& letter, PyObject* object) {
    if (object == Py_None) return letter.or_none;
    switch (letter.kind) {
        case 'T': return is_tensor(object);
        case 'R': return is_tensor(object) && !is_complex(tensor_of(object)->dtype);
        case 'B': return is_tensor(object) && tensor_of(object)->dtype == DType::Bool;
        case 'L': return PyTuple_CheckExact(object) || PyList_CheckExact(object);
        case 'i': return PyLong_CheckExact(object);
        case 'n': return PyLong_CheckExact(object) || PyFloat_CheckExact(object);
        case 'b': return PyBool_Check(object);
        case 'd': return is_dtype(object);
        case 't': return exact_ints(object, 0);
        case 'w':
        case 'k': return PyLong_CheckExact(object) || exact_ints(object, target.rank);
        default: {
            if (!is_tensor(object)) return false;
            const Tensor& t = *tensor_of(object);
            return t.ndim() == static_cast<size_t>(letter.kind - '0') && t.numel && !is_complex(t.dtype);
        }
    }
}

bool to_scalar(PyObject* object, Operand* operand) {
    operand->is_scalar = true;
    if (PyFloat_CheckExact(object)) {
        operand->scalar = Scalar::of(PyFloat_AS_DOUBLE(object));
        return true;
    }
    int64_t number;
    if (!to_int64(object, &number)) return false;
    operand->scalar = Scalar::of(number);
    return true;
}

bool to_ints(PyObject* object, size_t copies, Dims* values) {
    values->clear();
    int64_t value;
    if (PyLong_CheckExact(object)) {
        if (!to_int64(object, &value)) return false;
        for (size_t i = 0; i < copies; ++i) values->push_back(value);
        return true;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
        if (!to_int64(PySequence_Fast_GET_ITEM(object, i), &value)) return false;
        values->push_back(value);
    }
    return true;
}

bool to_value(const Target& target, const Letter& letter, const ArgSpec& spec, PyObject* object, Value* value) {
    if (object == Py_None) {
        if (letter.kind == 'k') *value = value[-1];  // the windows lie side by side
        else *value = Value();
        return true;
    }
    switch (letter.kind) {
        case 'b':
            value->tag = Value::Bool;
            value->i = object == Py_True;
            return true;
        case 'd':
            value->tag = Value::Type;
            value->dtype = dtype_from(object);
            return true;
        case 't':
        case 'w':
        case 'k': value->tag = Value::Ints; return to_ints(object, target.rank, &value->ints);
        default: break;
    }
    if (PyFloat_CheckExact(object)) {
        value->tag = Value::Float;
        value->f = PyFloat_AS_DOUBLE(object);
        return true;
    }
    int64_t number;
    if (!to_int64(object, &number)) return false;
    if (spec.type == ArgType::Float) {
        value->tag = Value::Float;
        value->f = static_cast<double>(number);
    } else {
        value->tag = Value::Int;
        value->i = number;
    }
    return true;
}

bool call_op_of(const Target& target, PyObject* const* args, size_t count, PyObject** result) {
    const OpDef& op = *target.op;
    Operand operands[kMost];
    for (size_t i = 0; i < op.operand_args.size(); ++i) operands[i] = target.operands[i];
    ParamCopies values(target.params.data(), target.params.size());
    if (target.packed) {
        Value& sizes = values.data()[target.letters[0].place];
        sizes.tag = Value::Ints;
        sizes.ints.clear();
        for (size_t i = 0; i < count; ++i) {
            int64_t size;
            if (!to_int64(args[i], &size)) return false;
            sizes.ints.push_back(size);
        }
    }
    for (size_t i = 0; i < target.most && !target.packed; ++i) {
        const Letter& letter = target.letters[i];
        if (letter.operand) {
            if (i >= count || args[i] == Py_None) continue;
            if (letter.kind == 'n') {
                if (!to_scalar(args[i], &operands[letter.place])) return false;
                continue;
            }
            Tensor* tensor = tensor_of(args[i]);
            if (target.detached && thread_settings.grad_enabled && requires_grad(*tensor)) return false;
            operands[letter.place].tensor = tensor;
        } else if (i < count || letter.kind == 'k') {
            PyObject* object = i < count ? args[i] : Py_None;
            if (!to_value(target, letter, op.args[op.param_args[letter.place]], object, values.data() + letter.place))
                return false;
        }
    }
    Call call(ambient());
    call.op = &op;
    call.operands = operands;
    call.operand_count = op.operand_args.size();
    call.params = values.data();
    call.param_count = op.param_args.size();
    if (target.inplace) {
        dispatch_inplace(call, *operands[0].tensor);
        *result = Py_NewRef(args[0]);
        return true;
    }
    Ref<Tensor> results[kMaxResults];
    dispatch(call, results);
    *result = results_to_python(call, results);
    return true;
}

bool call_function(const Target& target, PyObject* const* args, size_t count, PyObject* out, PyObject** result) {
    static PyObject* const with_out = Py_BuildValue("(s)", "out");
    PyObject* all[2 * kMost + 1];
    size_t n = 0;
    for (const PyRef& item : target.before) all[n++] = item.get();
    for (size_t i = 0; i < count; ++i) all[n++] = args[i];
    for (size_t i = count - target.required; i < target.after.size(); ++i) all[n++] = target.after[i].get();
    all[n] = out;
    *result = PyObject_Vectorcall(target.function.get(), all, n, out ? with_out : nullptr);
    if (*result != Py_NotImplemented) return true;
    Py_CLEAR(*result);
    return false;
}

bool takes(const Target& target, PyObject* const* args, size_t count) {
    if (target.packed) {
        if (!count) return false;
        for (size_t i = 0; i < count; ++i)
            if (!PyLong_CheckExact(args[i])) return false;
        return true;
    }
    if (count < target.required || count > target.most) return false;
    for (size_t i = 0; i < count; ++i)
        if (!fits(target, target.letters[i], args[i])) return false;
    return true;
}

// ---- making them

[[noreturn]] void wrong(const char* pattern, const std::string& what) {
    std::string text = "shortcut '";
    text += pattern;
    fail_value(text + "': " + what);
}

void read_pattern(Target& target, const char* pattern) {
    bool optional = false, or_none = false;
    for (const char* at = pattern; *at; ++at) {
        if (*at == '?') optional = true;
        else if (*at == '~') or_none = true;
        else if (*at == '*') target.packed = true;
        else if (!std::strchr("TRBLinbdtwk12345", *at)) wrong(pattern, "unknown letter");
        if (*at == '?' || *at == '~') continue;
        if (target.most == kMost) wrong(pattern, "too many letters");
        target.letters[target.most++] = {*at, or_none || *at == 'k', 0, false};
        target.required += !optional;
        or_none = false;
    }
    if (target.packed && target.most != 1) wrong(pattern, "* stands alone");
    char first = target.letters[0].kind;
    target.rank = first >= '3' && first <= '5' ? static_cast<size_t>(first - '2') : 1;
}

// Whether what a letter takes is what a parameter of that type is given.
bool suits(char letter, ArgType type) {
    switch (letter) {
        case 'b': return type == ArgType::Bool;
        case 'd': return type == ArgType::DTypeArg;
        case 't':
        case 'w':
        case 'k':
        case '*': return type == ArgType::Ints;
        case 'i': return type == ArgType::Int || type == ArgType::Float || type == ArgType::Scalar;
        case 'n': return type == ArgType::Float || type == ArgType::Scalar;
        default: return false;
    }
}

// What `object` is to a parameter, and the numbers of a window for each dimension where one stands for all.
Value constant(const Target& target, const ArgSpec& spec, PyObject* object) {
    Value value;
    set_value(*target.op, spec, object, &value, 0);
    if (spec.type == ArgType::Ints && PyLong_CheckExact(object)) value.ints = Dims(target.rank, value.ints[0]);
    return value;
}

void bind(Target& target, const char* pattern, PyObject* order) {
    const OpDef& op = *target.op;
    size_t given = target.before.size(), places = order ? static_cast<size_t>(PyTuple_GET_SIZE(order)) : 0;
    if (op.operand_list || op.operand_args.size() > kMost) wrong(pattern, "the op takes a list of tensors");
    if (order && places != target.most) wrong(pattern, "order has another length than the pattern");
    // For each of the op's arguments, whether it is an operand and which one.
    std::vector<std::pair<bool, size_t>> slots(op.args.size());
    for (size_t i = 0; i < op.operand_args.size(); ++i) slots[op.operand_args[i]] = {true, i};
    for (size_t i = 0; i < op.param_args.size(); ++i) {
        slots[op.param_args[i]] = {false, i};
        target.params.push_back(op.args[op.param_args[i]].default_value);
    }
    auto place = [&](size_t argument) {
        size_t at = argument;
        if (order && argument >= given && argument - given < places) {
            at = given + to_uint64(PyTuple_GET_ITEM(order, static_cast<Py_ssize_t>(argument - given)));
        }
        if (at >= slots.size()) wrong(pattern, "more arguments than " + op.name + " has");
        return at;
    };
    auto fix = [&](size_t argument, PyObject* object) {
        auto [operand, slot] = slots[place(argument)];
        if (!operand) target.params[slot] = constant(target, op.args[op.param_args[slot]], object);
        else if (object != Py_None && !to_scalar(object, &target.operands[slot]))
            wrong(pattern, "an operand that is neither given nor a number nor None");
    };
    for (size_t i = 0; i < given; ++i) fix(i, target.before[i].get());
    for (size_t i = 0; i < target.after.size(); ++i)
        if (target.after[i].get() != Py_None || slots[place(given + target.required + i)].first)
            fix(given + target.required + i, target.after[i].get());
    for (size_t i = 0; i < target.most; ++i) {
        auto [operand, slot] = slots[place(given + i)];
        Letter& letter = target.letters[i];
        letter.operand = operand;
        if (operand ? !is_operand(letter.kind) && letter.kind != 'n'
                    : !suits(letter.kind, op.args[op.param_args[slot]].type))
            wrong(pattern, "a letter of another kind of argument");
        if (letter.kind == 'k' && !slot) wrong(pattern, "k without a window before it");
        letter.place = static_cast<uint8_t>(slot);
    }
}

std::vector<PyRef> items_of(PyObject* tuple) {
    std::vector<PyRef> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) items.push_back(PyRef::borrow(PyTuple_GET_ITEM(tuple, i)));
    return items;
}

void shortcut_dealloc(PyObject* self) {
    delete reinterpret_cast<ShortcutObject*>(self)->target;
    Py_TYPE(self)->tp_free(self);
}

PyTypeObject make_shortcut_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.Shortcut";
    type.tp_doc = "Which calls of a function are one call of an op.";
    type.tp_basicsize = sizeof(ShortcutObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_dealloc = slot<shortcut_dealloc>;
    return type;
}

PyTypeObject ShortcutType = make_shortcut_type();

// shortcut(pattern, target, before, after, order, detached) -> Shortcut
PyObject* py_shortcut(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        const char* pattern;
        PyObject *callable, *before, *after, *order;
        int detached;
        if (!PyArg_ParseTuple(args, "sOO!O!Op:shortcut", &pattern, &callable, &PyTuple_Type, &before, &PyTuple_Type,
                              &after, &order, &detached))
            return nullptr;
        auto target = std::make_unique<Target>();
        target->detached = detached;
        target->before = items_of(before);
        target->after = items_of(after);
        read_pattern(*target, pattern);
        if (target->before.size() + target->most + target->after.size() > 2 * kMost)
            wrong(pattern, "too many arguments");
        target->function = PyRef::borrow(callable);
        target->inplace = is_inplace_op(callable);
        if (target->inplace || is_op(callable)) {
            target->op = &op_of(callable);
            bind(*target, pattern, PyTuple_Check(order) ? order : nullptr);
            target->may_store = target->op->kind == Kind::Elementwise && !target->inplace && !PyTuple_Check(order) &&
                                !target->packed;
            // What is written over is the first argument of the call.
            const Letter& written = target->letters[0];
            if (target->inplace && (!written.operand || written.kind != 'T' || written.or_none || written.place))
                wrong(pattern, "an in-place op begins with the tensor that it writes over");
        } else if (target->packed) {
            wrong(pattern, "* is for ops only");
        }
        PyObject* made = ShortcutType.tp_alloc(&ShortcutType, 0);
        if (made) reinterpret_cast<ShortcutObject*>(made)->target = target.release();
        return made;
    });
}

PyMethodDef shortcut_functions[] = {
    {"shortcut", method<py_shortcut>(), METH_VARARGS,
     "shortcut(pattern, target, before, after, order, detached): which calls are one of an op."},
    {}};

}  // namespace

bool are_shortcuts(PyObject* object) {
    if (!PyTuple_Check(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
        if (Py_TYPE(PyTuple_GET_ITEM(object, i)) != &ShortcutType) return false;
    return true;
}

bool take_shortcut(PyObject* shortcuts, PyObject* const* args, size_t count, PyObject** result) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shortcuts); ++k) {
        const Target& target = *reinterpret_cast<ShortcutObject*>(PyTuple_GET_ITEM(shortcuts, k))->target;
        if (!takes(target, args, count)) continue;
        bool taken = true;
        if (target.op) {
            *result = nullptr;
            taken = guarded([&]() { return call_op_of(target, args, count, result); }, true);
        } else {
            taken = call_function(target, args, count, nullptr, result);
        }
        if (taken) return true;
    }
    return false;
}

bool take_shortcut_out(PyObject* shortcuts, PyObject* const* args, size_t count, PyObject* out, PyObject** result) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shortcuts); ++k) {
        const Target& target = *reinterpret_cast<ShortcutObject*>(PyTuple_GET_ITEM(shortcuts, k))->target;
        if (target.may_store && takes(target, args, count)) return call_function(target, args, count, out, result);
    }
    return false;
}

bool init_shortcut(PyObject* module) {
    return PyType_Ready(&ShortcutType) == 0 && PyModule_AddFunctions(module, shortcut_functions) == 0;
}

}  // namespace mt::py
