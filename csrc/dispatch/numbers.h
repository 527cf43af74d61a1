// Numbers that a function reads anew at each call: items of an optimizer's groups, counts of steps, and what is
// computed of these.
#pragma once

#include <vector>

#include "core/tensor.h"
#include "dispatch/python.h"

namespace mt {

// Each is computed from earlier ones, as Python computes with floats. Places count from 1.
class Numbers {
  public:
    enum class Kind : uint8_t { Constant, Item, Count, Add, Sub, Mul, Div, Pow };

    struct Number {
        Kind kind;
        uint32_t a = 0, b = 0;     // places
        double value = 0;          // as it was when it was noted
        PyRef dict{}, key{};       // Item
        Py_ssize_t part = -1;      // of a tuple that the item is; -1: the item
        Ref<Tensor> counter{};     // Count
    };

    // The place of an item, which is a float now.
    uint32_t item(PyObject* dict, PyObject* key, Py_ssize_t part, double value);
    // The place of the number of steps in a tensor of one element, that many counts after it was `now`.
    uint32_t count(Tensor& counter, double now);
    uint32_t constant(double value);
    // 0 if float's operator raises an error there, or gives something else than a float.
    uint32_t combine(Kind kind, uint32_t a, uint32_t b);
    double value(uint32_t place) const { return numbers_[place - 1].value; }

    bool empty() const { return numbers_.empty(); }
    const std::vector<Number>& all() const { return numbers_; }
    // The values at this moment. False if something is no float any more, is zero and was not, or the reverse, or can't
    // be computed.
    bool read(std::vector<double>& values) const;

  private:
    std::vector<Number> numbers_;
};

// A float among the items of a dict; false if it is none (any more).
bool float_in(PyObject* dict, PyObject* key, Py_ssize_t part, double* value);
// Whether steps can be counted there without anybody else: a number in the CPU's memory.
bool counts_steps(const Tensor& counter);
double steps_in(const Tensor& counter);
// As an in-place op would: other recordings read what it was.
void count_steps(Tensor& counter, uint32_t times);

}  // namespace mt
