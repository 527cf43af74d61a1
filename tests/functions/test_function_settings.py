"""mt.function: settings of the framework's own that are made between two calls, or around one; copies of tensors."""

import contextlib
import os

import pytest
from function_rows import Rows

import minitensor as mt
import minitensor.compat.v1 as tf
import minitensor.multiprocessing as mp
from minitensor import distributed as dist
from minitensor import hub, nn
from minitensor.nn.utils import parametrize
from minitensor.utils import _pytree as pytree
from minitensor.utils import checkpoint
from minitensor.utils._pytree import nodes
from minitensor.utils.data import get_worker_info, worker
from minitensor_jit.state.settings import named_by

row = Rows()
OPEN = contextlib.ExitStack()


def entered_and_left(context, then=lambda: None):
    """Enters what `context` gives, does `then`, and leaves it the next time."""
    OPEN.close()
    is_open = []

    def change():
        if is_open:
            is_open.clear()
            OPEN.close()
        else:
            is_open.append(OPEN.enter_context(context()) or True)
            then()

    return change


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    OPEN.close()


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight + weight.T


def layer():
    mt.manual_seed(0)
    made = nn.Linear(3, 3, bias=False)
    parametrize.register_parametrization(made, "weight", Symmetric())
    return made


def is_kept(made):
    made.weight  # noqa: B018
    with mt.no_grad():
        made.parametrizations.weight.original.mul_(2)


@row
def a_cache_of_parametrized_tensors():
    made = layer()
    return lambda x: made.weight.detach() @ x, entered_and_left(parametrize.cached, lambda: is_kept(made))


@row
def a_cache_that_a_layer_reads():
    made = layer()
    return lambda x: made(x).detach(), entered_and_left(parametrize.cached, lambda: is_kept(made))


@row
def a_class_that_is_registered_as_a_container():
    class Pair:
        def __init__(self, *parts):
            self.parts = parts

    pair, registered = Pair(2.0, 3.0), []

    def change():
        if not registered:
            pytree.register_pytree_node(Pair, lambda p: (list(p.parts), None), lambda parts, _: Pair(*parts))
            registered.append(True)

    return lambda x: x * len(pytree.tree_leaves([pair, 1.0])), change


@row
def torch_function_added_to_a_class():
    class Other:
        def __radd__(self, other):
            return other + 1

    other = Other()

    def change():
        Other.__torch_function__ = classmethod(lambda *_: mt.ones(3) * 9)

    return lambda x: x + other, change


@row
def hooks_for_saved_tensors_around_gradients_that_are_taken_inside():
    w = mt.ones(3, requires_grad=True)
    change = entered_and_left(lambda: mt.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t))
    return lambda x: mt.autograd.grad((w * x).sin().sum(), w)[0], change


def toggled(one, other):
    """Does the one thing, the next time the other, which is done at the end in any case."""
    OPEN.close()
    done = []
    OPEN.callback(other)

    def change():
        done.append(len(done) % 2)
        (other if done[-1] else one)()

    return change


@row
def hooks_for_saved_tensors_that_are_forbidden():
    def fn(x):
        try:
            with mt.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return x * 2
        except RuntimeError:
            return x * 3

    return fn, entered_and_left(lambda: mt.autograd.graph.disable_saved_tensors_hooks("not here"))


@row
def a_class_that_is_registered_as_a_container_of_what_is_mapped():
    class Pair:
        def __init__(self, part):
            self.part = part

    pair, registered = Pair(mt.ones(2, 3)), []

    def change():
        if not registered:
            pytree.register_pytree_node(Pair, lambda p: ([p.part], None), lambda parts, _: Pair(*parts))
            registered.append(True)

    def fn(x):
        try:
            return mt.vmap(lambda p, y: p.part + y, (0, None))(pair, x)
        except ValueError:
            return x

    return fn, change


@row
def a_default_group():
    def join():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    def leave():
        if dist.is_initialized():
            dist.destroy_process_group()

    return lambda x: x * (dist.get_world_size() + 5 if dist.is_initialized() else 3), toggled(join, leave)


@row
def a_level_of_messages_about_groups():
    def level(wanted):
        return lambda: dist.set_debug_level(wanted)

    change = toggled(level(dist.DebugLevel.INFO), level(dist.DebugLevel.OFF))
    return lambda x: x * (dist.get_debug_level().value + 2), change


@row
def an_environment_variable_that_the_framework_reads():
    def fn(x):
        return x * (dist.get_node_local_rank(fallback_rank=1) + 2)

    return fn, toggled(lambda: os.environ.update(LOCAL_RANK="3"), lambda: os.environ.pop("LOCAL_RANK", None))


@row
def a_folder_of_models():
    change = toggled(lambda: hub.set_dir("there"), lambda: setattr(hub, "_folder", None))
    return lambda x: x * len(hub.get_dir()), change


@row
def a_way_of_sharing_memory():
    def strategy(name):
        return lambda: mp.set_sharing_strategy(name)

    change = toggled(strategy("file_system"), strategy("file_descriptor"))
    return lambda x: x * len(mp.get_sharing_strategy()), change


@row
def an_implementation_of_attention():
    class Handle:
        def remove(self):
            pass

    nn.attention.register_flash_attention_impl("another", register_fn=Handle)
    change = toggled(
        lambda: nn.attention.activate_flash_attention_impl("another"),
        lambda: nn.attention.restore_flash_attention_impl(_raise_warn=False),
    )
    return lambda x: x * 2 if nn.attention.current_flash_attention_impl() else x * 3, change


@row
def the_device_whose_random_numbers_checkpoints_keep():
    def device(name):
        return lambda: checkpoint.DefaultDeviceType.set_device_type(name)

    change = toggled(device("meta"), device("cuda"))
    return lambda x: x * 2 if checkpoint.DefaultDeviceType.get_device_type() == "meta" else x, change


@row
def a_fusion_that_is_asked_for():
    change = toggled(lambda: mt.jit.enable_onednn_fusion(True), lambda: mt.jit.enable_onednn_fusion(False))
    return lambda x: x * 2 if mt.jit.onednn_fusion_enabled() else x * 3, change


@row
def a_program_that_is_exported():
    return lambda x: x * 2 if mt.compiler.is_exporting() else x * 3, entered_and_left(mt.compiler.exporting)


@row
def a_default_graph():
    graph = tf.Graph()
    return lambda x: x * 2 if tf.get_default_graph() is graph else x * 3, entered_and_left(graph.as_default)


@row
def a_default_session():
    session = tf.Session(graph=tf.Graph())
    return lambda x: x * 2 if tf.get_default_session() is session else x * 3, entered_and_left(session.as_default)


@row
def a_level_of_messages_about_graphs():
    change = toggled(lambda: tf.logging.set_verbosity(50), lambda: tf.logging.set_verbosity(tf.logging.WARN))
    return lambda x: x * tf.logging.get_verbosity(), change


@row
def an_option_of_the_command_line():
    flags = type(tf.app.flags.FLAGS)()
    flags._define("width", 3, int, None)
    flags(["program"])
    return lambda x: x * flags.width, lambda: setattr(flags, "width", flags.width + 1)


@row
def classes_that_files_may_hold():
    class Known:
        pass

    change = toggled(lambda: mt.serialization.add_safe_globals([Known]), mt.serialization.clear_safe_globals)
    return lambda x: x * (len(mt.serialization.get_safe_globals()) + 2), change


@row
def the_worker_that_this_process_is():
    info = worker.WorkerInfo(0, 1, 0, None)
    change = toggled(lambda: worker._info.append(info), worker._info.clear)
    return lambda x: x * 2 if get_worker_info() is None else x * 3, change


@row
def the_class_of_a_tensor():
    class Other(mt.Tensor):
        pass

    t = mt.ones(3)
    return lambda x: x + 1 if type(t) is mt.Tensor else x - 1, lambda: setattr(t, "__class__", Other)


@row
def a_class_with_torch_function_of_a_tensor():
    class Other(mt.Tensor):
        @classmethod
        def __torch_function__(cls, func, kinds, args=(), kwargs=None):
            return mt.ones(3) * 9

    t = mt.ones(3)
    return lambda x: mt.mul(x, t), lambda: setattr(t, "__class__", Other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("jit_compile", [True, None])
def test_anomalies_are_looked_for_in_gradients_that_are_taken_inside(jit_compile):
    w = mt.zeros(3, requires_grad=True)
    f = mt.function(lambda x: mt.autograd.grad((w * x).sqrt().sum(), w)[0], jit_compile=jit_compile)
    for _ in range(3):
        assert f(mt.zeros(3)).isnan().all()
    error = mt.InvalidArgumentError if jit_compile else RuntimeError  # it reads values
    with mt.autograd.detect_anomaly(check_nan=True), pytest.raises(error):
        f(mt.zeros(3))
    assert f(mt.zeros(3)).isnan().all()


COPIES = {
    "tensor": lambda x, t: mt.tensor(x),
    "tensor of a dtype": lambda x, t: mt.tensor(x, dtype=mt.float64),
    "tensor of what is computed": lambda x, t: mt.tensor(x * 2) + 1,
    "tensor from outside": lambda x, t: x * 0 + mt.tensor(t),
    "new_tensor": lambda x, t: x.new_tensor(x),
    "asarray": lambda x, t: mt.asarray(x, copy=True),
    "Parameter": lambda x, t: mt.nn.Parameter(mt.tensor(x)).detach(),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("way", COPIES)
def test_copies_have_the_values_of_each_call(way, jit_compile):
    t = mt.zeros(3)
    f = mt.function(lambda x: COPIES[way](x, t), jit_compile=jit_compile)
    kept = []
    for k in range(4):
        t.fill_(k)
        x = mt.arange(3.0) + k
        kept.append((f(x), COPIES[way](x, t)))
    for got, wanted in kept:
        assert got.dtype == wanted.dtype
        assert got.tolist() == wanted.tolist()


def test_a_copy_is_no_view_of_what_it_was_made_of():
    def body(x):
        made = mt.tensor(x)
        x.add_(1)
        made.mul_(2)
        return made

    f = mt.function(body, jit_compile=True)
    for k in range(3):
        x = mt.ones(2) * k
        assert f(x).tolist() == [2.0 * k] * 2
        assert x.tolist() == [k + 1.0] * 2


@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("name", row.names)
def test_what_changes_between_calls_is_noticed(name, jit_compile):
    row.check(name, jit_compile)


def test_a_name_is_a_setting_where_it_stands_for_it():
    def reads():
        return SUPPORTED_NODES  # noqa: F821

    def reads_of_its_module():
        return nodes.SUPPORTED_NODES

    setting = [("minitensor.utils._pytree.nodes", "SUPPORTED_NODES")]
    assert named_by(reads.__code__, vars(nodes)) == setting
    assert named_by(reads.__code__, {"SUPPORTED_NODES": nodes.SUPPORTED_NODES}) == setting
    assert named_by(reads.__code__, {"SUPPORTED_NODES": dict(nodes.SUPPORTED_NODES)}) == []
    assert named_by(reads.__code__, {}) == []
    assert named_by(reads_of_its_module.__code__, {"nodes": nodes}) == setting
    assert named_by(reads_of_its_module.__code__, {"nodes": mt}) == []
