// The parameters of a composed function that are bools, ints or floats by its annotations, and what they take: what
// PyTorch's take. Functions of Python would take whatever their bodies can work with.
#pragma once

#include <string_view>
#include <vector>

#include "bindings/py.h"

namespace mt::py {

// "bool", "int", "float" or "Number" as a type.
ArgType kind_named(std::string_view kind);
// Whether an argument may be given for a parameter of that type: a bool, an int, a float or any number.
bool is_of_kind(ArgType type, PyObject* object);
// How PyTorch's errors name types.
const char* type_name(ArgType type);
const char* type_text(PyObject* object);
// Whether it is a number that a compiled function reads at each call (bound_number.cpp).
bool is_bound_number(PyObject* object);

class ParameterKinds {
  public:
    // `described` has (name, place, kind, optional) for each; the place of one that is only given by name is -1, the
    // kind is "bool", "int", "float" or "ints", of which there may be one or several.
    explicit ParameterKinds(PyObject* described);
    bool empty() const { return parameters_.empty(); }
    // What the function gets instead of an argument.
    struct Replaced {
        size_t place;
        PyRef object;
    };
    // Throws PyTorch's TypeError for the first that is of another kind. The function gets Python's ints for NumPy's and
    // for others with `__index__`.
    void check(PyObject* function, PyObject* const* args, size_t count, PyObject* kwnames,
               std::vector<Replaced>& replaced) const;

  private:
    struct Parameter {
        PyRef name;
        int64_t place;
        ArgType type;
        bool optional;
    };
    std::vector<Parameter> parameters_;
};

}  // namespace mt::py
