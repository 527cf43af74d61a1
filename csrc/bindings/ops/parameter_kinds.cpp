#include "bindings/ops/parameter_kinds.h"

#include <string>

namespace mt::py {

static std::string text_of(PyObject* string) {
    const char* text = PyUnicode_AsUTF8(string);
    if (!text) fail_python();
    return text;
}

ArgType kind_named(std::string_view kind) {
    if (kind == "bool") return ArgType::Bool;
    if (kind == "int") return ArgType::Int;
    if (kind == "ints") return ArgType::Ints;
    return kind == "float" ? ArgType::Float : ArgType::Scalar;
}

ParameterKinds::ParameterKinds(PyObject* described) {
    PyRef items = checked(PySequence_Fast(described, "parameters must be a sequence"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        PyObject* name;
        Py_ssize_t place;
        const char* kind;
        int optional;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(items.get(), i), "Unsp", &name, &place, &kind, &optional))
            fail_python();
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);
        parameters_.push_back({PyRef(name), place, kind_named(kind), optional != 0});
    }
}

// Most arguments, without asking whether they are tensors.
static bool is_plain(ArgType type, PyObject* object) {
    if (PyLong_CheckExact(object)) return type != ArgType::Bool;
    if (type == ArgType::Ints) return PyTuple_CheckExact(object) || PyList_CheckExact(object);
    return type == ArgType::Float ? PyFloat_CheckExact(object) : type == ArgType::Bool && PyBool_Check(object);
}

void ParameterKinds::check(PyObject* function, PyObject* const* args, size_t count, PyObject* kwnames,
                           std::vector<Replaced>& replaced) const {
    const auto given = static_cast<int64_t>(count);
    for (const Parameter& parameter : parameters_) {
        int64_t place = -1;
        if (parameter.place >= 0 && parameter.place < given) {
            place = parameter.place;
        } else if (kwnames) {
            for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames) && place < 0; ++k)
                if (PyTuple_GET_ITEM(kwnames, k) == parameter.name.get()) place = given + k;
        }
        if (place < 0) continue;
        PyObject* object = args[place];
        if (is_plain(parameter.type, object) || (parameter.optional && object == Py_None)) continue;
        if (!is_of_kind(parameter.type, object)) {
            PyRef name = checked(PyObject_GetAttrString(function, "__name__"));
            fail_type(text_of(name.get()) + "(): argument '" + text_of(parameter.name.get()) + "'" +
                      (place < given ? " (position " + std::to_string(place + 1) + ")" : "") + " must be " +
                      type_name(parameter.type) + ", not " + type_text(object));
        }
        const bool ints = parameter.type == ArgType::Int || parameter.type == ArgType::Ints;
        if (ints && !is_tensor(object) && !PySequence_Check(object))
            replaced.push_back({static_cast<size_t>(place), checked(PyNumber_Index(object))});
    }
}

}  // namespace mt::py
