// Arguments of an op, parsed by its schema.
#include <string>

#include "bindings/ops/overrides.h"
#include "bindings/ops/parameter_kinds.h"
#include "bindings/py.h"

namespace mt::py {

namespace {

bool is_int(PyObject* o) { return PyLong_Check(o) || (PyIndex_Check(o) && !is_tensor(o)); }

// As PyTorch has it, a tensor of one element without dimensions is one, too.
bool is_int_or_scalar(PyObject* o) { return is_int(o) || (is_tensor(o) && tensor_of(o)->sizes.size() == 0); }

int64_t int_from(PyObject* object, const char* what) {
    if (PyLong_CheckExact(object)) return to_int64(object);
    if (is_tensor(object)) {
        PyRef item = checked(tensor_item(*tensor_of(object)));
        if (!PyLong_Check(item.get())) fail_type(std::string(what) + " must be an int, got a floating-point tensor");
        return to_int64(item.get());
    }
    PyRef index(PyNumber_Index(object));
    if (!index) {
        PyErr_Clear();
        fail_type(std::string(what) + " must be an int, not " + Py_TYPE(object)->tp_name);
    }
    return to_int64(index.get());
}

bool is_numpy_scalar(PyObject* object) {
    const PyTypeObject* type = Py_TYPE(object);
    if (!type->tp_as_number || PySequence_Check(object)) return false;
    while (type && std::string_view(type->tp_name) != "numpy.generic") type = type->tp_base;
    return type != nullptr;
}

bool is_numpy(PyObject* scalar, std::string_view kind) {
    return std::string_view(Py_TYPE(scalar)->tp_name).starts_with(kind);
}

}  // namespace

const char* type_text(PyObject* object) { return Py_TYPE(object) == &TensorType ? "Tensor" : Py_TYPE(object)->tp_name; }

const char* type_name(ArgType type) {
    switch (type) {
        case ArgType::Tensor: return "Tensor";
        case ArgType::TensorList: return "tuple of Tensors";
        case ArgType::Bool: return "bool";
        case ArgType::Int: return "int";
        case ArgType::Float: return "float";
        case ArgType::Scalar: return "Number";
        case ArgType::Ints: return "tuple of ints";
        case ArgType::DTypeArg: return "minitensor.dtype";
        case ArgType::DeviceArg: return "minitensor.device";
    }
    return "?";
}

bool is_of_kind(ArgType type, PyObject* object) {
    if (is_tensor(object)) return type != ArgType::Bool && !requires_grad(*tensor_of(object));
    switch (type) {
        case ArgType::Bool: return PyBool_Check(object);
        case ArgType::Ints:
            if (!is_int(object) && !PyBool_Check(object)) return true;  // the function says what is wrong with others
            [[fallthrough]];
        case ArgType::Int:
            return is_int(object) && !PyBool_Check(object) && !PyFloat_Check(object) && !is_numpy(object, "numpy.bool");
        default:
            if (PyFloat_Check(object) || PyLong_Check(object) || is_bound_number(object)) return true;
            if (type == ArgType::Scalar && PyComplex_Check(object)) return true;
            return is_numpy_scalar(object) && (type == ArgType::Scalar || !is_numpy(object, "numpy.complex"));
    }
}

bool scalar_from(PyObject* object, Scalar* out) {
    if (PyFloat_Check(object)) {
        *out = Scalar::of(PyFloat_AS_DOUBLE(object));
        return true;
    }
    if (PyBool_Check(object)) {
        *out = Scalar::of(object == Py_True);
        return true;
    }
    if (PyLong_Check(object)) {
        *out = Scalar::of(to_int64(object));
        return true;
    }
    if (PyComplex_Check(object)) {
        *out = Scalar::of(PyComplex_RealAsDouble(object), PyComplex_ImagAsDouble(object));
        return true;
    }
    // As in PyTorch, of others only NumPy's: an object that could be a number may have operators of its own.
    if (!is_numpy_scalar(object)) return false;
    if (is_numpy(object, "numpy.bool")) {
        *out = Scalar::of(to_bool(object));
        return true;
    }
    if (PyIndex_Check(object)) {
        *out = Scalar::of(int_from(object, "a number"));
        return true;
    }
    if (is_numpy(object, "numpy.complex")) {
        Py_complex z = to_complex(object);
        *out = Scalar::of(z.real, z.imag);
        return true;
    }
    if (!Py_TYPE(object)->tp_as_number || !Py_TYPE(object)->tp_as_number->nb_float) return false;
    PyRef number(PyNumber_Float(object));
    if (!number) {
        PyErr_Clear();
        return false;
    }
    *out = Scalar::of(PyFloat_AS_DOUBLE(number.get()));
    return true;
}

Dims dims_from(PyObject* object, const char* what) {
    Dims dims;
    if (is_int_or_scalar(object)) {
        dims.push_back(int_from(object, what));
        return dims;
    }
    if (!PyTuple_Check(object) && !PyList_Check(object) && !(PySequence_Check(object) && !PyUnicode_Check(object)))
        fail_type(std::string(what) + " must be a tuple of ints, not " + Py_TYPE(object)->tp_name);
    PyRef sequence = tuple_of(object);  // an item's __index__ may change a list
    Py_ssize_t n = PyTuple_GET_SIZE(sequence.get());
    for (Py_ssize_t i = 0; i < n; ++i) dims.push_back(int_from(PyTuple_GET_ITEM(sequence.get(), i), what));
    return dims;
}

namespace {

// PyTorch's sentences about calls that don't fit the signature.
struct Signature {
    const OpDef& op;

    size_t positional() const {
        size_t count = 0;
        while (count < op.args.size() && !op.args[count].keyword_only) ++count;
        return count;
    }
    static bool required(const ArgSpec& spec) { return !spec.has_default && !spec.optional; }

    // Of a private op what users call is named, which it is called after.
    std::string called() const { return op.name.substr(op.name.front() == '_'); }
    [[noreturn]] void too_many(size_t given) const {
        size_t most = positional(), least = 0;
        for (const ArgSpec& spec : op.args) least += required(spec);
        std::string takes = least == most ? std::to_string(most) + " positional argument" + (most == 1 ? "" : "s")
                                          : "from " + std::to_string(least) + " to " + std::to_string(most) +
                                                " positional arguments";
        fail_type(called() + "() takes " + takes + " but " + std::to_string(given) + (given == 1 ? " was" : " were") +
                  " given");
    }
    [[noreturn]] void missing(PyObject* const* bound) const {
        std::string names;
        size_t count = 0;
        for (size_t i = 0; i < op.args.size(); ++i) {
            if (bound[i] || !required(op.args[i])) continue;
            names += (count++ ? ", \"" : "\"") + op.args[i].name + "\"";
        }
        fail_type(called() + "() missing " + std::to_string(count) + " required positional arguments: " + names);
    }
    [[noreturn]] void unexpected(const char* name) const {
        fail_type(called() + "() got an unexpected keyword argument '" + name + "'");
    }
    [[noreturn]] void repeated(const std::string& name) const {
        fail_type(called() + "() got multiple values for argument '" + name + "'");
    }
    // `position` counts from 1; 0 for an argument that was given by name.
    [[noreturn]] void wrong_type(const ArgSpec& spec, size_t position, PyObject* object) const {
        fail_type(called() + "(): argument '" + spec.name + "'" +
                  (position ? " (position " + std::to_string(position) + ")" : "") + " must be " +
                  type_name(spec.type) + ", not " + type_text(object));
    }
};

// NumPy's names for some of PyTorch's, which PyTorch takes as well.
bool is_numpy_name(std::string_view given, std::string_view name) {
    if (name == "dim") return given == "axis";
    if (name == "keepdim") return given == "keepdims";
    if (name == "input") return given == "x" || given == "a" || given == "x1";
    return name == "other" && given == "x2";
}

}  // namespace

// Ints that were given one by one.
static void set_ints(const OpDef& op, const ArgSpec& spec, PyObject* const* items, size_t count, Value* value) {
    value->tag = Value::Ints;
    try {
        for (size_t i = 0; i < count; ++i) value->ints.push_back(int_from(items[i], spec.name.c_str()));
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::Type) throw;
        fail_type(op.name + "(): argument " + error.what());
    }
}

void set_value(const OpDef& op, const ArgSpec& spec, PyObject* object, Value* value, size_t position) {
    if (object == Py_None && (spec.optional || (spec.has_default && spec.default_value.is_none()))) return;
    if (object == Py_None && spec.has_default && spec.default_value.tag == Value::Ints &&
        spec.default_value.ints.empty()) {
        *value = spec.default_value;  // no ints, which PyTorch writes as None
        return;
    }
    auto wrong = [&]() { Signature{op}.wrong_type(spec, position, object); };
    switch (spec.type) {
        case ArgType::Bool:
            if (!PyBool_Check(object)) wrong();
            value->tag = Value::Bool;
            value->i = to_bool(object);
            break;
        case ArgType::Int:
            if (PyFloat_Check(object) || !(is_int(object) || is_tensor(object))) wrong();
            value->tag = Value::Int;
            value->i = int_from(object, spec.name.c_str());
            break;
        case ArgType::Float:
        case ArgType::Scalar: {
            Scalar scalar;
            if (is_tensor(object)) {
                // A number has no history: the gradient would be lost.
                if (requires_grad(*tensor_of(object))) wrong();
                PyRef item = checked(tensor_item(*tensor_of(object)));
                if (!scalar_from(item.get(), &scalar)) wrong();
            } else if (!scalar_from(object, &scalar)) {
                wrong();
            }
            if (spec.type == ArgType::Float) {
                if (scalar.tag == Scalar::Complex) wrong();
                value->tag = Value::Float;
                value->f = scalar.as_double();
            } else {
                *value = Value::of(scalar);
            }
            break;
        }
        case ArgType::Ints:
            if (PyFloat_Check(object)) wrong();
            value->tag = Value::Ints;
            try {
                value->ints = dims_from(object, spec.name.c_str());
            } catch (const Error& error) {
                if (error.kind() != ErrorKind::Type) throw;
                fail_type(op.name + "(): argument " + error.what());
            }
            break;
        case ArgType::DTypeArg:
            value->tag = Value::Type;
            value->dtype = dtype_from(object);
            break;
        case ArgType::DeviceArg:
            value->tag = Value::Dev;
            value->device = device_from(object);
            break;
        default: break;
    }
}

void Arguments::bind_keywords(PyObject* const* values, PyObject* names, PyObject** bound) {
    static PyObject* out_name = PyUnicode_InternFromString("out");
    const std::vector<ArgSpec>& specs = op_.args;
    size_t n = specs.size();
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
        PyObject* name = PyTuple_GET_ITEM(names, k);
        size_t i = 0;
        while (i < n && specs[i].interned != name) ++i;
        if (i == n && !(takes_out_ && name == out_name))
            for (i = 0; i < n; ++i)
                if (PyUnicode_Compare(specs[i].interned, name) == 0) break;
        if (i == n && takes_out_ && PyUnicode_Compare(out_name, name) == 0) {
            if (values[k] != Py_None) out = values[k];
            continue;
        }
        if (i == n) {
            const char* text = PyUnicode_AsUTF8(name);
            if (!text) fail_python();
            for (i = 0; i < n; ++i)
                if (is_numpy_name(text, specs[i].name)) break;
            if (i == n) Signature{op_}.unexpected(text);
        }
        if (bound[i]) Signature{op_}.repeated(specs[i].name);
        bound[i] = values[k];
    }
}

void Arguments::add_list(const ArgSpec& spec, PyObject* object, size_t position) {
    if (!(PyTuple_Check(object) || PyList_Check(object))) Signature{op_}.wrong_type(spec, position, object);
    list_ = tuple_of(object);
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(list_.get()); ++j) {
        PyObject* item = PyTuple_GET_ITEM(list_.get(), j);
        if (!is_tensor(item))
            fail_type("expected Tensor as element " + std::to_string(j) + " in argument " +
                      std::to_string(position ? position - 1 : 0) + ", but got " + Py_TYPE(item)->tp_name);
        Operand operand;
        operand.tensor = tensor_of(item);
        operands_.push_back(operand);
    }
}

void Arguments::parse(PyObject* const* args, size_t nargs, PyObject* kwnames) {
    const std::vector<ArgSpec>& specs = op_.args;
    size_t n = specs.size();
    PyObject* bound[kMaxCallArgs] = {};
    size_t positional = 0;
    while (positional < n && !specs[positional].keyword_only) ++positional;
    // x.view(2, 3): the last positional parameter may be given as several ints.
    size_t take = nargs, spread = n;
    for (size_t i = 0; i < positional && i < nargs; ++i) {
        if (!specs[i].variadic || !is_int_or_scalar(args[i])) continue;
        bound[i] = args[i];
        take = spread = i;
        break;
    }
    if (take > positional) Signature{op_}.too_many(nargs);
    for (size_t i = 0; i < take; ++i) bound[i] = args[i];
    if (kwnames) bind_keywords(args + nargs, kwnames, bound);
    auto position = [&](size_t i) { return i < take || i == spread ? i + 1 : 0; };
    for (size_t i : op_.operand_args) {
        const ArgSpec& spec = specs[i];
        PyObject* object = bound[i];
        Operand operand;
        if (object && is_tensor(object) && spec.type == ArgType::Tensor) {
            operand.tensor = tensor_of(object);
        } else if (!object || object == Py_None) {
            if (!spec.optional && !object) Signature{op_}.missing(bound);
            if (!spec.optional) Signature{op_}.wrong_type(spec, position(i), object);
        } else if (spec.type == ArgType::TensorList) {
            add_list(spec, object, position(i));
            continue;
        } else if (spec.scalar_ok && operand_number(object, &operand.scalar)) {
            operand.is_scalar = true;
        } else {
            Signature{op_}.wrong_type(spec, position(i), object);
        }
        operands_.push_back(operand);
    }
    call.op = &op_;
    call.operands = operands_.data();
    call.operand_count = operands_.size();
    call.params = params();
    for (size_t i : op_.param_args) {
        const ArgSpec& spec = specs[i];
        Value* value = new (&storage_[sizeof(Value) * call.param_count]) Value;
        ++call.param_count;
        if (i == spread) set_ints(op_, spec, args + i, nargs - i, value);
        else if (bound[i]) set_value(op_, spec, bound[i], value, position(i));
        else if (spec.has_default) *value = spec.default_value;
        else if (!spec.optional) Signature{op_}.missing(bound);
        // An absent dtype or device of a creation op has a default that is not a constant.
    }
}

}  // namespace mt::py
