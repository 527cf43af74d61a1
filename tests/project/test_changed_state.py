"""Python state of the packages that changes is watched by compiled functions, or is none of what they depend on."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from changed_state import Changes

import minitensor
from minitensor_jit.state.settings import NAMES, SETTINGS, named_by

ROOT = Path(minitensor.__file__).resolve().parent.parent
PACKAGES = ("minitensor", "minitensor_jit")

# What changes and no result of a function depends on, by why that is so.
NONE_OF_RESULTS = {
    "caches: what is looked up in them is what would be made anew": """
        minitensor._functions.public_names:_names minitensor._functions.torch_function:_BARE
        minitensor.distributed.stores.tcp_store:_shared minitensor.distributed.transport.mpi:_world
        minitensor.distributions.transforms.composed:identity_transform
        minitensor.library.aten:_PACKETS minitensor.multiprocessing.shared_memory:_by_address
        minitensor.multiprocessing.shared_memory:_by_file minitensor.scripting.modules:_classes
        minitensor.serialization.pickler:_GLOBALS minitensor_jit.api:_compilers minitensor_jit.api:_numbers
        minitensor_jit.api:_session_numbers minitensor_jit.cache.disk_cache:_caches
        minitensor_jit.codegen.llvm.ir_types:_TEXT minitensor_jit.codegen.llvm.ir_types:_VECTORS
        minitensor_jit.compiler.background_worker:_benches minitensor_jit.ir.library:_library
        minitensor_jit.ir.library:_make minitensor_jit.runtime.llvm_linker:_Linker._current""",
    "filled where modules are imported or classes made, and only added to": """
        minitensor._functions.checked:_FORMS minitensor.composite.registry:COMPOSITES minitensor.ops.row:ROWS
        minitensor.extend.definition:_ruled minitensor.sparse.dispatch:HANDLERS minitensor.sparse.dispatch:_filled
        minitensor.utils.data.datapipes.datapipe:_Pipe.__iter__ minitensor.utils.data.datapipes.datapipe:_Pipe.type
        minitensor_jit.ir.evaluate.custom_calls:_CALLS minitensor_jit.ir.evaluate.collective:_END
        minitensor.distributed.groups.reduce_op:_CHECKED""",
    "counters whose numbers only tell things apart": """
        minitensor._jit.background_process:_numbers minitensor.compat.v1.framework.graph:_numbers
        minitensor.autograd.hooks:_ids minitensor.fx.graph_module:_numbers minitensor_jit.inspect.dump:_INDEXED
        minitensor_jit.inspect.dump:_NUMBERS minitensor_jit.inspect.stages:_NUMBERS
        minitensor_jit.clustering.graph_dump:_folders""",
    "locks, threads, processes and what they have in hand": """
        minitensor._forks:_locks minitensor._forks:_mine minitensor._forks:_module_locks
        minitensor._jit.background_process:_jobs minitensor._jit.background_process:_pid
        minitensor._jit.background_process:_put_off minitensor._jit.background_process:_replies
        minitensor.distributed.groups.process_group:_live minitensor.distributed.groups.process_group:failed_limits
        minitensor.distributed.groups.world:_kept_stores minitensor.distributed.transport.mpi:_failed
        minitensor.nn.parallel.distributed:_GROUPS minitensor.nn.parallel.distributed:_REDUCERS
        minitensor.ops.library.interruptible:_computing minitensor.ops.library.threads:_pools
        minitensor.utils.data.worker_pool:_open minitensor_jit.codegen.llvm.ir_compiler:_state
        minitensor_jit.compiler.background_thread:_jobs minitensor_jit.compiler.background_thread:_thread""",
    "a number of an op's that stands for a group; a program has the number": "minitensor.ops.collective:GROUPS",
    "what the compiler reads of options, which are part of every signature and program": """
        minitensor._jit.programs:begun minitensor_jit.api:_default_options
        minitensor_jit.clustering.scope_predicate:_numbers minitensor_jit.clustering.scope_predicate:_predicates""",
    "set while the compiler or the evaluator works, and taken back": """
        minitensor_jit.compiler.compiler:_used minitensor_jit.ir.evaluate.collective:_here
        minitensor_jit.ir.evaluate.control:_iterations minitensor_jit.ir.infer.checks:_collecting
        minitensor_jit.ir.size:active""",
    "set while a function is mapped or shapes are found, and taken back": """
        minitensor._vmap.rules:RANDOMNESS minitensor.library.custom_ops:_shapes_of""",
    "reports, profiles and logs: what they tell is no result": """
        minitensor._profile.events:_listener minitensor._profile.events:_ranges minitensor._profile.events:_taken
        minitensor.as_torch.finder:told minitensor.as_torch.finder:watch minitensor.compat.v1.logging:_handler
        minitensor_jit.api:_report minitensor_jit.cache.lru_disk_folder:logger
        minitensor_jit.inspect.numerics.verify:_counts minitensor_jit.inspect.profile:_modules
        minitensor_jit.inspect.run_record:_recording minitensor_jit.log:_stderr
        minitensor_jit.runtime.cuda.profile:_activities minitensor_jit.runtime.cuda.profile:_counted
        minitensor_jit.runtime.cuda.profile:_events minitensor_jit.runtime.cuda.profile:_zero
        minitensor_jit.runtime.cuda.profile:host_calls minitensor_jit.runtime.cuda.profile:why_by_events
        minitensor_jit.runtime.cuda.start:host_ops""",
    "that something has been said or waited for once": """
        minitensor._functions.older_forms:_warned minitensor._warning:_said minitensor.distributed:_skipped
        minitensor.sparse.semi_structured:SparseSemiStructuredTensor._PROTOTYPE_WARNING_SHOWN""",
    "GPUs, their memory and streams: where things run; calls that ask for them are named and have it recorded anew": """
        minitensor_jit.runtime.cuda.context:_ending minitensor_jit.runtime.cuda.context:_entered
        minitensor_jit.runtime.cuda.context:_gpus minitensor_jit.runtime.cuda.context:_recent
        minitensor_jit.runtime.cuda.context:_thread minitensor_jit.runtime.cuda.driver:_asked
        minitensor_jit.runtime.cuda.driver:_count minitensor_jit.runtime.cuda.driver:_driver
        minitensor_jit.runtime.cuda.driver:_missing minitensor_jit.runtime.cuda.driver:_tools
        minitensor_jit.runtime.cuda.pinned:_addresses minitensor_jit.runtime.cuda.pinned:_blocks
        minitensor_jit.runtime.cuda.pinned:_chunks minitensor_jit.runtime.cuda.pinned:_free
        minitensor_jit.runtime.cuda.pinned:_mode minitensor_jit.runtime.cuda.start:_runtime
        minitensor_jit.runtime.cuda.streams:_numbers minitensor_jit.runtime.cuda.streams:_streams""",
    "states of generators, which the core keeps; calls that read or set them have it recorded anew": """
        minitensor.random:_of_gpus minitensor.random:_seed_of_gpus""",
    "about hooks of all modules, which are compared whenever a function is recorded": """
        minitensor.nn.modules.calls:_global_forward_hooks_always_called
        minitensor.nn.modules.calls:_global_forward_hooks_with_kwargs
        minitensor.nn.modules.calls:_global_is_full_backward_hook""",
    "definitions that calls of libraries change, which are named and have it recorded anew": """
        minitensor.library:_DEFINITIONS""",
    "an object that the program's own frames read, whose attributes are compared": "minitensor.compat.v1.flags:FLAGS",
    "reads of the module's own names, no change": "minitensor._tensor.typed_tensors:globals()",
    "changes of variables by their names, which are in SETTINGS": """
        minitensor.backends.cudnn:globals() minitensor.backends.mkldnn:globals()""",
}
LISTED = {place: why for why, places in NONE_OF_RESULTS.items() for place in places.split()}
WATCHED = {f"{module}:{path}" for module, paths in SETTINGS.items() for path in paths if module != "os"}
# Values by these names never change, whoever reads them.
CONSTANTS = {"newaxis", "git_version", "debug", "cuda", "hip", "rocm", "xpu", "begun"}

OBJECTS = """
import contextvars, datetime, importlib, itertools, json, logging, pkgutil, sys, threading, warnings, weakref
from pathlib import Path
from changed_state import Changes
import minitensor, minitensor_jit
warnings.simplefilter("ignore")
for package in (minitensor, minitensor_jit):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if "__main__" not in found.name and not found.name.startswith("minitensor.as_torch.children"):
            importlib.import_module(found.name)
changes = Changes.of_packages(Path(minitensor.__file__).resolve().parent.parent, {packages!r})
STATEFUL = (
    contextvars.ContextVar, threading.local, logging.Logger, itertools.count, weakref.WeakValueDictionary,
    weakref.WeakKeyDictionary, weakref.WeakSet,
)
PLAIN = (bool, int, float, str, type(None), datetime.timedelta)
objects, public = {{}}, []
for name, module in changes.modules.items():
    space = vars(sys.modules[name]) if name in sys.modules else {{}}
    for key in sorted(module.own & space.keys()):
        value = space[key]
        if not isinstance(value, type) and (
            isinstance(value, STATEFUL)
            or any(changes.changes_itself(base.__module__, base.__name__) for base in type(value).__mro__)
        ):
            objects.setdefault(id(value), f"{{name}}:{{key}}")
    for key in space.get("__all__", ()):
        if key in module.own and key[0].islower() and type(space[key]) in PLAIN:
            public.append(f"{{name}}:{{key}}")
found = {{place: [changes.root(place), sorted(who)[:3]] for place, who in changes.found.items()}}
print(json.dumps([found, sorted(objects.values()), sorted(public)]))
"""


@pytest.fixture(scope="module")
def searched():
    """What functions change, with its root and who does it; objects that change; public variables."""
    code = OBJECTS.format(packages=PACKAGES)
    path = [str(Path(__file__).resolve().parents[1]), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{code}"],
        capture_output=True, text=True, cwd=ROOT, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def is_watched(place, root):
    return place in WATCHED or root in WATCHED or any(one.startswith(f"{root}.") for one in WATCHED)


@pytest.mark.exhaustive
def test_what_functions_change_is_watched_or_listed(searched):
    """A new one is a setting (minitensor_jit/state/settings.py), if what functions give depends on it."""
    found = searched[0]
    assert len(found) > 100
    missing = {p: who for p, (root, who) in found.items() if not is_watched(p, root) and root not in LISTED}
    assert missing == {}


def test_objects_that_change_are_watched_or_listed(searched):
    changing = searched[1]
    assert len(changing) > 20
    assert [place for place in changing if not is_watched(place, place) and place not in LISTED] == []


def test_variables_that_programs_may_set_are_watched(searched):
    """Those that are public and no constants by their names."""
    left = [place for place in searched[2] if place not in WATCHED and place.partition(":")[2] not in CONSTANTS]
    assert [place for place in left if ":has_" not in place] == []


def test_what_is_listed_is_there(searched):
    found, objects, public = searched
    there = {root for root, _ in found.values()} | set(objects)
    assert sorted(set(LISTED) - there) == []
    assert sorted(set(LISTED) & WATCHED) == []
    known = {*there, *found, *public}
    others = {place for place in WATCHED if place not in known and place.rpartition(".")[0] not in known}
    # Functions that take a container change these.
    assert {
        place for place in others if "registration_hooks" not in place and "_global_optimizer" not in place
    } == set()


def test_no_cached_function_reads_a_setting():
    """Its code does not run again, so that what it read would not be seen to be."""
    found = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any("cache" in ast.unparse(d) for d in node.decorator_list):
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
                if path.name != "settings.py" and names & NAMES:
                    found.append((str(path.relative_to(ROOT)), node.name, sorted(names & NAMES)))
    assert found == []


SAMPLE = """
import helper
from helper import KNOWN as alias
count, LIST, TABLE = 0, [], {}

class Counter:
    seen = []
    total = 0
    def add(self, x): self.seen.append(x)
    @classmethod
    def reset(cls): cls.total = 0

class Own:
    parts = []
    def __init__(self): self.parts = []
    def add(self, x): self.parts.append(x)

def step():
    global count
    count += 1
def through_a_name():
    own = TABLE
    own["k"] = 1
def of_another():
    alias.append(2)
    helper.level = 3
def local(LIST):
    LIST.append(1)
def own():
    LIST = []
    LIST.append(1)
def marked(): marked.done = True
"""


def test_the_search_finds_each_kind_of_change():
    sources = [("sample", Path("sample.py"), SAMPLE), ("helper", Path("helper.py"), "KNOWN, level = [], 0\n")]
    found = Changes(sources)
    assert sorted(found.found) == [
        "helper:KNOWN", "helper:level", "sample:Counter.seen", "sample:Counter.total", "sample:TABLE", "sample:count",
        "sample:marked.done",
    ]  # fmt: skip
    assert found.changes_itself("sample", "Own")


def test_code_is_known_by_the_names_of_settings():
    from minitensor.distributed.groups import world
    from minitensor.sparse import invariants

    touched = named_by(world.get_world_size.__code__, vars(world))
    assert touched == [] or ("minitensor.distributed.groups.world", "_world") in touched
    assert named_by(world.is_initialized.__code__, vars(world)) == [("minitensor.distributed.groups.world", "_world")]
    assert named_by(invariants.wants_checks.__code__, vars(invariants)) == [("minitensor.sparse.invariants", "_always")]
    assert named_by(world.is_initialized.__code__, {}) == []
