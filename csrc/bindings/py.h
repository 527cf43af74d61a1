// Shared by the files of bindings/: the Python object of a tensor, errors, argument parsing.
#pragma once

#include <Python.h>

#include <new>

#include "autograd/tape.h"
#include "core/error.h"
#include "dispatch/call.h"
#include "dispatch/python.h"

namespace mt::py {

struct TensorObject {
    PyObject_HEAD Tensor* tensor;  // owned
    PyObject* dict;
    PyObject* weakrefs;
};

// A static type to fill in, and a method of any calling convention as the table wants it.
inline PyTypeObject blank_type() {
    PyTypeObject type{};
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);
    return type;
}
template <class F>
PyCFunction method(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

extern PyTypeObject TensorType;
extern PyTypeObject DTypeType;
extern PyTypeObject DeviceType_;
extern PyTypeObject SizeType;
extern PyTypeObject OpType;
extern PyTypeObject GradNodeType;

inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == &TensorType || PyType_IsSubtype(Py_TYPE(o), &TensorType); }
inline Tensor* tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }

PyObject* wrap(Ref<Tensor> tensor);                              // None for null
PyObject* wrap_as(PyTypeObject* type, Ref<Tensor> tensor);       // a new object of a subclass

// Sets the Python exception that `error` stands for.
void set_error(const Error& error);

// Runs body; C++ errors become Python exceptions and `failure` is returned.
template <class F>
auto guarded(F&& body, decltype(body()) failure = {}) -> decltype(body()) {
    try {
        return body();
    } catch (const Error& error) { set_error(error); } catch (const std::bad_alloc&) {
        set_error(Error(ErrorKind::OutOfMemory, "cannot allocate memory for a computation"));
    } catch (const std::exception& error) { PyErr_SetString(PyExc_RuntimeError, error.what()); }
    return failure;
}

// Throws if a Python exception is pending.
inline void check_python() {
    if (PyErr_Occurred()) fail_python();
}
inline PyRef checked(PyObject* owned) {
    if (!owned) fail_python();
    return PyRef(owned);
}

PyObject* dtype_object(DType dtype);     // new reference
DType dtype_from(PyObject* object);      // TypeError otherwise; accepts Python's float, int, bool
bool is_dtype(PyObject* object);
PyObject* device_object(Device device);
Device device_from(PyObject* object);    // a device or its name
PyObject* size_object(const Dims& dims);
PyObject* value_to_python(const Value& value);
PyObject* dims_to_tuple(const Dims& dims);
Dims dims_from(PyObject* object, const char* what);
// True and `out` set if `object` is a Python or NumPy number.
bool scalar_from(PyObject* object, Scalar* out);

// A parameter from what Python gave for it; throws PyTorch's TypeError. `position` as counted by people, 0 if by name.
void set_value(const OpDef& op, const ArgSpec& spec, PyObject* object, Value* value, size_t position);

// The operands and parameters of one call, owned for its duration.
class Arguments {
  public:
    // `takes_out`: an `out=` that is no parameter of the op is kept apart.
    explicit Arguments(const OpDef& op, bool takes_out = false) : op_(op), takes_out_(takes_out) {}
    ~Arguments() {
        for (size_t i = 0; i < call.param_count; ++i) params()[i].~Value();
    }
    Arguments(const Arguments&) = delete;
    // Throws PyTorch's TypeError when they don't fit.
    void parse(PyObject* const* args, size_t nargs, PyObject* kwnames);
    Call call;
    PyObject* out = nullptr;  // borrowed; null: not given

  private:
    Value* params() { return std::launder(reinterpret_cast<Value*>(storage_)); }
    void bind_keywords(PyObject* const* values, PyObject* names, PyObject** bound);
    void add_list(const ArgSpec& spec, PyObject* object, size_t position);

    const OpDef& op_;
    bool takes_out_;
    PyRef list_;  // of tensors: the caller's own list may change while the op runs
    SmallVector<Operand, 4> operands_;
    alignas(Value) unsigned char storage_[sizeof(Value) * kMaxCallParams];
};

PyObject* wrap_grad_node(Ref<GradNode> node);
bool is_node(PyObject* object);
GradNode& node_of(PyObject* node);
PyObject* results_to_python(const Call& call, Ref<Tensor>* results);
// The type of a tuple of named results, shown as PyTorch shows it; one for each name and fields.
PyObject* result_type_named(const std::string& name, const std::vector<std::string>& fields);
// What the schema says after "->" as such a type; null if that is nothing.
PyObject* result_type_of(const OpDef& op);
// Runs the call with its results in `out`, and returns that.
PyObject* call_out(Arguments& arguments);
PyObject* make_op_object(const OpDef& op, bool inplace);

// Raised as minitensor.OutOfMemoryError.
extern PyObject* OutOfMemoryError;

bool init_dtypes(PyObject* module);
bool init_tensor(PyObject* module);
bool init_ops(PyObject* module);
bool init_convert(PyObject* module);
bool init_buffer(PyObject* module);
bool init_dlpack(PyObject* module);
bool init_autograd(PyObject* module);
bool init_grad_node(PyObject* module);
bool init_grad_mode(PyObject* module);
bool init_vmap(PyObject* module);
bool init_foreach(PyObject* module);
bool init_functions(PyObject* module);
bool init_results(PyObject* module);
bool init_geometry(PyObject* module);
bool init_device_memory(PyObject* module);
bool init_trace(PyObject* module);
bool init_scope(PyObject* module);
bool init_options_scope(PyObject* module);
bool init_compile_hook(PyObject* module);
bool init_compiled_code(PyObject* module);
bool init_profile(PyObject* module);
bool init_process_state(PyObject* module);
bool init_file_stamps(PyObject* module);
bool init_function(PyObject* module);
bool init_structure(PyObject* module);
bool init_generator(PyObject* module);
bool init_extend(PyObject* module);
bool init_out_form(PyObject* module);
bool init_shortcut(PyObject* module);
bool init_composed(PyObject* module);
OpDef& op_of(PyObject* callable);  // TypeError if it isn't an op
bool is_op(PyObject* object);      // and no in-place form of one

// number_slots.cpp
void fill_arithmetic(PyNumberMethods& methods);
PyObject* tensor_richcompare(PyObject* a, PyObject* b, int operation);
// structure.cpp: whether the arguments of a call, (args, kwargs) as a value, have a structure; the tensors in them
bool match_call(PyObject* structure, PyObject* const* args, size_t nargs, PyObject* kwnames,
                std::vector<PyRef>& tensors);
// The value of a structure with these tensors; throws TypeError if there are too few or too many
PyObject* build_structure(PyObject* structure, const PyRef* tensors, size_t count);
// function_type.cpp: what compiled functions captured may not be what it was
void note_module_change();

// convert.cpp
PyObject* tensor_item(Tensor& tensor);
PyObject* tensor_tolist(Tensor& tensor);
PyObject* element_to_python(const void* data, DType dtype);
int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags);
void tensor_releasebuffer(PyObject* self, Py_buffer* view);
PyObject* tensor_dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
// indexing.cpp
PyObject* tensor_getitem(PyObject* self, PyObject* key);
int tensor_setitem(PyObject* self, PyObject* key, PyObject* value);

// Names the observation that may flush a recording, for its account.
class Observing {
  public:
    explicit Observing(const char* what);
    ~Observing();

  private:
    const char* previous_;
};

}  // namespace mt::py
