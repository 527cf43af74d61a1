// What compiled code is loaded by, and what it calls.
#include <memory>
#include <string>
#include <unordered_map>

#include "bindings/py.h"
#include "kernels/cpu/loops/loop_library.h"
#include "runtime/abi.h"
#include "runtime/errors.h"
#include "runtime/object_code.h"

namespace mt::py {

PyObject* py_set_host_call(PyObject*, PyObject* callable);  // host_call.cpp

namespace {

constexpr const char* kObjectCode = "minitensor.ObjectCode";

void free_object_code(PyObject* capsule) {
    delete static_cast<ObjectCode*>(PyCapsule_GetPointer(capsule, kObjectCode));
}

PyObject* py_load_object_code(PyObject*, PyObject* args) {
    const char* symbol;
    PyObject *bytes, *imports;
    if (!PyArg_ParseTuple(args, "SsO!", &bytes, &symbol, &PyDict_Type, &imports)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::unordered_map<std::string, uint64_t> known;
        PyObject *name, *address;
        for (Py_ssize_t at = 0; PyDict_Next(imports, &at, &name, &address);) {
            const char* text = PyUnicode_AsUTF8(name);
            if (!text) fail_python();
            known[text] = to_uint64(address);
        }
        auto code = std::make_unique<ObjectCode>(
            std::string_view(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))), known);
        uint64_t entry = code->address(symbol);
        if (!entry) fail(std::string("object code: it has no ") + symbol);
        PyRef capsule = checked(PyCapsule_New(code.get(), kObjectCode, slot<free_object_code>));
        code.release();
        return Py_BuildValue("KO", static_cast<unsigned long long>(entry), capsule.get());
    });
}

PyObject* py_runtime_address(PyObject*, PyObject*) { return PyLong_FromVoidPtr(const_cast<MtRuntime*>(mt_runtime())); }
PyObject* py_elementwise_loop(PyObject*, PyObject* args) {
    const char *name, *dtype;
    if (!PyArg_ParseTuple(args, "ss", &name, &dtype)) return nullptr;
    const cpu::NamedLoop* named = cpu::find_loop(name);
    if (!named) Py_RETURN_NONE;
    for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i) {
        if (std::string_view(info(static_cast<DType>(i)).hlo_name) != dtype) continue;
        cpu::Loop loop = named->find(static_cast<DType>(i));
        if (!loop.function) break;
        return Py_BuildValue("NIs", PyLong_FromVoidPtr(const_cast<void*>(loop.function)), named->inputs,
                             info(loop.result).hlo_name);
    }
    Py_RETURN_NONE;
}
PyObject* py_has_native_kernel(PyObject*, PyObject* name) {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    const OpDef* op = find_op(text);
    return PyBool_FromLong(op && op->cpu && op->infer && op->kind != Kind::View);
}
PyObject* py_raise_runtime_error(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        rethrow_runtime_error();
        Py_RETURN_NONE;
    });
}

PyMethodDef compiled_code_functions[] = {
    {"load_object_code", method<py_load_object_code>(), METH_VARARGS,
     "The address of a symbol of an object that was loaded, and what keeps the object in memory."},
    {"runtime_address", method<py_runtime_address>(), METH_NOARGS,
     "The address of the table that compiled code calls."},
    {"elementwise_loop", method<py_elementwise_loop>(), METH_VARARGS,
     "elementwise_loop(name, dtype): address, number of inputs and result type of an eager inner loop, or None."},
    {"has_native_kernel", method<py_has_native_kernel>(), METH_O,
     "has_native_kernel(op): whether compiled code can call the kernel of the op with that name."},
    {"set_host_call", method<py_set_host_call>(), METH_O,
     "set_host_call(callable): what computes an instruction for compiled code, from its text and an address."},
    {"raise_runtime_error", method<py_raise_runtime_error>(), METH_NOARGS,
     "Raises what the runtime's table caught, if anything."},
    {}};

}  // namespace

bool init_compiled_code(PyObject* module) { return PyModule_AddFunctions(module, compiled_code_functions) == 0; }

}  // namespace mt::py
