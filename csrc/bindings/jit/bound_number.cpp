// A number that a compiled function reads anew at each call, such as a learning rate: what stands for it while the
// function is recorded.
#include "bindings/ops/parameter_kinds.h"
#include "bindings/py.h"
#include "dispatch/call.h"
#include "dispatch/thread_local_state.h"
#include "trace/recording/trace.h"

namespace mt::py {

namespace {

// It is no float, so that code that doesn't know of it can't take its value for one that stays.
struct BoundNumber {
    PyObject_HEAD uint32_t place;
    uint32_t function;
};

extern PyTypeObject BoundNumberType;

bool is_bound(PyObject* object) { return Py_TYPE(object) == &BoundNumberType; }

// The log of the function that a number belongs to.
FunctionLog& log_of(const BoundNumber& number) {
    if (!function_log || function_log->number != number.function)
        fail("a number that a compiled function reads at each call was kept after the call");
    return *function_log;
}

PyObject* make(uint32_t place) {
    auto* number = PyObject_New(BoundNumber, &BoundNumberType);
    if (!number) fail_python();
    number->place = place;
    number->function = function_log->number;
    return reinterpret_cast<PyObject*>(number);
}

// The place of an operand of arithmetic; 0 if it is no number.
uint32_t place_of(PyObject* object, FunctionLog& log) {
    if (is_bound(object)) {
        auto& number = *reinterpret_cast<BoundNumber*>(object);
        log_of(number);
        return number.place;
    }
    if (PyFloat_CheckExact(object)) return log.numbers.constant(PyFloat_AS_DOUBLE(object));
    if (!PyLong_CheckExact(object)) return 0;
    return log.numbers.constant(to_double(object));
}

// What an operand is now.
PyRef number_of(PyObject* object, FunctionLog& log) {
    if (!is_bound(object)) return PyRef::borrow(object);
    return checked(PyFloat_FromDouble(log.numbers.value(reinterpret_cast<BoundNumber*>(object)->place)));
}

PyObject* plain(Numbers::Kind kind, PyObject* a, PyObject* b) {
    switch (kind) {
        case Numbers::Kind::Add: return PyNumber_Add(a, b);
        case Numbers::Kind::Sub: return PyNumber_Subtract(a, b);
        case Numbers::Kind::Mul: return PyNumber_Multiply(a, b);
        case Numbers::Kind::Pow: return PyNumber_Power(a, b, Py_None);
        default: return PyNumber_TrueDivide(a, b);
    }
}

constexpr const char* kOtherNumbers = "a number that it reads at each call is computed with something else than floats";

PyObject* combine(Numbers::Kind kind, PyObject* a, PyObject* b) {
    return guarded([&]() -> PyObject* {
        FunctionLog& log = log_of(*reinterpret_cast<BoundNumber*>(is_bound(a) ? a : b));
        const uint32_t first = place_of(a, log), second = first ? place_of(b, log) : 0;
        if (second) {
            if (const uint32_t place = log.numbers.combine(kind, first, second)) return make(place);
            log.unclear = "a number that it reads at each call is computed with where floats have exceptions";
        } else {
            log.unclear = kOtherNumbers;
        }
        return plain(kind, number_of(a, log).get(), number_of(b, log).get());
    });
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return combine(Numbers::Kind::Pow, a, b);
}
PyObject* add(PyObject* a, PyObject* b) { return combine(Numbers::Kind::Add, a, b); }
PyObject* subtract(PyObject* a, PyObject* b) { return combine(Numbers::Kind::Sub, a, b); }
PyObject* multiply(PyObject* a, PyObject* b) { return combine(Numbers::Kind::Mul, a, b); }
PyObject* divide(PyObject* a, PyObject* b) { return combine(Numbers::Kind::Div, a, b); }

PyObject* negative(PyObject* self) {
    return guarded([&]() -> PyObject* {
        auto& number = *reinterpret_cast<BoundNumber*>(self);
        FunctionLog& log = log_of(number);
        return make(log.numbers.combine(Numbers::Kind::Mul, number.place, log.numbers.constant(-1.0)));
    });
}

int refuse_truth(PyObject*) {
    return guarded([]() -> int { fail_type("a number that is read at each call decides nothing"); }, -1);
}
PyObject* refuse_comparison(PyObject*, PyObject*, int) {
    return guarded([]() -> PyObject* { fail_type("a number that is read at each call is compared with nothing"); });
}

PyNumberMethods numbers = [] {
    PyNumberMethods methods{};
    methods.nb_add = slot<add>;
    methods.nb_subtract = slot<subtract>;
    methods.nb_multiply = slot<multiply>;
    methods.nb_true_divide = slot<divide>;
    methods.nb_power = slot<power>;
    methods.nb_negative = slot<negative>;
    methods.nb_bool = slot<refuse_truth>;
    return methods;
}();

PyTypeObject BoundNumberType = [] {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor._C.BoundNumber";
    type.tp_doc = "A number that a compiled function reads anew at each call, while the function is recorded.";
    type.tp_basicsize = sizeof(BoundNumber);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    type.tp_as_number = &numbers;
    type.tp_richcompare = slot<refuse_comparison>;
    type.tp_hash = slot<PyObject_HashNotImplemented>;
    return type;
}();

// What is recorded now is a function of which a program may be made.
bool in_function() { return function_log && trace::current; }

// bound_number(dict, key, part=-1): the item, or a part of the tuple that it is. Where a function is recorded, what
// stands for it if it is a float.
PyObject* py_bound_number(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        if (nargs < 2 || nargs > 3 || !PyDict_CheckExact(args[0])) fail_type("bound_number(dict, key, part=-1)");
        const Py_ssize_t part = nargs == 3 ? to_int64(args[2]) : -1;
        double value;
        if (in_function() && float_in(args[0], args[1], part, &value))
            return make(function_log->numbers.item(args[0], args[1], part, value));
        PyObject* found = PyDict_GetItemWithError(args[0], args[1]);
        if (!found) {
            if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, args[1]);
            fail_python();
        }
        if (part < 0) return Py_NewRef(found);
        return checked(PySequence_GetItem(found, part)).release();
    });
}

// bound_items(): the (dict, key) pairs that bound_number was asked for in the function that is recorded.
PyObject* py_bound_items(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyRef found = checked(PyList_New(0));
        static const Numbers none;
        for (const auto& number : function_log ? function_log->numbers.all() : none.all()) {
            if (number.kind != Numbers::Kind::Item) continue;
            PyRef pair = checked(PyTuple_Pack(2, number.dict.get(), number.key.get()));
            if (PyList_Append(found.get(), pair.get()) < 0) fail_python();
        }
        return found.release();
    });
}

// changed_items(): the dicts of such items that are no longer what they were when they were read.
PyObject* py_changed_items(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyRef found = checked(PyList_New(0));
        static const Numbers none;
        for (const auto& number : function_log ? function_log->numbers.all() : none.all()) {
            double now;
            if (number.kind != Numbers::Kind::Item ||
                (float_in(number.dict.get(), number.key.get(), number.part, &now) && now == number.value))
                continue;
            if (PyList_Append(found.get(), number.dict.get()) < 0) fail_python();
        }
        return found.release();
    });
}

// Where the number of a tensor is kept while a function is recorded; null if it isn't, or if others may change it.
FunctionLog::Kept* kept_in(Tensor& keeper) {
    if (!in_function()) return nullptr;
    FunctionLog& log = *function_log;
    if (keeper.made_in >= log.number) {  // it begins at each call, and a program would count on
        log.unclear = "it makes an optimizer that keeps numbers, such as the count of steps";
        return nullptr;
    }
    for (FunctionLog::Kept& kept : log.kept) {
        if (kept.keeper.get() != &keeper) continue;
        if (number_in(keeper) == log.numbers.value(kept.place)) return &kept;
        log.unclear = "it writes to a number that an optimizer keeps";
        return nullptr;
    }
    log.kept.push_back({Ref<Tensor>::borrow(&keeper), 0, log.numbers.kept(keeper, number_in(keeper))});
    return &log.kept.back();
}

Tensor& keeper_of(PyObject* object) {
    if (!is_tensor(object)) fail_type(std::string("a number is kept in a tensor, not in ") + Py_TYPE(object)->tp_name);
    Tensor& keeper = *tensor_of(object);
    if (keeper.numel != 1) fail("a tensor that keeps a number has one element, not " + std::to_string(keeper.numel));
    if (keeper.storage->pending) materialize_callback(keeper.storage.get());
    if (!keeps_number(keeper) && in_function())
        function_log->unclear = "an optimizer keeps a number in memory that others may change";
    return keeper;
}

void write_number(FunctionLog::Kept& kept, uint32_t place) {
    FunctionLog& log = *function_log;
    kept.place = log.numbers.rounded(place, kept.keeper->dtype);
    ++kept.times;
    keep_number(*kept.keeper, log.numbers.value(kept.place), 1);
}

// The in-place op, for a tensor that others may see.
void write_by_op(Tensor& keeper, double value) {
    static const OpDef* fill = find_op("fill");
    trace::Suspend suspend;
    Operand self;
    self.tensor = &keeper;
    GradMode none(false);
    call_op_inplace(*fill, keeper, {self}, {Value::of(Scalar::of(value))});
}

PyObject* read_number(PyObject* object) { return checked(PyObject_CallMethod(object, "item", nullptr)).release(); }

// kept_number(tensor): the number in it.
PyObject* py_kept_number(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        Tensor& keeper = keeper_of(object);
        if (!keeps_number(keeper)) return read_number(object);
        if (FunctionLog::Kept* kept = kept_in(keeper)) return make(kept->place);
        return checked(PyFloat_FromDouble(number_in(keeper))).release();
    });
}

// rounded_number(number, dtype): as a tensor of that dtype keeps it.
PyObject* py_rounded_number(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        if (nargs != 2) fail_type("rounded_number(number, dtype)");
        const DType dtype = dtype_from(args[1]);
        if (is_bound(args[0])) {
            auto& number = *reinterpret_cast<BoundNumber*>(args[0]);
            return make(log_of(number).numbers.rounded(number.place, dtype));
        }
        Scalar value;
        if (!scalar_from(args[0], &value)) fail_type("rounded_number(number, dtype)");
        return checked(PyFloat_FromDouble(round_to(value.as_double(), dtype))).release();
    });
}

// keep_number(tensor, number): writes it there.
PyObject* py_keep_number(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        if (nargs != 2) fail_type("keep_number(tensor, number)");
        Tensor& keeper = keeper_of(args[0]);
        Scalar value;
        uint32_t place = 0;
        if (is_bound(args[1])) {
            auto& number = *reinterpret_cast<BoundNumber*>(args[1]);
            place = number.place;
            value = Scalar::of(log_of(number).numbers.value(place));
        } else if (!scalar_from(args[1], &value)) {
            fail_type(std::string("a number is kept, not ") + Py_TYPE(args[1])->tp_name);
        }
        if (!keeps_number(keeper)) {
            write_by_op(keeper, value.as_double());
        } else if (FunctionLog::Kept* kept = kept_in(keeper)) {
            write_number(*kept, place ? place : function_log->numbers.constant(value.as_double()));
        } else {
            keep_number(keeper, value.as_double(), 1);
        }
        Py_RETURN_NONE;
    });
}

// count_step(tensor): adds one to the count of steps in it, and returns the count, as a number.
PyObject* py_count_step(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        Tensor& counter = keeper_of(object);
        if (!keeps_number(counter)) {
            PyRef before = checked(read_number(object));
            write_by_op(counter, to_double(before.get()) + 1.0);
            return read_number(object);
        }
        if (FunctionLog::Kept* kept = kept_in(counter)) {
            Numbers& numbers = function_log->numbers;
            write_number(*kept, numbers.combine(Numbers::Kind::Add, kept->place, numbers.constant(1.0)));
            return make(kept->place);
        }
        keep_number(counter, number_in(counter) + 1.0, 1);
        return checked(PyFloat_FromDouble(number_in(counter))).release();
    });
}

// What Python's function makes of two numbers, or what stands for it if one of them is read at each call.
PyObject* of_two(Numbers::Kind kind, const char* name, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        if (nargs != 2) fail_type(std::string(name) + " takes two numbers");
        PyObject *a = args[0], *b = args[1];
        PyRef x, y;
        if (is_bound(a) || is_bound(b)) {
            FunctionLog& log = log_of(*reinterpret_cast<BoundNumber*>(is_bound(a) ? a : b));
            const uint32_t first = place_of(a, log), second = first ? place_of(b, log) : 0;
            if (second) {
                const uint32_t place = log.numbers.combine(kind, first, second);
                if (kind == Numbers::Kind::Exceeds) return PyBool_FromLong(log.numbers.value(place) != 0.0);
                return make(place);
            }
            log.unclear = kOtherNumbers;
            x = number_of(a, log), y = number_of(b, log);
            a = x.get(), b = y.get();
        }
        const int second = PyObject_RichCompareBool(b, a, kind == Numbers::Kind::Max ? Py_GT : Py_LT);
        if (second < 0) return nullptr;
        if (kind == Numbers::Kind::Exceeds) return PyBool_FromLong(second);
        return Py_NewRef(second ? b : a);
    });
}

PyObject* py_least(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return of_two(Numbers::Kind::Min, "least_number", args, nargs);
}
PyObject* py_greatest(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return of_two(Numbers::Kind::Max, "greatest_number", args, nargs);
}
PyObject* py_exceeds(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return of_two(Numbers::Kind::Exceeds, "number_exceeds", args, nargs);
}

PyMethodDef bound_number_functions[] = {
    {"bound_number", method<py_bound_number>(), METH_FASTCALL,
     "bound_number(dict, key, part=-1): the item, which a compiled function reads anew at each call if it is a float."},
    {"bound_items", method<py_bound_items>(), METH_NOARGS,
     "bound_items(): the (dict, key) pairs that the function which is recorded reads anew at each call."},
    {"changed_items", method<py_changed_items>(), METH_NOARGS,
     "changed_items(): the dicts of such items that are no longer what they were when they were read."},
    {"count_step", method<py_count_step>(), METH_O,
     "count_step(tensor): adds one to the count of steps in it, and returns it as a number."},
    {"kept_number", method<py_kept_number>(), METH_O,
     "kept_number(tensor): the number in it, which a compiled function reads anew at each call."},
    {"rounded_number", method<py_rounded_number>(), METH_FASTCALL,
     "rounded_number(number, dtype): the number as a tensor of that dtype keeps it."},
    {"keep_number", method<py_keep_number>(), METH_FASTCALL,
     "keep_number(tensor, number): writes the number to a tensor of one element."},
    {"least_number", method<py_least>(), METH_FASTCALL, "least_number(a, b): min(a, b), also of bound numbers."},
    {"greatest_number", method<py_greatest>(), METH_FASTCALL,
     "greatest_number(a, b): max(a, b), also of bound numbers."},
    {"number_exceeds", method<py_exceeds>(), METH_FASTCALL,
     "number_exceeds(a, b): a > b, also of bound numbers: a compiled function is recorded again where it changes."},
    {}};

}  // namespace

bool is_bound_number(PyObject* object) { return is_bound(object); }

bool operand_number(PyObject* object, Scalar* out) {
    if (__builtin_expect(!is_bound(object), 1)) return scalar_from(object, out);
    auto& number = *reinterpret_cast<BoundNumber*>(object);
    FunctionLog& log = log_of(number);
    *out = Scalar::of(log.numbers.value(number.place));
    out->place = number.place;
    log.used.push_back(number.place);
    return true;
}

bool init_bound_number(PyObject* module) {
    // NumPy's numbers would else take it for an array of one object.
    return PyType_Ready(&BoundNumberType) == 0 &&
           PyDict_SetItemString(BoundNumberType.tp_dict, "__array_ufunc__", Py_None) == 0 &&
           PyModule_AddFunctions(module, bound_number_functions) == 0;
}

}  // namespace mt::py
