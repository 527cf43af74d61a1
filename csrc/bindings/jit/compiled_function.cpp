// mt.function's object: a call that fits one of its programs never runs Python.
#include <cstddef>
#include <iterator>
#include <string>

#include "bindings/jit/program_cache.h"
#include "bindings/jit/recorded_call.h"
#include "bindings/jit/trace_python.h"
#include "bindings/py.h"
#include "trace/program/program.h"

namespace mt::py {

namespace {

// What compiled functions do that have no program for a call (compiler.set_stance); with kForceEager they use none at
// all.
constexpr const char* kStances[] = {"default",           "force_eager",        "eager_on_recompile",
                                    "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"};
constexpr size_t kForceEager = 1;
size_t g_stance = 0;  // guarded by the interpreter's lock
struct FunctionObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* miss;  // called with (args, kwargs) when no program fits
    // What the last call with nested arguments was, and the function of their tensors that has the programs for it.
    PyObject* structure;
    PyObject* variant;
    PyObject* dict;
    PyObject* weakrefs;
    ProgramCache* programs;
    uint64_t owner;
    bool directed;  // follows the stance
};

FunctionObject* self_of(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }

PyObject* call_miss(PyObject* self, PyObject* const* args, size_t nargs, PyObject* kwnames) {
    PyRef positional = checked(PyTuple_New(static_cast<Py_ssize_t>(nargs)));
    for (size_t i = 0; i < nargs; ++i)
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
    PyRef keywords = checked(PyDict_New());
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
        if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + static_cast<size_t>(k)]) < 0)
            fail_python();
    return PyObject_CallFunctionObjArgs(self_of(self)->miss, positional.get(), keywords.get(), nullptr);
}

PyObject* function_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        auto nargs = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
        FunctionObject& f = *self_of(self);
        if (f.directed && g_stance == kForceEager) return call_miss(self, args, nargs, kwnames);
        if (!kwnames || !PyTuple_GET_SIZE(kwnames))
            if (PyObject* result = f.programs->run(args, nargs)) return result;
        if (f.structure) {
            // Comparing may run code, which may call the function.
            PyRef structure = PyRef::borrow(f.structure), variant = PyRef::borrow(f.variant);
            std::vector<PyRef> tensors;
            if (match_call(structure.get(), args, nargs, kwnames, tensors)) {
                SmallVector<PyObject*, 32> items;
                for (const PyRef& tensor : tensors) items.push_back(tensor.get());
                if (PyObject* result = self_of(variant.get())->programs->run(items.data(), items.size())) return result;
            }
        }
        return call_miss(self, args, nargs, kwnames);
    });
}

// run(tensors): what a kept program gives; NotImplemented if none fits.
PyObject* function_run(PyObject* self, PyObject* tensors) {
    return guarded([&]() -> PyObject* {
        if (!PyTuple_Check(tensors)) fail_type("run takes a tuple");
        PyObject* result = self_of(self)->programs->run(&PyTuple_GET_ITEM(tensors, 0),
                                                        static_cast<size_t>(PyTuple_GET_SIZE(tensors)));
        return result ? result : Py_NewRef(Py_NotImplemented);
    });
}

// remember(structure, variant): calls whose arguments have this structure go to that function of their tensors.
PyObject* function_remember(PyObject* self, PyObject* arguments) {
    PyObject *structure, *variant;
    if (!PyArg_ParseTuple(arguments, "O!O!:remember", &PyTuple_Type, &structure, Py_TYPE(self), &variant))
        return nullptr;
    Py_XSETREF(self_of(self)->structure, Py_NewRef(structure));
    Py_XSETREF(self_of(self)->variant, Py_NewRef(variant));
    Py_RETURN_NONE;
}

// finish(args, result, structure, guards): runs what was recorded while the function ran, and keeps it if it can.
PyObject* function_finish(PyObject* self, PyObject* arguments) {
    return guarded([&]() -> PyObject* {
        PyObject *args, *result, *structure, *guards;
        if (!PyArg_ParseTuple(arguments, "O!OOO:finish", &PyTuple_Type, &args, &result, &structure, &guards))
            return nullptr;
        return self_of(self)->programs->finish(args, result, structure, guards);
    });
}

PyObject* function_clear(PyObject* self, PyObject*) {
    self_of(self)->programs->clear();
    trace::forget_plans_of(self_of(self)->owner);
    Py_CLEAR(self_of(self)->structure);
    Py_CLEAR(self_of(self)->variant);
    PyRef forgotten(PyObject_CallMethod(self_of(self)->miss, "forget", nullptr));
    if (!forgotten) return nullptr;
    Py_RETURN_NONE;
}

PyObject* function_reduce(PyObject* self, PyObject*) {
    return PyObject_CallMethod(self_of(self)->miss, "reduce", "O", self);
}
PyObject* function_same(PyObject* self, PyObject*) { return Py_NewRef(self); }

// Programs for structured arguments are those of other objects, which the miss callable keeps.
PyObject* and_more(PyObject* self, unsigned long long own, const char* what) {
    PyRef more(PyObject_CallMethod(self_of(self)->miss, "more", "s", what));
    PyRef count(more ? PyLong_FromUnsignedLongLong(own) : nullptr);
    return count ? PyNumber_Add(count.get(), more.get()) : nullptr;
}
PyObject* function_programs(PyObject* self, void*) {
    return and_more(self, self_of(self)->programs->size(), "programs");
}
PyObject* function_lower(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyRef lower(PyObject_GetAttrString(self_of(self)->miss, "lower"));
    return lower ? PyObject_Call(lower.get(), args, kwargs) : nullptr;
}
PyObject* function_owner(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(self_of(self)->owner); }
PyObject* function_hits(PyObject* self, void*) { return and_more(self, self_of(self)->programs->hits(), "hits"); }

PyObject* function_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject* miss;
    int directed = 0;
    if (!PyArg_ParseTuple(args, "O|p:CompiledFunction", &miss, &directed)) return nullptr;
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    self_of(self)->vectorcall = slot<function_vectorcall>;
    self_of(self)->miss = Py_NewRef(miss);
    self_of(self)->programs = new ProgramCache;
    self_of(self)->owner = next_owner();
    self_of(self)->directed = directed != 0;
    return self;
}

int function_traverse(PyObject* self, visitproc visit, void* arg) {
    if (int visited = self_of(self)->programs->traverse(visit, arg)) return visited;
    Py_VISIT(self_of(self)->miss);
    Py_VISIT(self_of(self)->structure);
    Py_VISIT(self_of(self)->variant);
    Py_VISIT(self_of(self)->dict);
    return 0;
}
int function_tp_clear(PyObject* self) {
    self_of(self)->programs->clear();
    Py_CLEAR(self_of(self)->miss);
    Py_CLEAR(self_of(self)->structure);
    Py_CLEAR(self_of(self)->variant);
    Py_CLEAR(self_of(self)->dict);
    return 0;
}
void function_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (self_of(self)->weakrefs) PyObject_ClearWeakRefs(self);
    function_tp_clear(self);
    delete self_of(self)->programs;
    trace::forget_plans_of(self_of(self)->owner);
    forget_length(self_of(self)->owner);
    Py_TYPE(self)->tp_free(self);
}
PyObject* function_get(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}
PyObject* function_repr(PyObject* self) {
    PyRef name(PyObject_GetAttrString(self, "__qualname__"));
    if (!name) {
        PyErr_Clear();
        return PyUnicode_FromString("<minitensor function>");
    }
    return PyUnicode_FromFormat("<minitensor function %U>", name.get());
}

PyMethodDef methods[] = {
    {"finish", method<function_finish>(), METH_VARARGS,
     "finish(args, result, structure, guards): runs what the function recorded, and keeps it as a program if it can."},
    {"run", method<function_run>(), METH_O,
     "run(tensors): what a kept program gives for them; NotImplemented if none fits."},
    {"remember", method<function_remember>(), METH_VARARGS,
     "remember(structure, variant): calls whose arguments have this structure go to that function of their tensors."},
    {"clear", method<function_clear>(), METH_NOARGS, "clear()\n--\n\nForgets all programs, and their code."},
    {"lower", method<function_lower>(), METH_VARARGS | METH_KEYWORDS,
     "lower(*args, **kwargs)\n--\n\nCompiles for these arguments without running anything; every stage can be shown."},
    {"__reduce__", method<function_reduce>(), METH_NOARGS, "Pickled with its compiled code."},
    {"__copy__", method<function_same>(), METH_NOARGS, "Functions are not copied."},
    {"__deepcopy__", method<function_same>(), METH_O, "Functions are not copied."},
    {}};
PyGetSetDef getset[] = {{"programs", slot<function_programs>, nullptr, "How many programs are kept.", nullptr},
                        {"hits", slot<function_hits>, nullptr, "How many calls ran a kept program.", nullptr},
                        {"owner", slot<function_owner>, nullptr, "The number by which its plans are known.", nullptr},
                        {"__dict__", slot<PyObject_GenericGetDict>, slot<PyObject_GenericSetDict>, nullptr, nullptr},
                        {}};

PyTypeObject make_function_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.CompiledFunction";
    type.tp_doc = "A function that runs as compiled programs; made by minitensor.function.";
    type.tp_basicsize = sizeof(FunctionObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    type.tp_vectorcall_offset = offsetof(FunctionObject, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = slot<function_new>;
    type.tp_dealloc = slot<function_dealloc>;
    type.tp_traverse = slot<function_traverse>;
    type.tp_clear = slot<function_tp_clear>;
    type.tp_dictoffset = offsetof(FunctionObject, dict);
    type.tp_weaklistoffset = offsetof(FunctionObject, weakrefs);
    type.tp_descr_get = slot<function_get>;
    type.tp_repr = slot<function_repr>;
    type.tp_methods = methods;
    type.tp_getset = getset;
    return type;
}

PyTypeObject FunctionType = make_function_type();

PyObject* py_stance(PyObject*, PyObject*) { return PyUnicode_FromString(kStances[g_stance]); }
PyObject* py_set_stance(PyObject*, PyObject* stance) {
    if (PyUnicode_Check(stance))
        for (size_t i = 0; i < std::size(kStances); ++i)
            if (PyUnicode_CompareWithASCIIString(stance, kStances[i]) == 0) {
                g_stance = i;
                Py_RETURN_NONE;
            }
    std::string known;
    for (const char* name : kStances) known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
    return PyErr_Format(PyExc_RuntimeError, "set_stance: unknown stance %R; there are %s", stance, known.c_str());
}
PyObject* py_program_busy(PyObject*, PyObject*) { return PyBool_FromLong(program_was_busy()); }

PyMethodDef compiled_function_functions[] = {
    {"stance", method<py_stance>(), METH_NOARGS, "What compiled functions do that have no program for a call."},
    {"set_stance", method<py_set_stance>(), METH_O,
     "Sets it, for all threads; RuntimeError for one that is not there."},
    {"program_busy", method<py_program_busy>(), METH_NOARGS,
     "Whether a program that fits the last call of a compiled function on this thread was running on another."},
    {}};

}  // namespace

bool init_function(PyObject* module) {
    PyRef unsettled(PyUnicode_FromString(trace::kUnsettled));
    if (!unsettled || PyModule_AddObjectRef(module, "UNSETTLED", unsettled.get()) < 0) return false;
    return PyType_Ready(&FunctionType) == 0 && PyModule_AddFunctions(module, compiled_function_functions) == 0 &&
           PyModule_AddType(module, &FunctionType) == 0;
}

}  // namespace mt::py
