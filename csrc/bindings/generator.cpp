// Generators of random numbers: the default one and the user's.
#include <cstddef>
#include <new>

#include "bindings/py.h"
#include "dispatch/generator.h"
#include "dispatch/thread_local_state.h"

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
        new (&cast(self)->own) Generator;
        cast(self)->state = &cast(self)->own;
    }
    return self;
}

void generator_dealloc(PyObject* self) {
    cast(self)->own.~Generator();
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
    if (offset >> 63) return PyErr_Format(PyExc_RuntimeError, "a generator's offset has 63 bits, not %llu", offset);
    cast(self)->state->begin(seed, offset);
    Py_RETURN_NONE;
}

// Draw as PyTorch, or by Philox: from the beginning of the seed's stream.
PyObject* generator_use_torch(PyObject* self, PyObject* value) {
    const bool torch = to_bool(value);
    note_beyond_replay("it changes how a generator draws");
    cast(self)->state->draw_as_torch(torch);
    Py_RETURN_NONE;
}

PyObject* generator_draws_as_torch(PyObject* self, PyObject*) {
    return PyBool_FromLong(cast(self)->state->draws_as_torch);
}

PyObject* generator_torch_state(PyObject* self, PyObject*) {
    const Generator& state = *cast(self)->state;
    if (!state.draws_as_torch) return PyErr_Format(PyExc_RuntimeError, "this generator does not draw as PyTorch");
    note_beyond_replay("it asks for the state of a generator");
    unsigned char bytes[Twister::kStateBytes];
    state.twister->save(bytes);
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bytes), sizeof bytes);
}

PyObject* generator_set_torch_state(PyObject* self, PyObject* state_bytes) {
    char* bytes;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(state_bytes, &bytes, &size) < 0) return nullptr;
    Generator& state = *cast(self)->state;
    Twister read(0);
    if (size != static_cast<Py_ssize_t>(Twister::kStateBytes) ||
        !read.load(reinterpret_cast<const unsigned char*>(bytes)))
        return PyErr_Format(PyExc_RuntimeError, "Invalid mt19937 state");
    note_beyond_replay("it sets the state of a generator");
    state.draw_as_torch(true);
    state.seed = read.seed();
    *state.twister = read;
    Py_RETURN_NONE;
}

PyObject* generator_reserve(PyObject* self, PyObject*) {
    Generator& state = *cast(self)->state;
    if (state.draws_as_torch) {  // a stream that is keyed by a number of this one
        ++state.offset;
        return Py_BuildValue("(KK)", static_cast<unsigned long long>(state.twister->word_64()), 0ULL);
    }
    return Py_BuildValue("(KK)", static_cast<unsigned long long>(state.seed),
                         static_cast<unsigned long long>(state.offset++));
}

PyMethodDef generator_methods[] = {
    {"_state", method<generator_state>(), METH_NOARGS, "(seed, offset)."},
    {"_set", method<generator_set>(), METH_VARARGS, "_set(seed, offset)"},
    {"_use_torch", method<generator_use_torch>(), METH_O, "_use_torch(whether)"},
    {"_draws_as_torch", method<generator_draws_as_torch>(), METH_NOARGS, "Whether it draws PyTorch's numbers."},
    {"_torch_state", method<generator_torch_state>(), METH_NOARGS, "The bytes of PyTorch's get_state."},
    {"_set_torch_state", method<generator_set_torch_state>(), METH_O, "_set_torch_state(bytes)"},
    {"_reserve", method<generator_reserve>(), METH_NOARGS, "(seed, offset) for one op, which are then used up."},
    {}};

PyTypeObject make_generator_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor._C._Generator";
    type.tp_doc = "The seed of a random stream and the next place in it.";
    type.tp_basicsize = sizeof(GeneratorObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type.tp_new = slot<generator_new>;
    type.tp_dealloc = slot<generator_dealloc>;
    type.tp_methods = generator_methods;
    return type;
}

PyTypeObject GeneratorType = make_generator_type();

// use_as_default(generator, device): it stands for the device's default generator from now on.
PyObject* py_use_as_default(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *device;
        if (!PyArg_ParseTuple(args, "O!O:_use_as_default", &GeneratorType, &object, &device)) return nullptr;
        cast(object)->state = &default_generator(device_from(device));
        Py_RETURN_NONE;
    });
}

// Whether what is drawn from the generator, None for the default one, on the device is PyTorch's numbers.
PyObject* py_draws_as_torch(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        if (nargs != 2) fail_type("_draws_as_torch(generator or None, device or None)");
        const Device device = args[1] == Py_None ? default_device() : device_from(args[1]);
        const bool own = args[0] != Py_None;
        if (own && !PyObject_TypeCheck(args[0], &GeneratorType))
            fail_type(std::string("argument 'generator' must be Generator, not ") + Py_TYPE(args[0])->tp_name);
        const Generator& generator = own ? *cast(args[0])->state : default_generator();
        return PyBool_FromLong((device.type == DeviceType::CPU || device.type == DeviceType::Meta) &&
                               generator.draws_as_torch);
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

PyMethodDef generator_functions[] = {
    {"_use_as_default", method<py_use_as_default>(), METH_VARARGS,
     "_use_as_default(generator, device): it stands for the device's default one."},
    {"_draws_as_torch", method<py_draws_as_torch>(), METH_FASTCALL,
     "_draws_as_torch(generator or None, device or None): whether PyTorch's numbers are drawn there."},
    {"_draw_from", method<py_draw_from>(), METH_FASTCALL | METH_KEYWORDS,
     "_draw_from(generator, op, *args, **kwargs): calls the op, which draws from the generator (None: the default "
     "one)."},
    {}};

}  // namespace

bool init_generator(PyObject* module) {
    return PyType_Ready(&GeneratorType) == 0 && PyModule_AddFunctions(module, generator_functions) == 0 &&
           PyModule_AddType(module, &GeneratorType) == 0;
}

}  // namespace mt::py
