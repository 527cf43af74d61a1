// Shared by the files of bindings/: the Python object of a tensor, errors, argument parsing.
#pragma once

#include <Python.h>

#include <new>
#include <type_traits>

#include "autograd/tape.h"
#include "core/error.h"
#include "dispatch/call.h"
#include "dispatch/python/python.h"
#include "dispatch/python/tensor_object.h"

namespace mt::py {

// A static type to fill in.
inline PyTypeObject blank_type() {
    PyTypeObject type{};
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);
    return type;
}
// Static, but programs may change it, and then CPython also writes to what classes made in Python have.
extern PyHeapTypeObject tensor_type_memory;
inline constexpr PyTypeObject& TensorType = tensor_type_memory.ht_type;
extern PyTypeObject DTypeType;
extern PyTypeObject DeviceType_;
extern PyTypeObject SizeType;
extern PyTypeObject OpType;
extern PyTypeObject GradNodeType;

inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == &TensorType || PyType_IsSubtype(Py_TYPE(o), &TensorType); }
inline Tensor* tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }

PyObject* wrap(Ref<Tensor> tensor);                              // None for null
// What was made otherwise than by a call of an op.
Ref<Tensor> made_now(Ref<Tensor> tensor);
PyObject* wrap_as(PyTypeObject* type, Ref<Tensor> tensor);       // a new object of a subclass

// Sets the Python exception that `error` stands for.
void set_error(const Error& error);
// A text with what it names of this package as the shown package's.
std::string as_shown(std::string text);

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

// What CPython may call. Tables of methods, slots of types and other callbacks are filled with `slot<function>` and
// `method<function>()` only, so that no C++ exception leaves by them.
void report_unraisable();
template <auto Function>
struct Slot;
template <class Result, class... Arguments, Result (*Function)(Arguments...)>
struct Slot<Function> {
    static Result call(Arguments... arguments) {
        if constexpr (std::is_void_v<Result>) {
            if (!guarded([&] { return Function(arguments...), true; })) report_unraisable();
        } else if constexpr (std::is_pointer_v<Result>) {
            return guarded([&]() -> Result { return Function(arguments...); });
        } else {
            return guarded([&]() -> Result { return Function(arguments...); }, Result(-1));
        }
    }
};
template <auto Function>
constexpr auto slot = &Slot<Function>::call;
template <auto Function>
PyCFunction method() {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(slot<Function>));
}

// Throws if a Python exception is pending.
inline void check_python() {
    if (PyErr_Occurred()) fail_python();
}
inline PyRef checked(PyObject* owned) {
    if (!owned) fail_python();
    return PyRef(owned);
}

// Numbers from Python: nothing else calls CPython's conversions, whose -1 may be an error and may be a number.
inline int64_t to_int64(PyObject* number) {
    int64_t value = PyLong_AsLongLong(number);
    if (value == -1) check_python();
    return value;
}
inline uint64_t to_uint64(PyObject* number) {
    uint64_t value = PyLong_AsUnsignedLongLong(number);
    if (value == UINT64_MAX) check_python();
    return value;
}
// False: an int too large for 64 bits.
inline bool to_int64(PyObject* number, int64_t* value) {
    int overflow = 0;
    *value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (*value == -1 && !overflow) check_python();
    return !overflow;
}
// The lowest 64 bits.
inline uint64_t to_bits(PyObject* number) {
    uint64_t value = PyLong_AsUnsignedLongLongMask(number);
    if (value == UINT64_MAX) check_python();
    return value;
}
// False: it has no length that can be told.
inline bool length_of(PyObject* object, int64_t* length) {
    *length = PyObject_Size(object);
    if (*length < 0) PyErr_Clear();
    return *length >= 0;
}
inline bool to_bool(PyObject* object) {
    int truth = PyObject_IsTrue(object);
    if (truth < 0) fail_python();
    return truth != 0;
}
inline Py_complex to_complex(PyObject* number) {
    Py_complex value = PyComplex_AsCComplex(number);
    if (value.real == -1.0) check_python();
    return value;
}
inline double to_double(PyObject* number) {
    double value = PyFloat_AsDouble(number);
    if (value == -1.0) check_python();
    return value;
}

PyObject* dtype_object(DType dtype);     // new reference
DType dtype_from(PyObject* object);      // TypeError otherwise; accepts Python's float, int, bool
bool is_dtype(PyObject* object);
PyObject* device_object(Device device);
Device device_from(PyObject* object);    // a device or its name
// By value: the garbage collector may run before they are read, and give a tensor other sizes.
PyObject* size_object(Dims dims);
PyObject* value_to_python(const Value& value);
PyObject* dims_to_tuple(Dims dims);
Dims dims_from(PyObject* object, const char* what);
// True and `out` set if `object` is a Python or NumPy number.
bool scalar_from(PyObject* object, Scalar* out);
// The same for an operand, which may be a number that is read at each call (bound_number.cpp).
bool operand_number(PyObject* object, Scalar* out);

// A parameter from what Python gave for it; throws PyTorch's TypeError. `position` as counted by people, 0 if by name.
void set_value(const OpDef& op, const ArgSpec& spec, PyObject* object, Value* value, size_t position);

// The operands and parameters of one call, owned for its duration.
class Arguments {
  public:
    // `takes_out`: an `out=` that is no parameter of the op is kept apart.
    Arguments(const OpDef& op, Ambient ambient, bool takes_out) : call(ambient), op_(op), takes_out_(takes_out) {}
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
// Has these types say that they are of the package that is shown.
void show_places_of_result_types();
// What the schema says after "->" as such a type; null if that is nothing.
PyObject* result_type_of(const OpDef& op);
// What a row or a composed function says of `out`, by name.
OutRule out_rule_from(std::string_view name);
// Runs the call with its results in `out`, and returns that.
PyObject* call_out(Arguments& arguments);
PyObject* make_op_object(const OpDef& op, bool inplace);
// Pickles an op or a composed function by the name under which users find it.
PyObject* reduce_by_name(PyObject* function, PyObject*);

// Raised as minitensor.OutOfMemoryError.
extern PyObject* OutOfMemoryError;

bool init_errors(PyObject* module);
bool init_dtypes(PyObject* module);
bool init_devices(PyObject* module);
bool init_sizes(PyObject* module);
bool init_tensor(PyObject* module);
bool init_ops(PyObject* module);
bool init_convert(PyObject* module);
bool init_buffer(PyObject* module);
bool init_dlpack(PyObject* module);
bool init_autograd(PyObject* module);
bool init_grad_node(PyObject* module);
bool init_grad_mode(PyObject* module);
bool init_context(PyObject* module);
bool init_autocast(PyObject* module);
bool init_custom_function(PyObject* module);
bool init_vmap(PyObject* module);
bool init_foreach(PyObject* module);
bool init_whole_step(PyObject* module);
bool init_functions(PyObject* module);
bool init_results(PyObject* module);
bool init_geometry(PyObject* module);
bool init_cuda(PyObject* module);
bool init_trace(PyObject* module);
bool init_scope(PyObject* module);
bool init_options_scope(PyObject* module);
bool init_compile_callback(PyObject* module);
bool init_compiled_code(PyObject* module);
bool init_host_call(PyObject* module);
bool init_profile(PyObject* module);
bool init_process_state(PyObject* module);
bool init_file_stamps(PyObject* module);
bool init_function(PyObject* module);
bool init_recorded_call(PyObject* module);
bool init_structure(PyObject* module);
bool init_generator(PyObject* module);
bool init_extend(PyObject* module);
bool init_sparse(PyObject* module);
bool init_watched_calls(PyObject* module);
bool init_out_form(PyObject* module);
bool init_shortcut(PyObject* module);
bool init_composed(PyObject* module);
bool init_observer(PyObject* module);
bool init_guards(PyObject* module);
bool init_bound_number(PyObject* module);
bool init_overrides(PyObject* module);
OpDef& op_of(PyObject* callable);  // TypeError if it isn't an op
bool is_op(PyObject* object);      // and no in-place form of one
bool is_inplace_op(PyObject* object);

// number_slots.cpp
void fill_arithmetic(PyNumberMethods& methods);
PyObject* tensor_richcompare(PyObject* a, PyObject* b, int operation);
// structure.cpp: whether the arguments of a call, (args, kwargs) as a value, have a structure; the tensors in them
bool match_call(PyObject* structure, PyObject* const* args, size_t nargs, PyObject* kwnames,
                std::vector<PyRef>& tensors);
// The value of a structure with these tensors; throws TypeError if there are too few or too many
PyObject* build_structure(PyObject* structure, const PyRef* tensors, size_t count);

// convert.cpp
PyObject* tensor_item(Tensor& tensor);
PyObject* tensor_tolist(Tensor& tensor);
PyObject* element_to_python(const void* data, DType dtype);
int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags);
void tensor_releasebuffer(PyObject* self, Py_buffer* view);
PyObject* tensor_dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);
extern PyGetSetDef tensor_getset[];
// A class made in Python gets the deallocation of tensors before it has objects.
void prepare_class(PyTypeObject* type);
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
