// Generators of random numbers: the default one and the user's.
#include <cstddef>

#include "bindings/py.h"

namespace mt::py {

namespace {

struct GeneratorObject {
    PyObject_HEAD Generator own;
    Generator* state;  // `own`, or the default generator
};

GeneratorObject* cast(PyObject* self) { return reinterpret_cast<GeneratorObject*>(self); }

PyObject* generator_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self) {
        cast(self)->own = Generator{};
        cast(self)->state = &cast(self)->own;
    }
    return self;
}

void generator_dealloc(PyObject* self) {
    Py_TYPE(self)->tp_free(self);  // a class made in Python drops its own count
}

PyObject* generator_state(PyObject* self, PyObject*) {
    const Generator& state = *cast(self)->state;
    note_beyond_replay("it asks for the state of a generator");
    return Py_BuildValue("(KK)", static_cast<unsigned long long>(state.seed),
                         static_cast<unsigned long long>(state.offset));
}

PyObject* generator_set(PyObject* self, PyObject* args) {
    unsigned long long seed, offset;
    if (!PyArg_ParseTuple(args, "KK:_set", &seed, &offset)) return nullptr;
    note_beyond_replay("it sets the state of a generator");
    cast(self)->state->seed = seed;
    cast(self)->state->offset = offset;
    Py_RETURN_NONE;
}

PyObject* generator_reserve(PyObject* self, PyObject*) {
    Generator& state = *cast(self)->state;
    return Py_BuildValue("(KK)", static_cast<unsigned long long>(state.seed),
                         static_cast<unsigned long long>(state.offset++));
}

PyMethodDef methods[] = {
    {"_state", method<generator_state>(), METH_NOARGS, "(seed, offset)."},
    {"_set", method<generator_set>(), METH_VARARGS, "_set(seed, offset)"},
    {"_reserve", method<generator_reserve>(), METH_NOARGS, "(seed, offset) for one op, which are then used up."},
    {}};

PyTypeObject make_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor._C._Generator";
    type.tp_doc = "The seed of a random stream and the next place in it.";
    type.tp_basicsize = sizeof(GeneratorObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type.tp_new = slot<generator_new>;
    type.tp_dealloc = slot<generator_dealloc>;
    type.tp_methods = methods;
    return type;
}

PyTypeObject GeneratorType = make_type();

// use_as_default(generator, device): it stands for the device's default generator from now on.
PyObject* py_use_as_default(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *device;
        if (!PyArg_ParseTuple(args, "O!O:_use_as_default", &GeneratorType, &object, &device)) return nullptr;
        cast(object)->state = &default_generator(device_from(device));
        Py_RETURN_NONE;
    });
}

// draw_from(generator or None, op, *args, **kwargs): calls the op; the numbers are drawn from the generator.
PyObject* py_draw_from(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        if (nargs < 2) fail_type("draw_from(generator, op, ...)");
        PyObject* object = args[0];
        Generator* before = active_generator;
        if (object != Py_None) {
            if (!PyObject_TypeCheck(object, &GeneratorType))
                fail_type(std::string("argument 'generator' must be Generator, not ") + Py_TYPE(object)->tp_name);
            active_generator = cast(object)->state;
        }
        PyObject* result = PyObject_Vectorcall(args[1], args + 2, static_cast<size_t>(nargs - 2), kwnames);
        active_generator = before;
        return result;
    });
}

PyMethodDef functions[] = {
    {"_use_as_default", method<py_use_as_default>(), METH_VARARGS,
     "_use_as_default(generator, device): it stands for the device's default one."},
    {"_draw_from", method<py_draw_from>(), METH_FASTCALL | METH_KEYWORDS,
     "_draw_from(generator, op, *args, **kwargs): calls the op, which draws from the generator (None: the default "
     "one)."},
    {}};

}  // namespace

bool init_generator(PyObject* module) {
    return PyType_Ready(&GeneratorType) == 0 && PyModule_AddFunctions(module, functions) == 0 &&
           PyModule_AddType(module, &GeneratorType) == 0;
}

}  // namespace mt::py
