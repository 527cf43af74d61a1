"""Graphs to cluster: written by hand, or random; and a tiny interpreter of them."""

import random

from minitensor_jit.clustering.graph import COMPILE, LAUNCH, RUN, Graph, Node, Source, TensorMeta
from minitensor_jit.ir.decision import Decision

VECTOR = TensorMeta("f32", (8,))
OPAQUE = Decision.refuse("its output's shape depends on the data")


class Build:
    """Builds a graph call by call; a value is what a call returns."""

    def __init__(self, arguments=1, name="step"):
        self.graph = Graph(name=name)
        for id in range(arguments):
            self.graph.add_argument(id, VECTOR)

    def arg(self, index):
        return (index, 0)

    def op(self, op, *inputs, **more):
        id = len(self.graph)
        more.setdefault("source", Source("train.py", id + 1, "step"))
        more.setdefault("outputs", (VECTOR,))
        self.graph.add(Node(id, op, tuple(inputs), **more))
        return (id, 0)

    def opaque(self, *inputs, **more):
        return self.op("nonzero", *inputs, kind="opaque", compilable=OPAQUE, **more)

    def view(self, value, **more):
        return self.op("view", value, kind="view", **more)

    def chain(self, value, length, **more):
        for _ in range(length):
            value = self.op("tanh", value, **more)
        return value

    def done(self, *fetches):
        self.graph.fetches = list(fetches)
        self.graph.verify()
        return self.graph


def random_graph(seed, size=None):
    """A DAG with opaque ops, views, constants, several outputs, control edges, two devices and scopes."""
    rng = random.Random(seed)
    size = rng.randint(2, 60) if size is None else size
    opaque, reach = rng.choice([0.0, 0.1, 0.3, 0.6]), rng.choice([3, 8, 100])
    devices = ["cpu"] if rng.random() < 0.6 else ["cpu", "cuda:0"]
    scoped = rng.random() < 0.3
    graph = Graph(name=f"random_{seed}")
    for id in range(rng.randint(1, 3)):
        graph.add_argument(id, VECTOR, device=rng.choice(devices))
    while len(graph) < size:
        id = len(graph)
        kind = rng.choices(["elementwise", "view", "movement", "constant", "creation"], [10, 3, 1, 1, 1])[0]
        wanted = {"elementwise": rng.randint(1, 3), "view": 1, "movement": 1}.get(kind, 0)
        sources = [rng.randrange(max(0, id - reach), id) for _ in range(wanted)]
        inputs = tuple((source, rng.randrange(len(graph.node(source).outputs))) for source in sources)
        refused = kind == "elementwise" and rng.random() < opaque
        tag, scope = rng.choice([(None, 0), (None, 0), (True, 1), (True, 2), (False, 3)]) if scoped else (None, 0)
        graph.add(
            Node(
                id,
                f"op{rng.randrange(5)}",
                inputs,
                (VECTOR,) * rng.choice([1, 1, 1, 2]),
                params={"k": rng.randrange(3)},
                kind=kind,
                device=rng.choice(devices),
                mt_compile=tag,
                scope=scope,
                compilable=OPAQUE if refused else Decision.allow(),
                control_inputs=(rng.randrange(id),) if rng.random() < 0.05 else (),
            )
        )
    values = [(node.id, index) for node in graph for index in range(len(node.outputs))]
    graph.fetches = rng.sample(values, min(len(values), rng.randint(1, 5)))
    graph.verify()
    return graph


def run(graph, arguments, log=None):
    """Run a graph whose ops are functions of their names, params and operands only; `log` gets the ids in order."""
    values = {}
    for node in graph:
        operands = [values[value] for value in node.inputs]
        if node.is_argument:
            results = [arguments[node.params["index"]]]
        elif node.op == COMPILE:
            results = [0, True]
        elif node.op in (LAUNCH, RUN) or node.kind == "cluster":
            results = run(node.subgraph, operands, log)
        else:
            key = (node.op, tuple(sorted(node.params.items())), *operands)
            results = [hash((key, index)) for index in range(len(node.outputs))]
            if log is not None:
                log.append(node.id)
        for index, result in enumerate(results):
            values[node.id, index] = result
    return [values[value] for value in graph.fetches]
