// Autocast for Python: its state, and calls of composed functions whose arguments are cast.
#include "autograd/autocast.h"

#include <vector>

#include "bindings/autograd/autocast.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

bool holds_tensors(PyObject* object) { return PyTuple_CheckExact(object) || PyList_CheckExact(object); }

template <class F>
void each_tensor(PyObject* object, F&& f) {
    if (is_tensor(object)) return f(*tensor_of(object));
    if (!holds_tensors(object)) return;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
        if (PyObject* item = PySequence_Fast_GET_ITEM(object, i); is_tensor(item)) f(*tensor_of(item));
}

PyRef cast_tensor(PyObject* object, const CastTarget& target) {
    Tensor& given = *tensor_of(object);
    Ref<Tensor> made = target(given);
    return made.get() == &given ? PyRef::borrow(object) : checked(wrap(std::move(made)));
}

// The argument with its tensors cast; lists become tuples.
PyRef cast_argument(PyObject* object, const CastTarget& target) {
    if (is_tensor(object)) return cast_tensor(object, target);
    if (!holds_tensors(object)) return PyRef::borrow(object);
    PyRef items = checked(PySequence_List(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
        PyRef item = PyRef::borrow(PyList_GET_ITEM(items.get(), i));
        if (!is_tensor(item.get())) continue;
        if (PyList_SetItem(items.get(), i, cast_tensor(item.get(), target).release()) < 0) fail_python();
    }
    return PyTuple_CheckExact(object) ? tuple_of(items.get()) : std::move(items);
}

// autocast_state([state]) -> state before: 16 bits, the lower ones ThreadSettings::autocast, the upper ones its dtypes.
PyObject* py_autocast_state(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const long before = thread_settings.autocast | thread_settings.autocast_dtypes << 8;
        if (nargs) {
            const int64_t state = to_int64(args[0]);
            constexpr auto most = static_cast<int64_t>(DType::C128);  // no floats of eight bits
            if (state < 0 || state > 0xFFFF || (state & 0xFF) > 7 || (state >> 8 & 15) > most || (state >> 12) > most)
                fail_value("autocast_state: no such state");
            thread_settings.autocast = static_cast<uint8_t>(state);
            thread_settings.autocast_dtypes = static_cast<uint8_t>(state >> 8);
        }
        return PyLong_FromLong(before);
    });
}

PyObject* py_autocast_dtype_number(PyObject*, PyObject* object) {
    return guarded([&] { return PyLong_FromLong(static_cast<long>(dtype_from(object))); });
}

PyObject* py_autocast_dtype(PyObject*, PyObject* number) {
    return guarded([&]() -> PyObject* {
        const int64_t found = to_int64(number);
        if (found < 0 || found >= static_cast<int64_t>(DType::Count)) fail_value("autocast_dtype: no such number");
        return dtype_object(static_cast<DType>(found));
    });
}

PyObject* py_enter_autocast(PyObject*, PyObject*) { return PyLong_FromLong(enter_autocast()); }
PyObject* py_leave_autocast(PyObject*, PyObject*) { return PyLong_FromLong(leave_autocast()); }

PyObject* py_autocast_nesting(PyObject*, PyObject*) { return PyLong_FromLong(autocast_nesting()); }

PyObject* py_clear_autocast_cache(PyObject*, PyObject*) {
    clear_autocast_cache();
    Py_RETURN_NONE;
}

// set_autocast(op, policy): what autocast does with its operands.
PyObject* py_set_autocast(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        if (nargs != 2) fail_type("set_autocast(op, policy)");
        OpDef& op = op_of(args[0]);
        const AutocastPolicy policy = autocast_policy(args[1]);
        op.autocast[0] = policy.on[0];
        op.autocast[1] = policy.on[1];
        Py_RETURN_NONE;
    });
}

PyMethodDef autocast_functions[] = {
    {"autocast_state", method<py_autocast_state>(), METH_FASTCALL,
     "autocast_state([state]): this thread's state of autocast, which becomes `state`. Bits 0 and 1: it is on for the "
     "CPU and for GPUs; 2: casts are kept; 8 to 11 and 12 to 15: the numbers of their dtypes."},
    {"autocast_dtype_number", method<py_autocast_dtype_number>(), METH_O, "The number of a dtype in a state."},
    {"autocast_dtype", method<py_autocast_dtype>(), METH_O, "The dtype of a number in a state."},
    {"enter_autocast", method<py_enter_autocast>(), METH_NOARGS, "Counts a context of autocast; how many there are."},
    {"leave_autocast", method<py_leave_autocast>(), METH_NOARGS, "Counts one that ends; how many are left."},
    {"autocast_nesting", method<py_autocast_nesting>(), METH_NOARGS, "How many contexts of autocast there are."},
    {"clear_autocast_cache", method<py_clear_autocast_cache>(), METH_NOARGS, "Drops the casts that are kept."},
    {"set_autocast", method<py_set_autocast>(), METH_FASTCALL,
     "set_autocast(op, policy): what autocast does with operands, (on the CPU, on GPUs), each one of '', 'lower', "
     "'float32', 'widest' and 'same'."},
    {}};

}  // namespace

AutocastPolicy autocast_policy(PyObject* object) {
    AutocastPolicy policy;
    if (!object || !PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 2)
        fail_type("autocast must be a tuple of two str, for the CPU and for GPUs");
    static constexpr std::string_view names[] = {"", "lower", "float32", "widest", "same"};
    for (size_t k = 0; k < 2; ++k) {
        const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(k)));
        if (!text) fail_python();
        size_t i = 0;
        while (i < 5 && names[i] != text) ++i;
        if (i == 5) fail_value(std::string("autocast: unknown rule '") + text + "'");
        policy.on[k] = static_cast<CastTo>(i);
    }
    return policy;
}

bool call_autocast(const AutocastPolicy& policy, PyObject* callable, vectorcallfunc call, PyObject* const* args,
                   size_t nargsf, PyObject* kwnames, PyObject** result) {
    const auto positional = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
    const size_t count = positional + (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
    bool gpu = false, any = false;
    for (size_t i = 0; i < count; ++i)
        each_tensor(args[i], [&](const Tensor& t) { any |= !any && autocast_takes(t, &gpu); });
    const CastTo rule = policy.on[gpu];
    if (!any || rule == CastTo::Nothing) return false;
    *result = guarded([&]() -> PyObject* {
        CastTarget target(rule, gpu);
        for (size_t i = 0; i < count; ++i) each_tensor(args[i], [&](const Tensor& t) { target.see(t); });
        std::vector<PyRef> owned;
        std::vector<PyObject*> cast;
        for (size_t i = 0; i < count; ++i) {
            owned.push_back(cast_argument(args[i], target));
            cast.push_back(owned.back().get());
        }
        NoAutocast off;
        return call(callable, cast.data(), positional, kwnames);
    });
    return true;
}

bool init_autocast(PyObject* module) {
    install_autocast();
    return PyModule_AddFunctions(module, autocast_functions) == 0;
}

}  // namespace mt::py
