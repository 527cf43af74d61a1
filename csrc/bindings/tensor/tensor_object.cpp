// The object of a tensor: how it is made, kept while C++ holds the tensor, visited by the garbage collector, and freed.
#include <Python.h>
#include <structmember.h>

#include <cstddef>

#include "autograd/tape.h"
#include "bindings/py.h"
#include "bindings/tensor/tensor_slots.h"
#include "core/kept_object.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

constexpr size_t kFreelist = 256;
PyObject* g_free[kFreelist];
size_t g_free_count = 0;

PyObject* allocate_object(PyTypeObject* type) {
    if (type == &TensorType && g_free_count) {
        PyObject* object = g_free[--g_free_count];
        Py_SET_TYPE(object, type);
        _Py_NewReference(object);
        return object;
    }
    if (type == &TensorType) return reinterpret_cast<PyObject*>(PyObject_GC_New(TensorObject, type));
    prepare_class(type);
    return type->tp_alloc(type, 0);
}

// A tensor that C++ still holds takes its object over, if that can be told from a new one.
bool keep(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    Tensor* tensor = object->tensor;
    if (!tensor || tensor->pyobject != self) return false;
    if (Py_TYPE(self) == &TensorType && !object->dict && !object->weakrefs) return false;
    if (tensor->refcount == 1) {
        if (!tensor->autograd || !keep_leaf_callback(*tensor)) return false;
        ++tensor->refcount;
    }
    Py_SET_REFCNT(self, 1);
    object->kept = true;
    --tensor->refcount;
    return true;
}

// The object of a tensor whose only owner is another tensor that only its own object owns.
PyObject* own_gradient(Tensor* tensor) {
    if (!tensor || tensor->refcount != 1 || !tensor->autograd || !tensor->autograd->grad) return nullptr;
    Tensor& gradient = *tensor->autograd->grad;
    return gradient.refcount == 1 ? gradient.pyobject : nullptr;
}

void destroy_object(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    PyObject_GC_UnTrack(self);
    // First: code that runs from here on may meet the tensor elsewhere, and must not be given this object.
    if (object->tensor && object->tensor->pyobject == self) object->tensor->pyobject = nullptr;
    if (object->weakrefs) PyObject_ClearWeakRefs(self);
    Py_CLEAR(object->dict);
    Ref<Tensor> dying(std::exchange(object->tensor, nullptr));
    dying.reset();
    if (Py_TYPE(self) == &TensorType && g_free_count < kFreelist) g_free[g_free_count++] = self;
    else Py_TYPE(self)->tp_free(self);
}

// Of classes made in Python: what CPython does for these, but that a tensor may keep its object.
void dealloc_of_subclass(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, slot<tensor_dealloc>);  // chains through slots may be of any length
    bool alive = false;
    if (type->tp_finalize) {
        PyObject_GC_Track(self);
        alive = PyObject_CallFinalizerFromDealloc(self) < 0;
        if (!alive) PyObject_GC_UnTrack(self);
    }
    if (!alive) {
        for (PyTypeObject* base = type; base != &TensorType; base = base->tp_base)
            for (PyMemberDef* member = base->tp_members; member && member->name; ++member)
                if (member->type == T_OBJECT_EX && !(member->flags & READONLY))
                    Py_CLEAR(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + member->offset));
        destroy_object(self);
        Py_DECREF(type);
    }
    Py_TRASHCAN_END;
}

// What CPython gives to classes made in Python.
destructor common_dealloc() {
    PyType_Slot none[] = {{0, nullptr}};
    PyType_Spec spec{"minitensor._C._Subclass", 0, 0, Py_TPFLAGS_DEFAULT, none};
    PyRef bases = checked(PyTuple_Pack(1, &TensorType));
    PyRef type = checked(PyType_FromSpecWithBases(&spec, bases.get()));
    return reinterpret_cast<PyTypeObject*>(type.get())->tp_dealloc;
}

// The autograd node that only this object keeps alive: what it refers to is the garbage collector's business. Hooks
// that capture their own tensor are found so.
GradNode* own_node(Tensor* tensor, bool accumulator) {
    if (!tensor || tensor->refcount != 1 || !tensor->autograd) return nullptr;
    const Ref<GradNode>& node = accumulator ? tensor->autograd->accumulator : tensor->autograd->grad_fn;
    return node && node->refcount == 1 ? node.get() : nullptr;
}

}  // namespace

void drop_object(Tensor* tensor) {
    auto* object = reinterpret_cast<TensorObject*>(tensor->pyobject);
    tensor->refcount = 1;
    object->kept = false;
    if (Py_IsInitialized() || interpreter_ends()) Py_DECREF(tensor->pyobject);
}

// One function for all classes: by it CPython knows that objects of one can become such of another.
void tensor_dealloc(PyObject* self) {
    const bool plain = Py_TYPE(self) == &TensorType;
    if (!plain && Py_TYPE(self)->tp_dealloc != slot<tensor_dealloc>) return destroy_object(self);  // the rest is done
    if (keep(self)) return;
    if (plain) destroy_object(self);
    else dealloc_of_subclass(self);
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    Py_VISIT(object->dict);
    Py_VISIT(own_gradient(object->tensor));
    for (bool accumulator : {false, true})
        if (GradNode* node = own_node(object->tensor, accumulator)) {
            Py_VISIT(node->callable);
            for (Hook& hook : node->hooks) Py_VISIT(hook.callable);
        }
    return 0;
}

int tensor_clear(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    Py_CLEAR(object->dict);
    if (own_gradient(object->tensor)) Ref<Tensor> dying = std::move(object->tensor->autograd->grad);
    for (bool accumulator : {false, true})
        if (GradNode* node = own_node(object->tensor, accumulator)) {
            // The node goes with all its references; they are let go of when nothing points at them any more.
            Ref<GradNode> dying = std::exchange(
                accumulator ? object->tensor->autograd->accumulator : object->tensor->autograd->grad_fn, {});
            if (accumulator) node->leaf = nullptr;
        }
    return 0;
}

void prepare_class(PyTypeObject* type) {
    static const destructor common = common_dealloc();
    if (type->tp_dealloc == common) type->tp_dealloc = slot<tensor_dealloc>;
    note_class(type);
}

PyObject* wrap_as(PyTypeObject* type, Ref<Tensor> tensor) {
    auto* object = reinterpret_cast<TensorObject*>(allocate_object(type));
    if (!object) return nullptr;
    object->dict = nullptr;
    object->weakrefs = nullptr;
    object->kept = false;
    object->tensor = tensor.release();
    object->tensor->pyobject = reinterpret_cast<PyObject*>(object);
    if (type == &TensorType) PyObject_GC_Track(object);
    return reinterpret_cast<PyObject*>(object);
}

Ref<Tensor> made_now(Ref<Tensor> tensor) {
    tensor->is_inference = thread_settings.inference_mode;
    return tensor;
}

PyObject* wrap(Ref<Tensor> tensor) {
    if (!tensor) Py_RETURN_NONE;
    // A subclass's object without counts is being deallocated.
    if (PyObject* known = tensor->pyobject; known && Py_REFCNT(known) > 0) {
        if (__builtin_expect(held_by_python(*tensor), 1)) return Py_NewRef(known);
        reinterpret_cast<TensorObject*>(known)->kept = false;
        tensor.release();
        return known;
    }
    return wrap_as(&TensorType, std::move(tensor));
}

}  // namespace mt::py
