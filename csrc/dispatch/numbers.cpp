#include "dispatch/numbers.h"

#include <cmath>

#include "dispatch/memory/version.h"
#include "dispatch/op.h"
#include "dispatch/out.h"

namespace mt {

namespace {

// What float's operators give; false where they may raise an error, or give a complex number.
bool compute(Numbers::Kind kind, double a, double b, double* result) {
    switch (kind) {
        case Numbers::Kind::Add: *result = a + b; return true;
        case Numbers::Kind::Sub: *result = a - b; return true;
        case Numbers::Kind::Mul: *result = a * b; return true;
        case Numbers::Kind::Div: *result = a / b; return b != 0.0;
        case Numbers::Kind::Pow:
            *result = std::pow(a, b);
            return (a > 0.0 || (a == 0.0 && b >= 0.0)) && std::isfinite(*result);
        // As Python's min(a, b) and max(a, b).
        case Numbers::Kind::Min: *result = b < a ? b : a; return true;
        case Numbers::Kind::Max: *result = b > a ? b : a; return true;
        case Numbers::Kind::Exceeds: *result = a > b; return true;
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
        // Of what is no float nothing is read anew, and a tuple is guarded as a whole or not at all.
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found); ++i)
            if (!PyFloat_CheckExact(PyTuple_GET_ITEM(found, i))) return false;
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

uint32_t Numbers::kept(Tensor& keeper, double now) {
    numbers_.push_back({Kind::Kept, 0, 0, now, {}, {}, -1, Ref<Tensor>::borrow(&keeper)});
    return static_cast<uint32_t>(numbers_.size());
}

uint32_t Numbers::rounded(uint32_t place, DType dtype) {
    const double value = round_to(this->value(place), dtype);
    numbers_.push_back({Kind::Rounded, place, static_cast<uint32_t>(dtype), value, {}, {}, -1, {}});
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
            case Kind::Kept:
                if (!keeps_number(*number.keeper)) return false;
                value = number_in(*number.keeper);
                break;
            case Kind::Rounded: value = round_to(values[number.a - 1], static_cast<DType>(number.b)); break;
            default:
                if (!compute(number.kind, values[number.a - 1], values[number.b - 1], &value)) return false;
                if (number.kind == Kind::Exceeds && value != number.value) return false;
        }
        values.push_back(value);
    }
    return true;
}

bool keeps_number(const Tensor& keeper) {
    const Storage& storage = *keeper.storage;
    return keeper.numel == 1 && keeper.device().type == DeviceType::CPU && storage.data && !storage.pending &&
           !storage.read_only && !storage.external() && !requires_grad_callback(keeper) &&
           (is_floating(keeper.dtype) || keeper.dtype == DType::I64);
}

double number_in(const Tensor& keeper) {
    const void* at = static_cast<const char*>(keeper.storage->data) +
                     static_cast<size_t>(keeper.offset) * itemsize(keeper.dtype);
    return load_scalar(at, keeper.dtype).as_double();
}

double round_to(double value, DType dtype) {
    alignas(16) char memory[16];
    store_scalar(Scalar::of(value), dtype, memory);
    return load_scalar(memory, dtype).as_double();
}

void keep_number(Tensor& keeper, double value, uint32_t times) {
    if (keeper.storage->readers) before_write_callback(keeper.storage.get());
    void* at = static_cast<char*>(keeper.storage->data) + static_cast<size_t>(keeper.offset) * itemsize(keeper.dtype);
    store_scalar(Scalar::of(value), keeper.dtype, at);
    version_of(keeper) += times;
}

}  // namespace mt
