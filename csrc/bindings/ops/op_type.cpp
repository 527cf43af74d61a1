// The callable of an op: mt.exp, Tensor.exp and, in its in-place form, Tensor.exp_ are one C object each.
#include <cstddef>
#include <string>

#include "autograd/tape.h"
#include "bindings/ops/overrides.h"
#include "bindings/py.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

struct OpObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    const OpDef* op;
    bool inplace;
    bool method;  // the attribute of Tensor, which those who override calls tell from the function
    PyObject* doc;
};

OpObject* cast(PyObject* self) { return reinterpret_cast<OpObject*>(self); }

PyObject* call_inplace(Arguments& arguments) {
    Tensor* destination = arguments.call.operand_count ? arguments.call.operands[0].tensor : nullptr;
    if (!destination) fail_type(arguments.call.op->name + "_(): the first argument must be a Tensor");
    dispatch_inplace(arguments.call, *destination);
    return wrap(Ref<Tensor>::borrow(destination));
}

PyObject* op_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject* result;
    const bool asked = may_override();
    if (asked && overridden(self, args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), kwnames, &result))
        return result;
    result = guarded([&]() -> PyObject* {
        const OpDef& op = *cast(self)->op;
        bool inplace = cast(self)->inplace;
        Arguments arguments(op, ambient(), !inplace && op.out != OutRule::None);
        arguments.parse(args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), kwnames);
        if (inplace) return call_inplace(arguments);
        if (arguments.out) return call_out(arguments);
        Ref<Tensor> results[kMaxResults];
        dispatch(arguments.call, results);
        return results_to_python(arguments.call, results);
    });
    if (__builtin_expect(!result && !asked, 0))
        foreign_override(self, args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), kwnames, &result);
    return result;
}

PyObject* op_descr_get(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyObject* op_repr(PyObject* self) {
    if (cast(self)->method)
        return PyUnicode_FromFormat("<method '%s%s' of '%s' objects>", cast(self)->op->name.c_str(),
                                    cast(self)->inplace ? "_" : "", TensorType.tp_name);
    return PyUnicode_FromFormat("<minitensor op %s%s>", cast(self)->op->name.c_str(), cast(self)->inplace ? "_" : "");
}

PyObject* op_name(PyObject* self, void*) {
    return PyUnicode_FromFormat("%s%s", cast(self)->op->name.c_str(), cast(self)->inplace ? "_" : "");
}

PyObject* op_qualname(PyObject* self, void*) {
    PyRef name(op_name(self, nullptr));
    return cast(self)->method && name ? PyUnicode_FromFormat("Tensor.%U", name.get()) : name.release();
}

PyObject* op_doc(PyObject* self, void*) { return cast(self)->doc ? Py_NewRef(cast(self)->doc) : Py_NewRef(Py_None); }
int op_set_doc(PyObject* self, PyObject* value, void*) {
    Py_XSETREF(cast(self)->doc, Py_XNewRef(value));
    return 0;
}

// In the form that inspect.signature reads.
PyObject* op_text_signature(PyObject* self, void*) {
    std::string text = "(";
    bool keywords = false;
    for (size_t i = 0; i < cast(self)->op->args.size(); ++i) {
        const ArgSpec& spec = cast(self)->op->args[i];
        if (i) text += ", ";
        if (spec.keyword_only && !keywords) {
            text += "*, ";
            keywords = true;
        }
        text += spec.name;
        if (!spec.has_default) continue;
        PyRef value(value_to_python(spec.default_value));
        PyRef shown(value ? PyObject_Repr(value.get()) : nullptr);
        const char* characters = shown ? PyUnicode_AsUTF8(shown.get()) : nullptr;
        if (!characters) return nullptr;
        text += std::string("=") + characters;
    }
    return PyUnicode_FromString((text + ")").c_str());
}

PyObject* op_schema(PyObject* self, void*) { return PyUnicode_FromString(cast(self)->op->schema.c_str()); }
PyObject* op_row(PyObject* self, void*) { return Py_NewRef(cast(self)->op->row ? cast(self)->op->row : Py_None); }
PyObject* op_module(PyObject*, void*) { return PyUnicode_FromString("minitensor"); }
void op_dealloc(PyObject* self) {
    Py_XDECREF(cast(self)->doc);
    Py_TYPE(self)->tp_free(self);
}

PyGetSetDef getset[] = {{"__name__", slot<op_name>, nullptr, "The op's name.", nullptr},
                        {"__qualname__", slot<op_qualname>, nullptr, "The op's name.", nullptr},
                        {"__module__", slot<op_module>, nullptr, "minitensor", nullptr},
                        {"__doc__", slot<op_doc>, slot<op_set_doc>, "What the op computes.", nullptr},
                        {"__text_signature__", slot<op_text_signature>, nullptr, "The parameters.", nullptr},
                        {"schema", slot<op_schema>, nullptr, "The op's schema.", nullptr},
                        {"row", slot<op_row>, nullptr, "The op's rules.", nullptr},
                        {}};
PyMethodDef methods[] = {{"__reduce__", method<reduce_by_name>(), METH_NOARGS, "Pickled by name."}, {}};

PyTypeObject make_op_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.Op";
    type.tp_basicsize = sizeof(OpObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    type.tp_vectorcall_offset = offsetof(OpObject, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_descr_get = slot<op_descr_get>;
    type.tp_repr = slot<op_repr>;
    type.tp_dealloc = slot<op_dealloc>;
    return type;
}

Kind kind_from(const char* name) {
    static const char* names[] = {"elementwise", "reduction", "view",     "movement",  "contraction",
                                  "index",       "random",    "creation", "composite", "opaque"};
    for (size_t i = 0; i < 10; ++i)
        if (std::string_view(names[i]) == name) return static_cast<Kind>(i);
    fail_value(std::string("unknown kind of op '") + name + "'");
}

OpDef& def_of(PyObject* object) {
    if (Py_TYPE(object) != &OpType) fail_type(std::string("expected an op, got ") + Py_TYPE(object)->tp_name);
    return op_by_id(cast(object)->op->id);
}

// define_op(schema, kind) -> op
PyObject* py_define_op(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        const char *schema, *kind;
        if (!PyArg_ParseTuple(args, "ss:define_op", &schema, &kind)) return nullptr;
        OpDef& op = define_op(schema, kind_from(kind));
        op.result_type = result_type_of(op);
        return make_op_object(op, false);
    });
}

// set_rules(op, row, vjp, saves_out, saves_operand, reads, compilable, fallible, python_kernel)
PyObject* py_set_rules(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *row, *vjp, *saves, *reads, *kernel;
        int saves_out, compilable, fallible;
        if (!PyArg_ParseTuple(args, "OOOiOOppO:set_rules", &object, &row, &vjp, &saves_out, &saves, &reads, &compilable,
                              &fallible, &kernel))
            return nullptr;
        OpDef& op = def_of(object);
        Py_XSETREF(op.row, Py_NewRef(row));
        Py_XSETREF(op.vjp, vjp == Py_None ? nullptr : Py_NewRef(vjp));
        op.vjp_saves_out = static_cast<OpDef::Reads>(saves_out);
        op.vjp_saves_operand.clear();
        PyRef sequence = tuple_of(saves);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence.get()); ++i)
            op.vjp_saves_operand.push_back(to_bool(PyTuple_GET_ITEM(sequence.get(), i)));
        if (op.vjp && op.vjp_saves_operand.size() != op.operand_count())
            fail_value("the vjp of '" + op.name + "' must name its " + std::to_string(op.operand_count()) +
                       " operands");
        op.vjp_reads.clear();
        PyRef masks = tuple_of(reads);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(masks.get()); ++i)
            op.vjp_reads.push_back(static_cast<uint32_t>(to_uint64(PyTuple_GET_ITEM(masks.get(), i))));
        op.compilable = compilable;
        op.fallible = fallible;
        if (kernel != Py_None) Py_XSETREF(op.python_kernel[0], Py_NewRef(kernel));
        if (!op.cpu && !op.python_kernel[0] && op.kind != Kind::View) fail_value("op '" + op.name + "' has no kernel");
        Py_RETURN_NONE;
    });
}

// set_out(op, rule): what may be given as `out`, where that doesn't follow from the kind
PyObject* py_set_out(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* object;
        const char* rule;
        if (!PyArg_ParseTuple(args, "Os:set_out", &object, &rule)) return nullptr;
        def_of(object).out = out_rule_from(rule);
        Py_RETURN_NONE;
    });
}

// One of a row's names of its node: (condition, name), where the condition is a tuple of numbers of dimensions, or an
// argument's name, behind "!" for calls without it.
NodeName node_name_from(const OpDef& op, PyObject* item) {
    NodeName made;
    PyObject* condition;
    const char* name;
    if (!PyArg_ParseTuple(item, "Os", &condition, &name)) fail_python();
    made.name = name;
    if (PyTuple_Check(condition)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(condition); ++i)
            made.ranks.push_back(static_cast<size_t>(to_uint64(PyTuple_GET_ITEM(condition, i))));
        return made;
    }
    const char* text = PyUnicode_AsUTF8(condition);
    if (!text) fail_python();
    if (!*text) return made;
    made.given = *text != '!';
    if (!made.given) ++text;
    for (size_t i = 0; i < op.operand_args.size(); ++i)
        if (op.args[op.operand_args[i]].name == text) made.operand = static_cast<int>(i);
    for (size_t i = 0; i < op.param_args.size(); ++i)
        if (op.args[op.param_args[i]].name == text) made.param = static_cast<int>(i);
    if (made.operand < 0 && made.param < 0) fail_value("op '" + op.name + "' has no argument '" + text + "'");
    return made;
}

// set_node(op, names, numbers_as_tensors, predicate): what is particular about its backward node
PyObject* py_set_node(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *names;
        int numbers_as_tensors, predicate;
        if (!PyArg_ParseTuple(args, "OOpi:set_node", &object, &names, &numbers_as_tensors, &predicate)) return nullptr;
        OpDef& op = def_of(object);
        PyRef sequence = tuple_of(names);
        op.node_names.clear();
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sequence.get()); ++i)
            op.node_names.push_back(node_name_from(op, PyTuple_GET_ITEM(sequence.get(), i)));
        op.numbers_as_tensors = numbers_as_tensors != 0;
        op.predicate = predicate;
        Py_RETURN_NONE;
    });
}

// method_form(op), function_form(op): the same op as an object of its own, for Tensor and for the package.
template <bool method>
PyObject* py_form(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        PyRef made = checked(make_op_object(def_of(object), cast(object)->inplace));
        cast(made.get())->doc = Py_XNewRef(cast(object)->doc);
        cast(made.get())->method = method;
        return made.release();
    });
}

PyObject* py_inplace_form(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        PyRef made = checked(make_op_object(def_of(object), true));
        PyObject* doc = cast(object)->doc;
        if (doc) cast(made.get())->doc = PyUnicode_FromFormat("In place: %S", doc);
        return made.release();
    });
}

// fill_random(op, tensor, *parameters between size and dtype): the in-place form of a random op, whose size and dtype
// are the tensor's.
PyObject* py_fill_random(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        if (nargs < 2 || !is_tensor(args[1])) fail_type("fill_random(op, tensor, *parameters)");
        const OpDef& op = def_of(args[0]);
        Tensor& destination = *tensor_of(args[1]);
        std::vector<Value> values;
        Py_ssize_t next = 2;
        for (const ArgSpec& spec : op.args) {
            Value value;
            if (spec.name == "size") {
                value = value_of(destination.sizes);
            } else if (spec.type == ArgType::DTypeArg) {
                value.tag = Value::Type;
                value.dtype = destination.dtype;
            } else if (spec.type == ArgType::DeviceArg) {
                value.tag = Value::Dev;
            } else {
                Scalar scalar;
                if (next >= nargs || !scalar_from(args[next++], &scalar))
                    fail_type(op.name + "_: parameter '" + spec.name + "' must be a Number");
                value = spec.type == ArgType::Float ? Value::of(Scalar::of(scalar.as_double())) : Value::of(scalar);
            }
            values.push_back(std::move(value));
        }
        Call call(ambient());
        call.op = &op;
        call.params = values.data();
        call.param_count = values.size();
        dispatch_inplace(call, destination);
        return Py_NewRef(args[1]);
    });
}

PyObject* py_op_names(PyObject*, PyObject*) {
    PyObject* list = PyList_New(0);
    for (size_t i = 0; list && i < op_count(); ++i) {
        PyRef name(PyUnicode_FromString(op_by_id(static_cast<int>(i)).name.c_str()));
        if (!name || PyList_Append(list, name.get()) < 0) Py_CLEAR(list);
    }
    return list;
}

PyMethodDef op_type_functions[] = {
    {"define_op", method<py_define_op>(), METH_VARARGS,
     "define_op(schema, kind): registers an op and returns its callable."},
    {"set_node", method<py_set_node>(), METH_VARARGS,
     "set_node(op, names, numbers_as_tensors, predicate): what is particular about an op's backward node."},
    {"set_out", method<py_set_out>(), METH_VARARGS, "set_out(op, rule): what may be given as `out`."},
    {"set_rules", method<py_set_rules>(), METH_VARARGS, "Attaches a row's rules to its op."},
    {"method_form", method<py_form<true>>(), METH_O, "The callable of an op as a method of Tensor."},
    {"function_form", method<py_form<false>>(), METH_O, "The callable of a method's op as a function."},
    {"inplace_form", method<py_inplace_form>(), METH_O, "The in-place callable of an op."},
    {"fill_random", method<py_fill_random>(), METH_FASTCALL, "The in-place form of a random op."},
    {"op_names", method<py_op_names>(), METH_NOARGS, "The names of all ops."},
    {}};

// Throws the exception of a kernel in Python; memory that NumPy lacked is memory that the op lacked.
[[noreturn]] void fail_kernel(const OpDef& op) {
    if (!PyErr_ExceptionMatches(PyExc_MemoryError)) fail_python();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyRef owned[] = {PyRef(type), PyRef(value), PyRef(traceback)};
    PyRef text(value ? PyObject_Str(value) : nullptr);
    const char* said = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    PyErr_Clear();
    throw Error(ErrorKind::OutOfMemory, op.name + ": " + (said && *said ? said : "cannot allocate memory"));
}

// Ops whose kernel is a Python callable get and give Python tensors.
void run_python_kernel(Call& call, Device device, Ref<Tensor>* results) {
    std::vector<PyRef> owned;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Operand& operand = call.operands[i];
        owned.emplace_back(operand.tensor      ? wrap(detach(*operand.tensor))
                           : operand.is_scalar ? scalar_to_python(operand.scalar)
                                               : Py_NewRef(Py_None));
    }
    for (size_t i = 0; i < call.param_count; ++i) owned.emplace_back(value_to_python(call.params[i]));
    std::vector<PyObject*> raw;
    for (PyRef& ref : owned) raw.push_back(ref.get());
    PyRef returned;
    {
        CarriedSettings settings(call.ambient);
        returned = PyRef(PyObject_Vectorcall(call.op->python_kernel[static_cast<size_t>(device.type)], raw.data(),
                                             raw.size(), nullptr));
    }
    if (!returned) fail_kernel(*call.op);
    auto take = [&](PyObject* object, size_t i) {
        if (!is_tensor(object))
            fail_type("the kernel of '" + call.op->name + "' must return tensors, got " + Py_TYPE(object)->tp_name);
        results[i] = Ref<Tensor>::borrow(tensor_of(object));
    };
    if (PyTuple_Check(returned.get())) {
        call.result_count = static_cast<size_t>(PyTuple_GET_SIZE(returned.get()));
        if (call.result_count > kMaxResults) fail("the kernel of '" + call.op->name + "' returned too many tensors");
        for (size_t i = 0; i < call.result_count; ++i)
            take(PyTuple_GET_ITEM(returned.get(), static_cast<Py_ssize_t>(i)), i);
    } else {
        call.result_count = 1;
        take(returned.get(), 0);
    }
}

}  // namespace

PyTypeObject OpType = make_op_type();

PyObject* make_op_object(const OpDef& op, bool inplace) {
    PyObject* self = OpType.tp_alloc(&OpType, 0);
    if (!self) return nullptr;
    cast(self)->vectorcall = slot<op_vectorcall>;
    cast(self)->op = &op;
    cast(self)->inplace = inplace;
    return self;
}

bool is_op(PyObject* object) { return Py_TYPE(object) == &OpType && !cast(object)->inplace; }

bool is_inplace_op(PyObject* object) { return Py_TYPE(object) == &OpType && cast(object)->inplace; }

OpDef& op_of(PyObject* callable) { return def_of(callable); }

bool init_ops(PyObject* module) {
    OpType.tp_getset = getset;
    OpType.tp_methods = methods;
    python_kernel_callback = run_python_kernel;
    return PyType_Ready(&OpType) == 0 && PyModule_AddFunctions(module, op_type_functions) == 0 &&
           PyModule_AddType(module, &OpType) == 0;
}

}  // namespace mt::py
