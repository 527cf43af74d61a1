// Results on their way to Python: named tuples of several, and the `out=` form.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "bindings/py.h"
#include "bindings/tensor/type_objects.h"
#include "dispatch/out.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

struct ResultType {
    PyObject* type;
    std::vector<std::string> fields;
    PyObject* out_type;  // of such results stored in `out`; made when it is needed
};

// By name. What a type's own attributes say is the user's to change.
std::map<std::string, ResultType>& result_types() {
    static auto* table = new std::map<std::string, ResultType>;
    return *table;
}

// Where programs find the types of results: minitensor.return_types, or torch.return_types under PyTorch's name.
std::string place_of_types() { return shown_package + ".return_types"; }

// Has the type say where it is.
void show_place(PyTypeObject* type, const std::string& name) {
    static auto* names = new std::set<std::string>;  // which types point into
    type->tp_name = names->insert(place_of_types() + "." + name).first->c_str();
    PyRef module = checked(PyUnicode_FromString(place_of_types().c_str()));
    if (PyDict_SetItemString(type->tp_dict, "__module__", module.get()) < 0) fail_python();
    PyType_Modified(type);
}

// minitensor.return_types.max(
// values=tensor(3.),
// indices=tensor(2))
PyObject* result_repr(PyObject* self) {
    auto& types = result_types();
    auto known = std::find_if(types.begin(), types.end(), [&](auto& entry) {
        return PyObject_TypeCheck(self, reinterpret_cast<PyTypeObject*>(entry.second.type));
    });
    if (known == types.end()) return PyTuple_Type.tp_repr(self);
    const std::vector<std::string>& fields = known->second.fields;
    PyRef text = checked(PyUnicode_FromFormat("%s(", Py_TYPE(self)->tp_name));
    for (size_t i = 0; i < fields.size() && static_cast<Py_ssize_t>(i) < PyTuple_GET_SIZE(self); ++i)
        text = checked(PyUnicode_FromFormat("%U%s\n%s=%R", text.get(), i ? "," : "", fields[i].c_str(),
                                            PyTuple_GET_ITEM(self, static_cast<Py_ssize_t>(i))));
    return PyUnicode_FromFormat("%U)", text.get());
}

SmallVector<Tensor*, 4> out_tensors(const std::string& op, PyObject* out, size_t count) {
    SmallVector<Tensor*, 4> tensors;
    auto wrong = [&]() {
        fail_type(op + "(): argument 'out' must be " + (count == 1 ? "Tensor" : "tuple of Tensors") + ", not " +
                  Py_TYPE(out)->tp_name);
    };
    if (is_tensor(out)) {
        if (count > 1) wrong();
        tensors.push_back(tensor_of(out));
        return tensors;
    }
    if (count == 1 || !(PyTuple_Check(out) || PyList_Check(out))) wrong();
    PyRef items = checked(PySequence_Fast(out, "out"));
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(items.get())) != count)
        fail_type(op + "(): argument 'out' must be tuple of " + std::to_string(count) + " Tensors, got " +
                  std::to_string(PySequence_Fast_GET_SIZE(items.get())));
    for (size_t i = 0; i < count; ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
        if (!is_tensor(item))
            fail_type(op + "(): argument 'out' must be tuple of Tensors, but found element of type " +
                      Py_TYPE(item)->tp_name + " at pos " + std::to_string(i));
        tensors.push_back(tensor_of(item));
    }
    return tensors;
}

// The type of results that were stored in `out`: PyTorch tells it from that of the same function without.
PyObject* type_of_outs(PyObject* type) {
    for (auto& [name, known] : result_types()) {
        if (known.type != type) continue;
        if (!known.out_type) known.out_type = result_type_named(name + "_out", known.fields);
        return known.out_type;
    }
    return type;
}

// The same tensors as a result: named if results of that type are.
PyObject* out_as_result(PyObject* out, PyObject* type) {
    if (is_tensor(out) || !type) return Py_NewRef(out);
    PyRef items = tuple_of(out);
    PyRef arguments = checked(PyTuple_Pack(1, items.get()));
    return PyObject_Call(type_of_outs(type), arguments.get(), nullptr);
}

// result_type(name, fields) -> type
PyObject* py_result_type(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        const char* name;
        PyObject* fields;
        if (!PyArg_ParseTuple(args, "sO:result_type", &name, &fields)) return nullptr;
        PyRef sequence = checked(PySequence_Fast(fields, "fields"));
        std::vector<std::string> names;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
            const char* field = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(sequence.get(), i));
            if (!field) return nullptr;
            names.emplace_back(field);
        }
        return Py_NewRef(result_type_named(name, names));
    });
}

// store_out(name, result, out, rule="castable"): what a composed function returns when it's called with `out`.
PyObject* py_store_out(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        const char* name;
        PyObject *result, *out;
        const char* rule = "castable";
        if (!PyArg_ParseTuple(args, "sOO|s:store_out", &name, &result, &out, &rule)) return nullptr;
        bool single = is_tensor(result);
        PyRef results = single ? checked(PyTuple_Pack(1, result)) : tuple_of(result);
        auto count = static_cast<size_t>(PyTuple_GET_SIZE(results.get()));
        SmallVector<Tensor*, 4> outs = out_tensors(name, out, count);
        std::vector<Ref<Tensor>> held, found;
        for (size_t i = 0; i < count; ++i) {
            PyObject* item = PyTuple_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i));
            if (!is_tensor(item)) fail_type(std::string(name) + "(): has no form with 'out'");
            held.push_back(Ref<Tensor>::borrow(outs[i]));
            found.push_back(Ref<Tensor>::borrow(tensor_of(item)));
        }
        store_outs(outs.data(), found.data(), count, out_rule_from(rule));
        bool named = !single && Py_TYPE(result) != &PyTuple_Type && PyTuple_Check(result);
        return out_as_result(out, named ? reinterpret_cast<PyObject*>(Py_TYPE(result)) : nullptr);
    });
}

// store_in_place(tensor, result): what the in-place form of a composed function does, gradient included.
PyObject* py_store_in_place(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        static const OpDef* copy = find_op("copy");
        if (nargs != 2 || !is_tensor(args[0]) || !is_tensor(args[1])) fail_type("store_in_place takes two Tensors");
        Tensor &self = *tensor_of(args[0]), &result = *tensor_of(args[1]);
        if (!(self.sizes == result.sizes))
            fail("output with shape " + to_string(self.sizes) + " doesn't match the broadcast shape " +
                 to_string(result.sizes));
        check_castable(result.dtype, self.dtype);
        Operand destination, source;
        destination.tensor = &self;
        source.tensor = &result;
        call_op_inplace(*copy, self, {destination, source});
        return Py_NewRef(args[0]);
    });
}

void add_tensors(PyObject* object, std::vector<const Tensor*>& into) {
    if (is_tensor(object)) into.push_back(tensor_of(object));
    else if (PyTuple_Check(object) || PyList_Check(object))
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
            if (is_tensor(PySequence_Fast_GET_ITEM(object, i)))
                into.push_back(tensor_of(PySequence_Fast_GET_ITEM(object, i)));
}

// check_out(name, out, args, more, apart=False): refuses `out` where a gradient is wanted; if apart, where it shares
// memory with an argument too.
PyObject* py_check_out(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        const char* name;
        PyObject *out, *positional, *named;
        int apart = 0;
        if (!PyArg_ParseTuple(args, "sOO!O!|p:check_out", &name, &out, &PyTuple_Type, &positional, &PyDict_Type, &named,
                              &apart))
            return nullptr;
        std::vector<const Tensor*> tensors;
        add_tensors(out, tensors);
        size_t outs = tensors.size();
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); ++i)
            add_tensors(PyTuple_GET_ITEM(positional, i), tensors);
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(named, &at, &key, &value);) add_tensors(value, tensors);
        check_out_needs_no_gradient(name, tensors.data(), tensors.size());
        for (size_t i = 0; apart && i < outs; ++i)
            check_out_is_apart(*tensors[i], &tensors[outs], tensors.size() - outs);
        Py_RETURN_NONE;
    });
}

// resize_(tensor, size): sizes changed in place, the elements in memory order; memory is only ever added.
PyObject* py_resize(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *tensor, *size;
        if (!PyArg_ParseTuple(args, "O!O:resize_", &TensorType, &tensor, &size)) return nullptr;
        Tensor& t = *tensor_of(tensor);
        Dims sizes = dims_from(size, "size");
        if (requires_grad(t)) fail("cannot resize variables that require grad");
        if (batch_level(t)) fail("resize_() has no rule for tensors inside of vmap");
        check_inference(t);
        note_other_geometry(t);
        if (!(t.sizes == sizes)) ++version_of(t);
        resize(t, sizes);
        return Py_NewRef(tensor);
    });
}

PyMethodDef results_functions[] = {
    {"result_type", method<py_result_type>(), METH_VARARGS,
     "result_type(name, fields): the type of a tuple of named results."},
    {"store_out", method<py_store_out>(), METH_VARARGS,
     "store_out(name, result, out, rule): writes a result to `out`."},
    {"check_out", method<py_check_out>(), METH_VARARGS,
     "check_out(name, out, args, more, apart=False): no gradient may be wanted, and no argument be overwritten."},
    {"store_in_place", method<py_store_in_place>(), METH_FASTCALL,
     "store_in_place(tensor, result): the in-place form of a composed function."},
    {"resize_", method<py_resize>(), METH_VARARGS, "resize_(tensor, size): other sizes, in place."},
    {}};

}  // namespace

OutRule out_rule_from(std::string_view name) {
    if (name == "none") return OutRule::None;
    if (name == "castable") return OutRule::Cast;
    if (name == "exact" || name == "apart") return OutRule::Exact;
    if (name == "several exact") return OutRule::SeveralExact;
    fail_value("no such rule of out: '" + std::string(name) + "'");
}

PyObject* result_type_named(const std::string& name, const std::vector<std::string>& fields) {
    ResultType& known = result_types()[name];
    if (known.type) {
        if (known.fields != fields) fail_value("the results of '" + name + "' have two sets of names");
        return known.type;
    }
    // The type keeps pointers into these.
    auto* members = new std::vector<PyStructSequence_Field>;
    for (const std::string& field : fields) members->push_back({(new std::string(field))->c_str(), nullptr});
    members->push_back({nullptr, nullptr});
    const std::string shown = place_of_types() + "." + name;
    PyStructSequence_Desc description{shown.c_str(), nullptr, members->data(), static_cast<int>(fields.size())};
    PyTypeObject* type = PyStructSequence_NewType(&description);
    if (!type) fail_python();
    type->tp_repr = slot<result_repr>;
    show_place(type, name);
    // Attribute lookup of __repr__ goes through the dict.
    if (PyDict_DelItemString(type->tp_dict, "__repr__") < 0) PyErr_Clear();
    // CPython reads the number of fields from the type's dict.
    type->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
    PyType_Modified(type);
    known = {reinterpret_cast<PyObject*>(type), fields, nullptr};
    return known.type;
}

void show_places_of_result_types() {
    for (const auto& [name, known] : result_types()) show_place(reinterpret_cast<PyTypeObject*>(known.type), name);
}

PyObject* result_type_of(const OpDef& op) {
    size_t arrow = op.schema.find("->");
    if (arrow == std::string::npos) return nullptr;
    size_t open = op.schema.find('(', arrow), close = op.schema.rfind(')');
    if (open == std::string::npos || close < open) fail_value("schema '" + op.schema + "': names of results in ()");
    std::string name = op.schema.substr(arrow + 2, open - arrow - 2);
    name.erase(0, name.find_first_not_of(' '));
    std::vector<std::string> fields;
    for (size_t at = open + 1; at < close;) {
        size_t comma = std::min(op.schema.find(',', at), close);
        std::string item = op.schema.substr(at, comma - at);
        item.erase(item.find_last_not_of(' ') + 1);
        fields.push_back(item.substr(item.rfind(' ') + 1));
        at = comma + 1;
    }
    return result_type_named(name.empty() ? op.name : name, fields);
}

PyObject* results_to_python(const Call& call, Ref<Tensor>* results) {
    if (call.result_count == 1) return wrap(std::move(results[0]));
    auto count = static_cast<Py_ssize_t>(call.result_count);
    PyObject* type = call.op->result_type;
    PyRef tuple = checked(type ? PyStructSequence_New(reinterpret_cast<PyTypeObject*>(type)) : PyTuple_New(count));
    // Struct sequences are tuples inside.
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SET_ITEM(tuple.get(), i, checked(wrap(std::move(results[i]))).release());
    // CPython leaves that to whoever makes a struct sequence, and tracks tuples by itself.
    if (!PyObject_GC_IsTracked(tuple.get())) PyObject_GC_Track(tuple.get());
    return tuple.release();
}

PyObject* call_out(Arguments& arguments) {
    const OpDef& op = *arguments.call.op;
    size_t count = 1;
    if (!is_tensor(arguments.out) && (PyTuple_Check(arguments.out) || PyList_Check(arguments.out)))
        count = std::max<size_t>(2, static_cast<size_t>(PySequence_Fast_GET_SIZE(arguments.out)));
    SmallVector<Tensor*, 4> outs = out_tensors(op.name, arguments.out, op.result_type || count > 1 ? count : 1);
    // Other threads may run meanwhile, and change a list of them.
    Ref<Tensor> held[kMaxResults];
    for (size_t i = 0; i < std::min(outs.size(), kMaxResults); ++i) held[i] = Ref<Tensor>::borrow(outs[i]);
    dispatch_out(arguments.call, outs.data(), outs.size());
    return out_as_result(arguments.out, op.result_type);
}

bool init_results(PyObject* module) { return PyModule_AddFunctions(module, results_functions) == 0; }

}  // namespace mt::py
