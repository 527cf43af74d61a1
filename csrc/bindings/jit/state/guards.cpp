// What a program was recorded with, of Python's state: whether it is all as it was. A check runs no code of anybody's
// and makes no objects; what is unchanged since the last one is told by the version of a dict or a type.
#include <cstring>
#include <memory>
#include <vector>

#include "bindings/jit/state/expected_value.h"
#include "bindings/jit/state/guards.h"
#include "bindings/py.h"

namespace mt::py {

namespace {

enum class Kind : long {
    Entries,
    OwnEntries,
    Cell,
    TypeEntries,
    TypeOf,
    Items,
    DictItems,
    Slot,
    Function,
    Bytes,
    Length,
    Layout,
    Result
};

struct Entry {
    PyObject* key;  // owned
    bool absent;
    Expected value;
};

// Of a dict's items one: its key, owned, and the entry that it is, if it is one.
struct DictItem {
    PyObject* key;
    const Entry* entry;
};

// What a tensor is, beside its values. Its class may be assigned.
struct TensorLayout {
    PyRef type;
    DType dtype;
    Device device;
    Dims sizes, strides;
    bool requires_grad, is_leaf;
    explicit TensorLayout(PyObject* object) : TensorLayout(object, *tensor_of(object)) {}
    TensorLayout(PyObject* object, Tensor& t)
        : type(PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)))), dtype(t.dtype), device(t.device()),
          sizes(t.sizes), strides(t.strides), requires_grad(mt::requires_grad(t)), is_leaf(mt::is_leaf(t)) {}
    bool is_of(PyObject* object) const {
        if (!is_tensor(object) || reinterpret_cast<PyObject*>(Py_TYPE(object)) != type.get()) return false;
        Tensor& t = *tensor_of(object);
        return t.dtype == dtype && t.device() == device && t.sizes == sizes && t.strides == strides &&
               mt::requires_grad(t) == requires_grad && mt::is_leaf(t) == is_leaf;
    }
};

// What a guard knows; apart, since a guard whose version is as it was doesn't read it.
struct What {
    std::vector<Entry> entries;
    std::vector<DictItem> dict_items;  // what a dict without a version had in it when the entries held
    std::vector<Expected> items;  // Bytes: one, the bytes
    Known extra;  // Slot: the descriptor
    std::unique_ptr<TensorLayout> layout;
    bool by_contents = false;  // of an entry's value, which no version of the dict tells of

    What() = default;
    What(const What&) = delete;
    ~What() {
        for (Entry& entry : entries) Py_XDECREF(entry.key);
        for (DictItem& item : dict_items) Py_DECREF(item.key);
    }
};

struct Guard {
    Kind kind;
    Known object;
    uint64_t version = 0;
    std::unique_ptr<What> what = std::make_unique<What>();

    Guard(Kind of, PyObject* about) : kind(of), object(about, false) {}
};

// Zero: not known.
uint64_t version_of(PyObject* dict) {
#if PY_VERSION_HEX < 0x030E0000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    auto* known = reinterpret_cast<PyDictObject*>(dict);
    // From 3.13 on an object's attributes may be set in its own memory, where its dict is a view of that: it stays as
    // old as it was.
    if (PY_VERSION_HEX >= 0x030D0000 && known->ma_values) return 0;
    return known->ma_version_tag;
#pragma GCC diagnostic pop
#else
    (void)dict;
    return 0;
#endif
}

bool entries_hold(const Guard& guard, PyObject* dict) {
    for (const Entry& entry : guard.what->entries) {
        PyObject* now = dict ? PyDict_GetItemWithError(dict, entry.key) : nullptr;
        if (!now && PyErr_Occurred()) return PyErr_Clear(), false;
        if (entry.absent ? now != nullptr : !entry.value.is(now)) return false;
    }
    return true;
}

// Most of what is asked for of an object may be absent: where its keys are those that were there, it still is.
bool dict_items_hold(const Guard& guard, PyObject* dict) {
    if (guard.what->dict_items.empty() || static_cast<size_t>(PyDict_GET_SIZE(dict)) != guard.what->dict_items.size())
        return false;
    PyObject *key, *value;
    auto item = guard.what->dict_items.begin();
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); ++item)
        if (key != item->key || (item->entry && !item->entry->value.is(value))) return false;
    return true;
}

void note_dict_items(Guard& guard, PyObject* dict) {
    for (DictItem& item : guard.what->dict_items) Py_DECREF(item.key);
    guard.what->dict_items.clear();
    if (static_cast<size_t>(PyDict_GET_SIZE(dict)) >= guard.what->entries.size()) return;  // no less to compare
    std::ptrdiff_t present = 0;
    for (const Entry& entry : guard.what->entries) present += !entry.absent;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        const Entry* is = nullptr;
        for (const Entry& entry : guard.what->entries)
            if (!entry.absent && same_value(entry.key, key)) is = &entry;
        present -= is != nullptr;
        guard.what->dict_items.push_back({Py_NewRef(key), is});
    }
    if (present == 0) return;
    for (DictItem& item : guard.what->dict_items) Py_DECREF(item.key);  // a key is equal to another, of another type
    guard.what->dict_items.clear();
}

bool dict_holds(Guard& guard, PyObject* dict) {
    const uint64_t version = dict ? version_of(dict) : 0;
    if (version && version == guard.version) return true;
    if (guard.kind == Kind::DictItems) {
        if (static_cast<size_t>(dict ? PyDict_GET_SIZE(dict) : 0) != guard.what->entries.size()) return false;
        PyObject *key, *value;
        size_t i = 0;
        for (Py_ssize_t at = 0; dict && PyDict_Next(dict, &at, &key, &value); ++i)
            if (!same_value(guard.what->entries[i].key, key) || !guard.what->entries[i].value.is(value)) return false;
    } else if (version || !dict || !dict_items_hold(guard, dict)) {
        if (!entries_hold(guard, dict)) return false;
        if (!version && dict) note_dict_items(guard, dict);
    }
    guard.version = guard.what->by_contents ? 0 : version;
    return true;
}

// Zero: it has changed since its attributes were last looked up.
uint64_t version_of(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030D0000
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return type->tp_version_tag;
}

bool type_holds(Guard& guard, PyTypeObject* type) {
    if (guard.version && version_of(type) == guard.version) return true;
    for (const Entry& entry : guard.what->entries) {
        PyObject* now = _PyType_Lookup(type, entry.key);
        if (entry.absent ? now != nullptr : !entry.value.is(now)) return false;
    }
    guard.version = version_of(type);
    return true;
}

bool items_hold(const Guard& guard, PyObject* object) {
    PyRef fast;
    // Most of them are empty: hooks of modules. The order of the keys of an OrderedDict is its own.
    if (PyODict_CheckExact(object) || PyDict_CheckExact(object)) {
        if (static_cast<size_t>(PyDict_GET_SIZE(object)) != guard.what->items.size()) return false;
        if (guard.what->items.empty()) return true;
    } else if (!PyList_Check(object) && PyAnySet_Check(object)) {
        if (static_cast<size_t>(PySet_GET_SIZE(object)) != guard.what->items.size()) return false;
        if (guard.what->items.empty()) return true;
    }
    if (!PyList_Check(object)) {
        fast = PyRef(PySequence_List(object));
        if (!fast) return PyErr_Clear(), false;
        object = fast.get();
    }
    if (static_cast<size_t>(PyList_GET_SIZE(object)) != guard.what->items.size()) return false;
    for (size_t i = 0; i < guard.what->items.size(); ++i)
        if (!guard.what->items[i].is(PyList_GET_ITEM(object, static_cast<Py_ssize_t>(i)))) return false;
    return true;
}

bool function_holds(const Guard& guard, PyObject* object) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    PyObject* now[] = {function->func_code, function->func_defaults, function->func_kwdefaults};
    for (size_t i = 0; i < 3; ++i)
        if (!guard.what->items[i].is(now[i] ? now[i] : Py_None)) return false;
    return true;
}

bool holds(Guard& guard) {
    PyObject* object = guard.object.get();
    if (!object) return false;
    switch (guard.kind) {
        case Kind::Entries: return dict_holds(guard, object);
        case Kind::OwnEntries: return dict_holds(guard, attributes_of(object));
        case Kind::DictItems: return dict_holds(guard, PyDict_Check(object) ? object : attributes_of(object));
        case Kind::Cell: {
            PyObject* now = PyCell_GET(object);
            return guard.what->items.empty() ? !now : guard.what->items[0].is(now);
        }
        case Kind::Result: {
            PyRef now(PyObject_CallNoArgs(object));
            return now ? guard.what->items[0].is(now.get()) : (PyErr_Clear(), false);
        }
        case Kind::TypeEntries: return type_holds(guard, reinterpret_cast<PyTypeObject*>(object));
        case Kind::TypeOf: return guard.what->items[0].is(reinterpret_cast<PyObject*>(Py_TYPE(object)));
        case Kind::Items: return items_hold(guard, object);
        case Kind::Function: return function_holds(guard, object);
        case Kind::Layout: return guard.what->layout->is_of(object);
        case Kind::Length: {
            int64_t length;
            return length_of(object, &length) && length == to_int64(guard.what->items[0].get());
        }
        case Kind::Slot: {
            PyObject* descriptor = guard.what->extra.get();
            PyRef now(descriptor ? Py_TYPE(descriptor)
                                       ->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(Py_TYPE(object)))
                                 : nullptr);
            if (!now) return PyErr_Clear(), guard.what->items.empty();
            return !guard.what->items.empty() && guard.what->items[0].is(now.get());
        }
        case Kind::Bytes: {
            PyObject* then = guard.what->items[0].get();
            Py_buffer view;
            if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) return PyErr_Clear(), false;
            bool equal = view.len == PyBytes_GET_SIZE(then) && PyBuffer_IsContiguous(&view, 'A') &&
                         std::memcmp(view.buf, PyBytes_AS_STRING(then), static_cast<size_t>(view.len)) == 0;
            PyBuffer_Release(&view);
            return equal;
        }
    }
    return false;
}

bool is_dead(const Guard& guard) {
    if (guard.object.dead()) return true;
    for (const Entry& entry : guard.what->entries)
        if (!entry.absent && entry.value.dead()) return true;
    for (const Expected& item : guard.what->items)
        if (item.dead()) return true;
    return false;
}

struct GuardsObject {
    PyObject_HEAD std::vector<Guard>* guards;
};
std::vector<Guard>& guards_of(PyObject* self) { return *reinterpret_cast<GuardsObject*>(self)->guards; }

// Guards(list of (kind, object, what), absent, snapshots): `absent` stands for what isn't there; values of the class
// `snapshots` for objects that are known by what they have.
PyObject* guards_new(PyTypeObject* type, PyObject* args, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyObject *list, *absent, *snapshots;
        if (!PyArg_ParseTuple(args, "O!OO!:Guards", &PyList_Type, &list, &absent, &PyType_Type, &snapshots))
            return nullptr;
        if (!PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(snapshots), &PyDict_Type))
            fail_type("Guards: expected a class of dicts");
        set_snapshot_type(snapshots);
        PyRef self = checked(type->tp_alloc(type, 0));
        reinterpret_cast<GuardsObject*>(self.get())->guards = new std::vector<Guard>;
        std::vector<Guard>& guards = guards_of(self.get());
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
            long number;
            PyObject *object, *what;
            if (!PyTuple_Check(PyList_GET_ITEM(list, i))) fail_type("Guards: expected a list of tuples");
            if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "lOO", &number, &object, &what)) return nullptr;
            const auto kind = static_cast<Kind>(number);
            Guard guard(kind, object);
            auto entries = [&] {  // a tuple of pairs
                for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(what); ++k) {
                    PyObject* pair = PyTuple_GET_ITEM(what, k);
                    PyObject* value = PyTuple_GET_ITEM(pair, 1);
                    guard.what->by_contents |= is_snapshot(value);
                    guard.what->entries.push_back(
                        {Py_NewRef(PyTuple_GET_ITEM(pair, 0)), value == absent, Expected(value)});
                }
            };
            auto items = [&] {
                for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(what); ++k)
                    guard.what->items.emplace_back(PyTuple_GET_ITEM(what, k));
            };
            switch (kind) {
                case Kind::Entries:
                case Kind::OwnEntries:
                case Kind::TypeEntries:
                case Kind::DictItems: entries(); break;
                case Kind::Cell:
                    if (PyTuple_GET_ITEM(what, 0) != absent) items();
                    break;
                case Kind::Result:
                case Kind::TypeOf:
                case Kind::Items:
                case Kind::Function:
                case Kind::Length:
                case Kind::Bytes: items(); break;
                case Kind::Layout:
                    if (!is_tensor(object)) fail_type("Guards: not a tensor");
                    guard.what->layout = std::make_unique<TensorLayout>(object);
                    break;
                case Kind::Slot:
                    guard.what->extra = Known(PyTuple_GET_ITEM(what, 0), true);
                    if (PyTuple_GET_ITEM(what, 1) != absent) guard.what->items.emplace_back(PyTuple_GET_ITEM(what, 1));
                    break;
            }
            guards.push_back(std::move(guard));
        }
        return self.release();
    });
}

// check(): -1 if all is as it was, else the number of a guard that doesn't hold.
PyObject* guards_check(PyObject* self, PyObject*) {
    std::vector<Guard>& guards = guards_of(self);
    for (size_t i = 0; i < guards.size(); ++i)
        if (!holds(guards[i])) return PyLong_FromSize_t(i);
    return PyLong_FromLong(-1);
}

int guards_traverse(PyObject* self, visitproc visit, void* arg) {
    auto* guards = reinterpret_cast<GuardsObject*>(self)->guards;
    if (!guards) return 0;
    for (const Guard& guard : *guards) {
        if (int r = guard.object.visit(visit, arg)) return r;
        if (int r = guard.what->extra.visit(visit, arg)) return r;
        if (guard.what->layout) Py_VISIT(guard.what->layout->type.get());
        for (const Entry& entry : guard.what->entries) {
            Py_VISIT(entry.key);
            if (int r = entry.value.visit(visit, arg)) return r;
        }
        for (const DictItem& item : guard.what->dict_items) Py_VISIT(item.key);
        for (const Expected& item : guard.what->items)
            if (int r = item.visit(visit, arg)) return r;
    }
    return 0;
}
int guards_clear(PyObject* self) {
    if (auto* guards = reinterpret_cast<GuardsObject*>(self)->guards) std::vector<Guard>().swap(*guards);
    return 0;
}
void guards_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    delete std::exchange(reinterpret_cast<GuardsObject*>(self)->guards, nullptr);
    Py_TYPE(self)->tp_free(self);
}
Py_ssize_t guards_length(PyObject* self) { return static_cast<Py_ssize_t>(guards_of(self).size()); }

PyMethodDef guards_methods[] = {{"check", method<guards_check>(), METH_NOARGS,
                                 "check(): -1 if all is as it was, else the number of a guard that fails."},
                                {}};
PySequenceMethods sequence = {};

PyTypeObject make_guards_type() {
    PyTypeObject type = blank_type();
    sequence.sq_length = slot<guards_length>;
    type.tp_name = "minitensor._C.Guards";
    type.tp_doc = "What a program was recorded with, of Python's state.";
    type.tp_basicsize = sizeof(GuardsObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    type.tp_new = slot<guards_new>;
    type.tp_dealloc = slot<guards_dealloc>;
    type.tp_traverse = slot<guards_traverse>;
    type.tp_clear = slot<guards_clear>;
    type.tp_methods = guards_methods;
    type.tp_as_sequence = &sequence;
    return type;
}
PyTypeObject GuardsType = make_guards_type();

}  // namespace

bool is_guards(PyObject* object) { return Py_TYPE(object) == &GuardsType; }

bool guards_hold(PyObject* self) {
    // Of a cleared one nothing is known.
    for (Guard& guard : guards_of(self))
        if (!holds(guard)) return false;
    return true;
}

bool guards_dead(PyObject* self) {
    for (const Guard& guard : guards_of(self))
        if (is_dead(guard)) return true;
    return false;
}

bool init_guards(PyObject* module) {
    return init_expected_values() && PyType_Ready(&GuardsType) == 0 && PyModule_AddType(module, &GuardsType) == 0;
}

}  // namespace mt::py
