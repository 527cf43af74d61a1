#include "dispatch/numbers.h"

#include <cmath>

#include "dispatch/op.h"
#include "dispatch/out.h"
#include "dispatch/version.h"

namespace mt {

namespace {

// What float's operators give; false where they may raise an error, or give a complex number.
bool compute(Numbers::Kind kind, double a, double b, double* result) {
    switch (kind) {
        case Numbers::Kind::Add: *result = a + b; return true;
        case Numbers::Kind::Sub: *result = a - b; return true;
        case Numbers::Kind::Mul: *result = a * b; return true;
        case Numbers::Kind::Div: *result = a / b; return b != 0.0;
        case Numbers::Kind::Pow: *result = std::pow(a, b); return a > 0.0 && std::isfinite(*result);
        default: return false;
    }
}

}  // namespace

bool float_in(PyObject* dict, PyObject* key, Py_ssize_t part, double* value) {
    PyObject* found = PyDict_GetItemWithError(dict, key);
    if (!found) {
        PyErr_Clear();
        return false;
    }
    if (part >= 0) {
        if (!PyTuple_CheckExact(found) || part >= PyTuple_GET_SIZE(found)) return false;
        found = PyTuple_GET_ITEM(found, part);
    }
    if (!PyFloat_CheckExact(found)) return false;
    *value = PyFloat_AS_DOUBLE(found);
    return true;
}

uint32_t Numbers::item(PyObject* dict, PyObject* key, Py_ssize_t part, double value) {
    numbers_.push_back({Kind::Item, 0, 0, value, PyRef::borrow(dict), PyRef::borrow(key), part, {}});
    return static_cast<uint32_t>(numbers_.size());
}

uint32_t Numbers::count(Tensor& counter, double now) {
    numbers_.push_back({Kind::Count, 0, 0, now, {}, {}, -1, Ref<Tensor>::borrow(&counter)});
    return static_cast<uint32_t>(numbers_.size());
}

uint32_t Numbers::constant(double value) {
    numbers_.push_back({Kind::Constant, 0, 0, value, {}, {}, -1, {}});
    return static_cast<uint32_t>(numbers_.size());
}

uint32_t Numbers::combine(Kind kind, uint32_t a, uint32_t b) {
    double value = 0;
    if (!compute(kind, this->value(a), this->value(b), &value)) return 0;
    numbers_.push_back({kind, a, b, value, {}, {}, -1, {}});
    return static_cast<uint32_t>(numbers_.size());
}

bool Numbers::read(std::vector<double>& values) const {
    values.clear();
    for (const Number& number : numbers_) {
        double value = number.value;
        switch (number.kind) {
            case Kind::Constant: break;
            case Kind::Item:
                if (!float_in(number.dict.get(), number.key.get(), number.part, &value)) return false;
                // Programs branch on it.
                if ((value != 0.0) != (number.value != 0.0)) return false;
                break;
            case Kind::Count:
                if (!counts_steps(*number.counter)) return false;
                value = steps_in(*number.counter);
                break;
            default:
                if (!compute(number.kind, values[number.a - 1], values[number.b - 1], &value)) return false;
        }
        values.push_back(value);
    }
    return true;
}

bool counts_steps(const Tensor& counter) {
    const Storage& storage = *counter.storage;
    return counter.numel == 1 && counter.device().type == DeviceType::CPU && storage.data && !storage.pending &&
           !storage.read_only && !storage.external() && !requires_grad_hook(counter) &&
           (counter.dtype == DType::F32 || counter.dtype == DType::F64 || counter.dtype == DType::I64);
}

double steps_in(const Tensor& counter) {
    const void* at = static_cast<const char*>(counter.storage->data) +
                     static_cast<size_t>(counter.offset) * itemsize(counter.dtype);
    return load_scalar(at, counter.dtype).as_double();
}

void count_steps(Tensor& counter, uint32_t times) {
    if (counter.storage->readers) before_write_hook(counter.storage.get());
    void* at = static_cast<char*>(counter.storage->data) +
               static_cast<size_t>(counter.offset) * itemsize(counter.dtype);
    for (uint32_t i = 0; i < times; ++i)  // in its own dtype, where large counts may stay
        store_scalar(Scalar::of(steps_in(counter) + 1.0), counter.dtype, at);
    version_of(counter) += times;
}

}  // namespace mt
