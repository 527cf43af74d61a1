// Numbers that a function reads anew at each call: items of an optimizer's groups, numbers that it keeps in tensors,
// such as counts of steps, and what is computed of these.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "dispatch/python/python.h"

namespace mt {

// Each is computed from earlier ones, as Python computes with floats. Places count from 1.
class Numbers {
  public:
    enum class Kind : uint8_t { Constant, Item, Kept, Rounded, Add, Sub, Mul, Div, Pow, Min, Max, Exceeds };

    struct Number {
        Kind kind;
        uint32_t a = 0, b = 0;     // places; of a rounded number, b is its dtype
        double value = 0;          // as it was when it was noted
        PyRef dict{}, key{};       // Item
        Py_ssize_t part = -1;      // of a tuple that the item is; -1: the item
        Ref<Tensor> keeper{};      // Kept
    };

    // The place of an item, which is a float now.
    uint32_t item(PyObject* dict, PyObject* key, Py_ssize_t part, double value);
    // The place of the number in a tensor of one element, which is `now`.
    uint32_t kept(Tensor& keeper, double now);
    // As a tensor of that dtype keeps it.
    uint32_t rounded(uint32_t place, DType dtype);
    uint32_t constant(double value);
    // 0 if float's operator raises an error there, or gives something else than a float. What `Exceeds` gives, 0 or 1,
    // the program was made for.
    uint32_t combine(Kind kind, uint32_t a, uint32_t b);
    double value(uint32_t place) const { return numbers_[place - 1].value; }

    bool empty() const { return numbers_.empty(); }
    const std::vector<Number>& all() const { return numbers_; }
    // The values at this moment. False if something is no float any more, is zero and was not, or the reverse, exceeds
    // what it did not, or the reverse, or can't be computed.
    bool read(std::vector<double>& values) const;

  private:
    std::vector<Number> numbers_;
};

// A float among the items of a dict; false if it is none (any more).
bool float_in(PyObject* dict, PyObject* key, Py_ssize_t part, double* value);
// Whether a number can be kept there without anybody else: in the CPU's memory.
bool keeps_number(const Tensor& keeper);
double number_in(const Tensor& keeper);
double round_to(double value, DType dtype);
// As that many in-place ops would: other recordings read what it was.
void keep_number(Tensor& keeper, double value, uint32_t times);

}  // namespace mt
