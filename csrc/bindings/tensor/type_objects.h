// What the types of dtypes, devices and sizes share.
#pragma once

#include <string>

#include "bindings/py.h"

namespace mt::py {

// Whose name tensors' types, dtypes, devices, sizes, layouts, memory formats and named results are shown with:
// PyTorch's, where a program imported this package under it.
extern std::string shown_package;

// A type of objects of so many bytes, to fill in.
inline PyTypeObject named_type(const char* name, const char* doc, Py_ssize_t size) {
    PyTypeObject type = blank_type();
    type.tp_name = name;
    type.tp_doc = doc;
    type.tp_basicsize = size;
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    return type;
}

}  // namespace mt::py
