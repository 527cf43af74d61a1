// backward and grad, gradient modes, nodes and hooks.
#include <algorithm>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "autograd/saved_tensor.h"
#include "bindings/py.h"
#include "dispatch/thread_local_state.h"
#include "trace/recording/trace.h"

namespace mt::py {

namespace {

// (tensor | (node, output_nr)) as what the engine starts from or ends at.
Root root_from(PyObject* object, const char* what) {
    if (is_tensor(object)) {
        Tensor& t = *tensor_of(object);
        return {grad_edge(t), {t.sizes, t.dtype, home_of(t)}};
    }
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 2 || !is_node(PyTuple_GET_ITEM(object, 0)))
        fail_type(std::string(what) + " must be Tensors, got " + Py_TYPE(object)->tp_name);
    int64_t index = to_int64(PyTuple_GET_ITEM(object, 1));
    Ref<GradNode> node = Ref<GradNode>::borrow(&node_of(PyTuple_GET_ITEM(object, 0)));
    if (index < 0 || static_cast<size_t>(index) >= node->result_meta.size())
        fail_index("the node has no output " + std::to_string(index));
    auto place = static_cast<uint32_t>(index);
    return {{node, place}, node->result_meta[place]};
}

// The edge of a view of what wants a gradient that was made while nothing was recorded: none ever arrives.
Edge unreachable(PyObject* object) {
    if (!is_tensor(object) || !requires_backward(*tensor_of(object)))
        fail("One of the differentiated Tensors does not require grad");
    const Tensor& t = *tensor_of(object);
    Ref<GradNode> node(new GradNode);
    node->type = GradNode::Type::Accumulate;
    node->result_meta.push_back({t.sizes, t.dtype, home_of(t)});
    return {node, 0};
}

// An input of backward() that is no leaf has its gradient stored too.
void keep_gradient(PyObject* tensor) {
    PyRef module = checked(PyImport_ImportModule("minitensor.autograd.hooks"));
    PyRef done = checked(PyObject_CallMethod(module.get(), "retain_grad", "O", tensor));
}

// run_backward(roots, gradients, inputs | None, retain_graph, create_graph, allow_unused, accumulate=False,
// forward=False)
PyObject* py_run_backward(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *tensors, *gradients, *inputs;
        unsigned char retain, create, unused;  // as in PyTorch: what has no truth of its own is refused
        int accumulate = 0, forward = 0;
        if (!PyArg_ParseTuple(args, "OOObbb|pp:run_backward", &tensors, &gradients, &inputs, &retain, &create, &unused,
                              &accumulate, &forward))
            return nullptr;
        PyRef root_items = tuple_of(tensors), fast = tuple_of(gradients);
        std::vector<Root> roots;
        std::vector<Ref<Tensor>> seeds(static_cast<size_t>(PyTuple_GET_SIZE(root_items.get())));
        for (size_t i = 0; i < seeds.size(); ++i) {
            auto at = static_cast<Py_ssize_t>(i);
            roots.push_back(root_from(PyTuple_GET_ITEM(root_items.get(), at), "the tensors to differentiate"));
            if (!forward) roots[i].edge = backward_edge(roots[i].edge);
            if (!roots[i].edge.node)
                fail("element " + std::to_string(i) + " of tensors does not require grad and does not have a grad_fn");
            PyObject* item = at < PyTuple_GET_SIZE(fast.get()) ? PyTuple_GET_ITEM(fast.get(), at) : Py_None;
            if (item == Py_None) continue;
            if (!is_tensor(item))
                fail_type(std::string("gradients can be either Tensors or None, but got ") + Py_TYPE(item)->tp_name);
            seeds[i] = Ref<Tensor>::borrow(tensor_of(item));
        }
        BackwardOptions options{retain != 0, create != 0, unused != 0, accumulate != 0, forward != 0};
        std::vector<Edge> wanted;
        if (inputs != Py_None) {
            PyRef items = tuple_of(inputs);
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
                if (accumulate && is_tensor(PyTuple_GET_ITEM(items.get(), i)))
                    keep_gradient(PyTuple_GET_ITEM(items.get(), i));
                wanted.push_back(root_from(PyTuple_GET_ITEM(items.get(), i), "inputs").edge);
                if (!forward) wanted.back() = backward_edge(wanted.back());
                if (!wanted.back().node) wanted.back() = unreachable(PyTuple_GET_ITEM(items.get(), i));
            }
        }
        std::vector<Ref<Tensor>> result = run_backward(roots, std::move(seeds), wanted, options);
        if (inputs == Py_None || accumulate) Py_RETURN_NONE;
        PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(result.size())));
        for (size_t i = 0; i < result.size(); ++i)
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), checked(wrap(std::move(result[i]))).release());
        return tuple.release();
    });
}

PyObject* py_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(thread_settings.records_backward()); }
PyObject* py_set_grad_enabled(PyObject*, PyObject* value) {
    const bool enabled = to_bool(value), before = thread_settings.records_backward();
    Recording::as(enabled).set();
    return PyBool_FromLong(before);
}
// recording() -> what set_recording() takes: 0 nothing is recorded, 1 for all derivatives, 2 for those that go forward
PyObject* py_recording(PyObject*, PyObject*) {
    return PyLong_FromLong(!thread_settings.grad_enabled ? 0 : thread_settings.forward_only ? 2 : 1);
}
PyObject* py_set_recording(PyObject*, PyObject* value) {
    return guarded([&]() -> PyObject* {
        const int64_t number = to_int64(value);
        if (number < 0 || number > 2) fail_value("set_recording() takes 0, 1 or 2");
        PyObject* before = py_recording(nullptr, nullptr);
        Recording{number != 0, number == 2}.set();
        return before;
    });
}
PyObject* py_set_forward_mode(PyObject*, PyObject* value) {
    const bool on = to_bool(value), before = thread_settings.forward_mode;
    thread_settings.forward_mode = on;
    if (!on) forget_saved();
    return PyBool_FromLong(before);
}
PyObject* py_is_forward_mode(PyObject*, PyObject*) { return PyBool_FromLong(thread_settings.forward_mode); }
PyObject* py_goes_forward(PyObject*, PyObject*) { return PyBool_FromLong(goes_forward()); }
// is_recorded(*tensors): whether a call of them is recorded now
PyObject* py_is_recorded(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        bool any = false;
        for (Py_ssize_t i = 0; i < nargs && thread_settings.records_gradients(); ++i)
            any |= is_tensor(args[i]) && requires_grad(*tensor_of(args[i]));
        return PyBool_FromLong(any);
    });
}
PyObject* py_inference_mode(PyObject*, PyObject*) { return PyBool_FromLong(thread_settings.inference_mode); }
PyObject* py_set_inference_mode(PyObject*, PyObject* value) {
    const bool enabled = to_bool(value), before = thread_settings.inference_mode;
    thread_settings.inference_mode = enabled;
    return PyBool_FromLong(before);
}

PyObject* py_set_any_grad_layout(PyObject*, PyObject* value) {
    const bool any = to_bool(value), before = thread_settings.any_grad_layout;
    thread_settings.any_grad_layout = any;
    return PyBool_FromLong(before);
}

// register_hook(tensor | node, callable, kind) -> node, for remove_hook
PyObject* py_register_hook(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *target, *callable;
        const char* kind;
        if (!PyArg_ParseTuple(args, "OOs:register_hook", &target, &callable, &kind)) return nullptr;
        static constexpr std::pair<std::string_view, Hook::Kind> kinds[] = {
            {"tensor", Hook::Kind::Tensor},
            {"pre", Hook::Kind::Pre},
            {"post", Hook::Kind::Post},
            {"post_accumulate", Hook::Kind::PostAccumulate},
            {"post_accumulate_in_programs", Hook::Kind::PostAccumulate}};
        const auto* known = std::find_if(std::begin(kinds), std::end(kinds), [&](auto& k) { return k.first == kind; });
        if (known == std::end(kinds)) fail_value("unknown kind of hook");
        Edge edge;
        if (is_node(target)) {
            edge.node = Ref<GradNode>::borrow(&node_of(target));
        } else {
            if (!is_tensor(target)) fail_type("register_hook takes a Tensor");
            edge = grad_edge(*tensor_of(target));
            if (!edge.node && requires_grad(*tensor_of(target))) edge = unreachable(target);
            if (!edge.node) fail("cannot register a hook on a tensor that doesn't require gradient");
        }
        const bool in_programs = known == std::end(kinds) - 1;
        edge.node->hooks.push_back({known->second, edge.index, Py_NewRef(callable), in_programs});
        return wrap_grad_node(edge.node);
    });
}

PyObject* py_remove_hook(PyObject*, PyObject* args) {
    PyObject *node, *callable;
    if (!PyArg_ParseTuple(args, "O!O:remove_hook", &GradNodeType, &node, &callable)) return nullptr;
    std::vector<Hook>& hooks = node_of(node).hooks;
    for (size_t i = 0; i < hooks.size(); ++i)
        if (hooks[i].callable == callable) {
            PyRef dying(hooks[i].callable);
            hooks.erase(hooks.begin() + static_cast<int64_t>(i));
            break;
        }
    Py_RETURN_NONE;
}

// retain_grad(tensor, callable): the callable keeps the gradient of a result, wherever its history goes.
PyObject* py_retain_grad(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *callable;
        if (!PyArg_ParseTuple(args, "O!O:retain_grad", &TensorType, &object, &callable)) return nullptr;
        Tensor& t = *tensor_of(object);
        Edge edge = grad_edge(t);
        if (!edge.node && !requires_grad(t)) fail("can't retain_grad on Tensor that has requires_grad=False");
        AutogradMeta& meta = autograd_meta(t);
        if (!edge.node || edge.node->type == GradNode::Type::Accumulate || meta.retain_hook) Py_RETURN_NONE;
        meta.retain_hook = Py_NewRef(callable);
        edge.node->hooks.push_back({Hook::Kind::Retain, edge.index, Py_NewRef(callable)});
        Py_RETURN_NONE;
    });
}

// put_gradient(tensor, gradient): as `.grad`, whatever shape the tensor has by now.
PyObject* py_put_gradient(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *gradient;
        if (!PyArg_ParseTuple(args, "O!O!:put_gradient", &TensorType, &object, &TensorType, &gradient)) return nullptr;
        Tensor& t = *tensor_of(object);
        note_gradient_use(t, false);
        autograd_meta(t).grad = Ref<Tensor>::borrow(tensor_of(gradient));
        Py_RETURN_NONE;
    });
}

PyObject* py_retains_grad(PyObject*, PyObject* object) {
    return PyBool_FromLong(is_tensor(object) && tensor_of(object)->autograd &&
                           tensor_of(object)->autograd->retain_hook);
}

// set_saved_tensor_hooks((pack, unpack) | None) -> what was in force; the caller keeps it alive.
PyObject* py_set_saved_tensor_hooks(PyObject*, PyObject* hooks) {
    if (hooks != Py_None && (!PyTuple_Check(hooks) || PyTuple_GET_SIZE(hooks) != 2)) {
        PyErr_SetString(PyExc_TypeError, "set_saved_tensor_hooks takes (pack, unpack) or None");
        return nullptr;
    }
    PyObject* previous = saved_tensor_hooks ? saved_tensor_hooks : Py_NewRef(Py_None);
    saved_tensor_hooks = hooks == Py_None ? nullptr : Py_NewRef(hooks);
    return previous;
}

PyObject* py_saved_tensor_hooks(PyObject*, PyObject*) {
    return Py_NewRef(saved_tensor_hooks ? saved_tensor_hooks : Py_None);
}

// set_anomaly(enabled, check_nan, stack, report, has_nan)
PyObject* py_set_anomaly(PyObject*, PyObject* args) {
    int enabled, check_nan;
    PyObject *stack, *report, *has_nan;
    if (!PyArg_ParseTuple(args, "ppOOO:set_anomaly", &enabled, &check_nan, &stack, &report, &has_nan)) return nullptr;
    Py_XSETREF(anomaly.stack, Py_NewRef(stack));
    Py_XSETREF(anomaly.report, Py_NewRef(report));
    Py_XSETREF(anomaly.has_nan, Py_NewRef(has_nan));
    anomaly.enabled = enabled != 0;
    anomaly.check_nan = check_nan != 0;
    Py_RETURN_NONE;
}

PyObject* py_anomaly(PyObject*, PyObject*) {
    return Py_BuildValue("(OO)", anomaly.enabled ? Py_True : Py_False, anomaly.check_nan ? Py_True : Py_False);
}

PyObject* py_backward_id(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(backward_id()); }

PyObject* py_backward_accumulates(PyObject*, PyObject*) { return PyBool_FromLong(backward_accumulates()); }

PyObject* py_will_execute(PyObject*, PyObject* node) {
    return PyBool_FromLong(is_node(node) && will_execute(node_of(node)));
}

// increment_version(tensor): as an in-place write would.
PyObject* py_increment_version(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(object)) fail_type("increment_version expects Tensors");
        if (tensor_of(object)->is_inference) fail("Inference tensors do not track version counter.");
        ++version_of(*tensor_of(object));
        Py_RETURN_NONE;
    });
}

// rebase_history(tensor, node's tensor): `tensor` takes the place of the other in the graph, for mark_dirty.
PyObject* py_take_history(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *to, *from;
        if (!PyArg_ParseTuple(args, "O!O!:take_history", &TensorType, &to, &TensorType, &from)) return nullptr;
        Edge edge = grad_edge(*tensor_of(from));
        if (edge.node && edge.node->type == GradNode::Type::Accumulate) {
            AutogradMeta& meta = autograd_meta(*tensor_of(to));
            meta.requires_grad = meta.stands_for_leaf = true;
            meta.accumulator = edge.node;
        } else if (edge.node) {
            set_history(*tensor_of(to), edge.node, edge.index);
        }
        return Py_NewRef(to);
    });
}

// want_no_gradient(variable): it stands for a dual number, which no pass that goes backward arrives at.
PyObject* py_want_no_gradient(PyObject*, PyObject* variable) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(variable)) fail_type("want_no_gradient() takes a Tensor");
        const Edge edge = grad_edge(*tensor_of(variable));
        if (!edge.node || edge.node->type != GradNode::Type::Accumulate) fail("want_no_gradient() takes a leaf");
        edge.node->forward_only = edge.node->of_duals = true;
        return Py_NewRef(variable);
    });
}

// let_duals_be_variables(on) -> the previous
PyObject* py_let_duals_be_variables(PyObject*, PyObject* value) {
    return PyBool_FromLong(std::exchange(duals_are_variables, to_bool(value)));
}

// forget_base(view): of what nobody else has, whose memory it owns from here on.
PyObject* py_forget_base(PyObject*, PyObject* view) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(view)) fail_type("forget_base() takes a Tensor");
        Ref<Tensor> base = std::move(tensor_of(view)->base);
        return Py_NewRef(view);
    });
}

// begin_transform(tensors): the function that is called now may write to these, and to what it makes.
PyObject* py_begin_transform(PyObject*, PyObject* tensors) {
    return guarded([&]() -> PyObject* {
        PyRef list = tuple_of(tensors);
        std::vector<Ref<Tensor>> given;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
            PyObject* item = PyTuple_GET_ITEM(list.get(), i);
            if (!is_tensor(item)) fail_type("begin_transform takes Tensors");
            given.push_back(Ref<Tensor>::borrow(tensor_of(item)));
        }
        begin_transform(std::move(given));
        Py_RETURN_NONE;
    });
}
PyObject* py_transform_depth(PyObject*, PyObject*) { return PyLong_FromLong(transform_depth()); }
PyObject* py_end_transform(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        end_transform();
        Py_RETURN_NONE;
    });
}

PyObject* py_as_result(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *tensor, *context;
        unsigned index;
        if (!PyArg_ParseTuple(args, "O!IO:as_result", &TensorType, &tensor, &index, &context)) return nullptr;
        // Another node's formula may ask as well.
        bool own = current_node && current_node->type == GradNode::Type::Python;
        if (own) {
            PyRef asked(PyObject_GetAttrString(current_node->callable, "context"));
            if (!asked) PyErr_Clear();  // of a node that only refuses
            own = asked.get() == context;
        }
        return wrap(own ? as_result(*tensor_of(tensor), index) : detach(*tensor_of(tensor)));
    });
}

PyMethodDef autograd_functions[] = {
    {"run_backward", method<py_run_backward>(), METH_VARARGS,
     "run_backward(tensors, gradients, inputs, retain_graph, create_graph, allow_unused, accumulate=False, "
     "forward=False)"},
    {"is_grad_enabled", method<py_grad_enabled>(), METH_NOARGS,
     "is_grad_enabled()\n--\n\nWhether operations are recorded for differentiation."},
    {"set_grad_enabled", method<py_set_grad_enabled>(), METH_O, "Sets the mode and returns the previous one."},
    {"recording", method<py_recording>(), METH_NOARGS,
     "recording() -> 0 where nothing is recorded, 1 for all derivatives, 2 only for those that go forward"},
    {"set_recording", method<py_set_recording>(), METH_O, "set_recording(number) -> the previous one"},
    {"set_forward_mode", method<py_set_forward_mode>(), METH_O,
     "set_forward_mode(on) -> the previous: whether no_grad leaves what goes forward"},
    {"is_forward_mode", method<py_is_forward_mode>(), METH_NOARGS,
     "is_forward_mode()\n--\n\nWhether a derivative is being taken that goes forward."},
    {"goes_forward", method<py_goes_forward>(), METH_NOARGS,
     "goes_forward()\n--\n\nWhether the pass that is running is one of the two of a derivative that goes forward."},
    {"is_recorded", method<py_is_recorded>(), METH_FASTCALL,
     "is_recorded(*tensors): whether a call of one of them is recorded now, for any derivative"},
    {"is_inference_mode_enabled", method<py_inference_mode>(), METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nWhether inference mode is on."},
    {"set_any_grad_layout", method<py_set_any_grad_layout>(), METH_O, "Sets the policy and returns the previous one."},
    {"set_inference_mode", method<py_set_inference_mode>(), METH_O, "Sets the mode and returns the previous one."},
    {"register_hook", method<py_register_hook>(), METH_VARARGS, "register_hook(tensor | node, callable, kind)"},
    {"retain_grad", method<py_retain_grad>(), METH_VARARGS, "retain_grad(tensor, callable)"},
    {"put_gradient", method<py_put_gradient>(), METH_VARARGS,
     "put_gradient(tensor, gradient): as .grad, without a look at shapes"},
    {"retains_grad", method<py_retains_grad>(), METH_O, "Whether retain_grad was called on the tensor."},
    {"set_saved_tensor_hooks", method<py_set_saved_tensor_hooks>(), METH_O,
     "Sets (pack, unpack) and returns the previous."},
    {"saved_tensor_hooks", method<py_saved_tensor_hooks>(), METH_NOARGS, "(pack, unpack) or None."},
    {"set_anomaly", method<py_set_anomaly>(), METH_VARARGS, "set_anomaly(enabled, check_nan, stack, report, has_nan)"},
    {"backward_id", method<py_backward_id>(), METH_NOARGS, "The number of the running backward pass, or 0."},
    {"backward_accumulates", method<py_backward_accumulates>(), METH_NOARGS,
     "Whether a backward pass is running that adds to all leaves."},
    {"will_execute", method<py_will_execute>(), METH_O, "Whether the running pass will bring a gradient to the node."},
    {"anomaly", method<py_anomaly>(), METH_NOARGS, "(enabled, check_nan)"},
    {"increment_version", method<py_increment_version>(), METH_O, "Counts an in-place write that nothing else counts."},
    {"take_history", method<py_take_history>(), METH_VARARGS, "take_history(to, from): the same place in the graph."},
    {"remove_hook", method<py_remove_hook>(), METH_VARARGS, "remove_hook(node, callable)"},
    {"want_no_gradient", method<py_want_no_gradient>(), METH_O,
     "want_no_gradient(variable): it stands for a dual number, which no pass that goes backward arrives at."},
    {"let_duals_be_variables", method<py_let_duals_be_variables>(), METH_O,
     "let_duals_be_variables(on) -> the previous: whether a formula is differentiated, also by dual numbers"},
    {"forget_base", method<py_forget_base>(), METH_O,
     "forget_base(view): of what nobody else has, whose memory it owns from here on."},
    {"begin_transform", method<py_begin_transform>(), METH_O,
     "begin_transform(tensors): a function is differentiated that may write to these and to what it makes."},
    {"end_transform", method<py_end_transform>(), METH_NOARGS, "Ends what begin_transform began."},
    {"transform_depth", method<py_transform_depth>(), METH_NOARGS, "How many have begun on this thread."},
    {"as_result", method<py_as_result>(), METH_VARARGS,
     "as_result(tensor, index, context): a saved result, where the context's node is asked with its history."},
    {}};

}  // namespace

bool init_autograd(PyObject* module) {
    install_tape();
    return init_grad_node(module) && init_grad_mode(module) && init_context(module) && init_autocast(module) &&
           init_custom_function(module) && PyModule_AddFunctions(module, autograd_functions) == 0;
}

}  // namespace mt::py
