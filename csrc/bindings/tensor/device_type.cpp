// The Python type of devices, and the default one.
#include <cctype>
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/py.h"
#include "bindings/tensor/type_objects.h"
#include "core/memory/device_runtime.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

struct DeviceObject {
    PyObject_HEAD Device device;
};

constexpr const char* kDeviceNames[] = {"cpu", "cuda", "meta", "jit_cpu", "jit_gpu"};

Device device_of(PyObject* self) { return reinterpret_cast<DeviceObject*>(self)->device; }

std::string device_string(Device device) {
    std::string text = kDeviceNames[static_cast<size_t>(device.type)];
    if (device.index >= 0) text.append(":").append(std::to_string(device.index));
    return text;
}

// TensorFlow's names, such as "/job:localhost/replica:0/task:0/device:JIT_CPU:0" and "/device:CPU:0", in this
// framework's form.
std::string plain_device_name(const char* text) {
    std::string name = text;
    bool upper = name.starts_with("JIT_CPU") || name.starts_with("JIT_GPU");
    if (name.starts_with("/")) {
        size_t at = name.find("/device:");
        if (at == std::string::npos) return name;
        const std::string before = name.substr(0, at);
        if (!before.empty() && before != "/job:localhost/replica:0/task:0")
            fail("Invalid device string: '" + name + "': there is only /job:localhost/replica:0/task:0");
        name = name.substr(at + 8);
        upper = true;
        if (name.starts_with("GPU")) name.replace(0, 3, "cuda");
    }
    if (upper)
        for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
}

Device parse_device(const char* given) {
    const std::string name = plain_device_name(given);
    const char* text = name.c_str();
    const char* colon = std::strchr(text, ':');
    size_t length = colon ? static_cast<size_t>(colon - text) : std::strlen(text);
    Device device;
    bool known = false, in_range = true;
    for (size_t i = 0; i < std::size(kDeviceNames); ++i)
        if (std::strlen(kDeviceNames[i]) == length && std::strncmp(kDeviceNames[i], text, length) == 0) {
            device.type = static_cast<DeviceType>(i);
            known = true;
        }
    if (colon) {
        const size_t digits = std::strspn(colon + 1, "0123456789");
        const long index = std::strtol(colon + 1, nullptr, 10);
        in_range = digits > 0 && !colon[1 + digits] && (digits == 1 || colon[1] != '0') && index <= 127;
        device.index = static_cast<int8_t>(index);
    }
    if (length && !known)
        fail("Expected one of cpu, cuda, meta, jit_cpu, jit_gpu device type at start of device string: " +
             std::string(text, length));
    if (!known || !in_range) fail(std::string("Invalid device string: '") + given + "'");
    return device;
}

PyObject* device_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return guarded([&]() -> PyObject* {
        PyObject* name = nullptr;
        constexpr int kNone = INT_MIN;
        int index = kNone;
        static const char* keywords[] = {"type", "index", nullptr};
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:device", const_cast<char**>(keywords), &name, &index))
            return nullptr;
        Device device = device_from(name);
        if (index != kNone) {
            if (PyUnicode_Check(name) && device.index >= 0)
                fail("type (string) must not include an index because index was passed explicitly: " +
                     device_string(device));
            if (index < 0) fail("Device index must not be negative");
            if (index > 127) fail("Invalid device index: " + std::to_string(index));
            device.index = static_cast<int8_t>(index);
        }
        PyRef self = checked(type->tp_alloc(type, 0));
        reinterpret_cast<DeviceObject*>(self.get())->device = device;
        return self.release();
    });
}

PyObject* device_repr(PyObject* self) {
    Device device = device_of(self);
    if (device.index >= 0)
        return PyUnicode_FromFormat("device(type='%s', index=%d)", kDeviceNames[static_cast<size_t>(device.type)],
                                    device.index);
    return PyUnicode_FromFormat("device(type='%s')", kDeviceNames[static_cast<size_t>(device.type)]);
}
PyObject* device_str(PyObject* self) { return PyUnicode_FromString(device_string(device_of(self)).c_str()); }
PyObject* device_type(PyObject* self, void*) {
    return PyUnicode_FromString(kDeviceNames[static_cast<size_t>(device_of(self).type)]);
}
PyObject* device_index(PyObject* self, void*) {
    int index = device_of(self).index;
    return index < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(index);
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
    if (!PyObject_TypeCheck(b, &DeviceType_) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((device_of(a) == device_of(b)) == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* self) {
    return static_cast<Py_hash_t>(device_of(self).type) * 257 + device_of(self).index + 2;
}
PyObject* device_reduce(PyObject* self, PyObject*) {
    return Py_BuildValue("O(s)", &DeviceType_, device_string(device_of(self)).c_str());
}

// `with device:` makes it the default one of this thread. One object may be entered twice.
thread_local std::vector<Device> t_entered;

PyObject* device_enter(PyObject* self, PyObject*) {
    t_entered.push_back(default_device());
    thread_settings.default_device = device_of(self);
    return Py_NewRef(self);
}
PyObject* device_exit(PyObject*, PyObject*) {
    if (t_entered.empty()) {
        PyErr_SetString(PyExc_RuntimeError, "no device was entered");
        return nullptr;
    }
    thread_settings.default_device = t_entered.back();
    t_entered.pop_back();
    Py_RETURN_NONE;
}

PyMethodDef device_methods[] = {
    {"__reduce__", method<device_reduce>(), METH_NOARGS, "Pickled by name."},
    {"__enter__", method<device_enter>(), METH_NOARGS, "Tensors are made on this device from here on."},
    {"__exit__", method<device_exit>(), METH_VARARGS, "The default device is again what it was before."},
    {}};
PyGetSetDef device_getset[] = {
    {"type", slot<device_type>, nullptr, "'cpu', 'cuda', 'meta', 'jit_cpu' or 'jit_gpu'.", nullptr},
    {"index", slot<device_index>, nullptr, "The device's number, or None.", nullptr},
    {}};

}  // namespace

PyTypeObject DeviceType_ = named_type("minitensor.device", "device(type, index=None)\n--\n\nWhere a tensor lives.",
                                      sizeof(DeviceObject));

PyObject* device_object(Device device) {
    PyObject* self = DeviceType_.tp_alloc(&DeviceType_, 0);
    if (self) reinterpret_cast<DeviceObject*>(self)->device = device;
    return self;
}

Device device_from(PyObject* object) {
    if (Py_TYPE(object) == &DeviceType_) return device_of(object);
    if (PyLong_Check(object) && !PyBool_Check(object)) {  // a GPU's number
        int64_t index = to_int64(object);
        if (index < 0 || index > 127) fail("Device index must be from 0 to 127, got " + std::to_string(index));
        Device device = parse_device("cuda");
        try {
            existing_device(device);
        } catch (const Error&) {
            PyErr_Clear();
            fail("Cannot access accelerator device when none is available.");
        }
        device.index = static_cast<int8_t>(index);
        return device;
    }
    if (!PyUnicode_Check(object))
        fail_type(std::string("device must be a minitensor.device or its name, got ") + Py_TYPE(object)->tp_name);
    const char* text = PyUnicode_AsUTF8(object);
    if (!text) fail_python();
    return parse_device(text);
}

namespace {

PyObject* py_default_device(PyObject*, PyObject*) { return device_object(default_device()); }
PyObject* py_set_default_device(PyObject*, PyObject* device) {
    return guarded([&]() -> PyObject* {
        thread_settings.default_device = device == Py_None ? Device{} : device_from(device);
        Py_RETURN_NONE;
    });
}

PyMethodDef device_functions[] = {
    {"get_default_device", method<py_default_device>(), METH_NOARGS,
     "get_default_device()\n--\n\nThe device on which this thread makes tensors that name none."},
    {"set_default_device", method<py_set_default_device>(), METH_O,
     "set_default_device(device, /)\n--\n\nSets the device on which this thread makes tensors that name none."},
    {}};

}  // namespace

bool init_devices(PyObject* module) {
    if (PyModule_AddFunctions(module, device_functions) < 0) return false;
    DeviceType_.tp_new = slot<device_new>;
    DeviceType_.tp_repr = slot<device_repr>;
    DeviceType_.tp_str = slot<device_str>;
    DeviceType_.tp_richcompare = slot<device_compare>;
    DeviceType_.tp_hash = slot<device_hash>;
    DeviceType_.tp_methods = device_methods;
    DeviceType_.tp_getset = device_getset;
    return PyType_Ready(&DeviceType_) == 0 && PyModule_AddType(module, &DeviceType_) == 0;
}

}  // namespace mt::py
