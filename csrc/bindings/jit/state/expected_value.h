// Values as they were when a guard was made: objects by identity, and what never changes by what it is.
#pragma once

#include "bindings/py.h"

namespace mt::py {

// An object by identity. It is let die where it can be seen to.
class Known {
  public:
    Known() = default;
    explicit Known(PyObject* object, bool strong) {
        if (!strong && PyType_SUPPORTS_WEAKREFS(Py_TYPE(object)) && !PyType_Check(object)) {
            weak_ = PyWeakref_NewRef(object, nullptr);
            if (!weak_) PyErr_Clear();
        }
        if (!weak_) strong_ = Py_NewRef(object);
    }
    Known(Known&& other) noexcept
        : strong_(std::exchange(other.strong_, nullptr)), weak_(std::exchange(other.weak_, nullptr)) {}
    Known& operator=(Known&& other) noexcept {
        std::swap(strong_, other.strong_);
        std::swap(weak_, other.weak_);
        return *this;
    }
    ~Known() {
        Py_XDECREF(strong_);
        Py_XDECREF(weak_);
    }
    PyObject* get() const {  // borrowed; null if it is dead
        if (strong_) return strong_;
        PyObject* object = weak_ ? PyWeakref_GET_OBJECT(weak_) : nullptr;
        return object == Py_None ? nullptr : object;
    }
    bool dead() const { return !get(); }
    int visit(visitproc visit, void* arg) const {
        Py_VISIT(strong_);
        Py_VISIT(weak_);
        return 0;
    }

  private:
    PyObject *strong_ = nullptr, *weak_ = nullptr;
};

// Whether a value of such a type is known by what it is, and not by which object it is.
bool is_plain(PyObject* object);
// Whether two values that never change are the same, by type and bits.
bool same_value(PyObject* then, PyObject* now);

// Values of this class, one of dicts, stand for objects that are known by what they have.
void set_snapshot_type(PyObject* type);
bool is_snapshot(PyObject* object);

// threading.local, and "__dict__".
extern PyObject *local_type, *dict_name;

// The dict of an object's attributes, borrowed; null if it has none. Of a threading.local it is this thread's, who
// keeps it.
inline PyObject* attributes_of(PyObject* object) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) == local_type) {
        PyRef found(PyObject_GetAttr(object, dict_name));
        if (!found) PyErr_Clear();
        return found.get();
    }
    PyObject** place = _PyObject_GetDictPtr(object);
    return place ? *place : nullptr;
}

// A value of a guard.
class Expected {
  public:
    explicit Expected(PyObject* value) : plain_(is_plain(value)), known_(value, plain_) {}
    bool is(PyObject* now) const {
        PyObject* then = known_.get();
        return then == now ? then != nullptr : then && now && plain_ && same_value(then, now);
    }
    PyObject* get() const { return known_.get(); }
    bool dead() const { return known_.dead(); }
    int visit(visitproc visit, void* arg) const { return known_.visit(visit, arg); }

  private:
    bool plain_;
    Known known_;
};

// Looks up what is asked for often.
bool init_expected_values();

}  // namespace mt::py
