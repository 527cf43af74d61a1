"""Phase 1: decide which ops are compiled together.

Contract: gives every node exactly one `Verdict`, and writes `_MtCluster` on the nodes of clusters; changes nothing
else. If each cluster were one node, the graph would still have no cycle.

A node is a *candidate* if it can be compiled, and its scope, the level and the rule of its device say that it should
be. Candidates that an edge connects are merged unless that would make a cycle (`acyclic_groups.py`). A cluster is
*accepted* if it is worth a launch.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from minitensor._functions.public_names import name_of_op
from minitensor.ops import ROWS
from minitensor_jit.clustering.acyclic_groups import ContractedGraph
from minitensor_jit.clustering.cost_model import predict
from minitensor_jit.clustering.graph import CLUSTER_ATTRIBUTE, Graph, Node
from minitensor_jit.clustering.state import PROCESS_STATE, ClusteringState
from minitensor_jit.clustering.unclustered_reason import Reason, Verdict
from minitensor_jit.errors import InvalidArgumentError
from minitensor_jit.flags import JitOptions, covers
from minitensor_jit.log import log, talks

logger = logging.getLogger("minitensor_jit")


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """How auto_jit treats the ops of a kind of device."""

    opt_in: str = ""
    """The option without which auto_jit leaves them alone."""


DEVICE_RULES = {"cpu": DeviceRule(opt_in="cpu_global_jit"), "cuda": DeviceRule()}
"""By the part of a device's name before the colon. A device that is not here has no code generator."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes that are compiled together."""

    name: str
    members: tuple[int, ...]
    """Ids, in topological order."""
    device: str
    must_compile: bool
    prediction: str = ""
    """What the cost model said for it, where it was asked."""


@dataclass(slots=True)
class Marking:
    """The result of the phase."""

    clusters: list[Cluster] = field(default_factory=list)
    verdicts: dict[int, Verdict] = field(default_factory=dict)


def mark_for_compilation(graph: Graph, options: JitOptions, state: ClusteringState = PROCESS_STATE) -> Marking:
    """Mark the graph's nodes; InvalidArgumentError for one that must be compiled and can't be."""
    marking = Marking()
    nodes = graph.nodes
    keys: list[_Key | None] = []
    for node in nodes:
        node.attributes.pop(CLUSTER_ATTRIBUTE, None)
        answer = _classify(node, options, state)
        if isinstance(answer, Verdict):
            marking.verdicts[node.id] = answer
        keys.append(None if isinstance(answer, Verdict) else answer)
    _note_device_rule(marking.verdicts, state)
    if not any(key is not None for key in keys):
        return marking

    places = {node.id: place for place, node in enumerate(nodes)}
    # Nothing leads to an argument or a constant, so none can be part of a cycle.
    predecessors = [[places[id] for id in graph.predecessors(node.id) if nodes[places[id]].is_op] for node in nodes]
    contracted = ContractedGraph(predecessors, keys, options.max_cluster_size)
    # Edges first: what is connected shares values, and gains most from being compiled together.
    contracted.contract()
    # Then regions that nothing connects: all of a function that is compiled as one, and everything at level 2.
    _join_unconnected(contracted, keys, nodes, options)

    groups: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        if key is not None:
            groups.setdefault(contracted.find(place), []).append(place)
    names = _names(graph, options, state)
    for group in groups.values():
        _accept(group, graph, contracted, options, names, marking)
    _log(graph, options, marking)
    return marking


def _log(graph: Graph, options: JitOptions, marking: Marking) -> None:
    if talks(options, "mark_for_compilation", 1):
        count = sum(node.is_op for node in graph)
        clusters = ", ".join(f"{cluster.name} ({len(cluster.members)})" for cluster in marking.clusters) or "none"
        log(options, "mark_for_compilation", 1, "%s: %d ops; clusters: %s", graph.name, count, clusters)
    if talks(options, "mark_for_compilation", 2):
        for node in graph:
            if node.is_op:
                log(options, "mark_for_compilation", 2, "%s: %s", node.text(), marking.verdicts[node.id].text)


_Key = tuple[str, int, bool]
"""What has to be equal for two candidates to be merged: device, scope, and whether compiling is a must."""


def _refusal(node: Node) -> InvalidArgumentError:
    """What is raised for an op that must be compiled and can't be: it names what users call, not what that calls."""
    row = ROWS.get(node.op)
    called = "" if row is None or row.public or row.extension else row.called or name_of_op(node.op)
    if not called:
        return InvalidArgumentError(node.op, node.compilable.reason, node.source)
    return InvalidArgumentError(called, f"{node.compilable.reason} ({node.op}, which it is made of)", node.source)


def _classify(node: Node, options: JitOptions, state: ClusteringState) -> _Key | Verdict:
    """Return a candidate's key, or the verdict on a node that is none."""
    if node.is_argument:
        return Verdict(reason=Reason.ARGUMENT)
    if node.is_constant:
        return Verdict(reason=Reason.CONSTANT)
    rule = DEVICE_RULES.get(node.device.partition(":")[0])
    if node.must_compile:
        if not node.compilable:
            raise _refusal(node)
        if rule is None:
            raise InvalidArgumentError(node.op, Reason.UNKNOWN_DEVICE.sentence.format(node.device), node.source)
        return node.device, 0, True
    if node.mt_compile is False:
        return Verdict(reason=Reason.SCOPE_EXCLUDES)
    if not node.compilable:
        return Verdict(reason=Reason.NOT_COMPILABLE, detail=node.compilable.reason)
    if options.ops_to_cluster and not covers(options.ops_to_cluster, node.op, node.kind):
        return Verdict(reason=Reason.NOT_IN_OPS, detail=node.op)
    if covers(options.cluster_exclude_ops, node.op, node.kind):
        return Verdict(reason=Reason.EXCLUDED_OP, detail=node.op)
    if rule is None:
        return Verdict(reason=Reason.UNKNOWN_DEVICE, detail=node.device)
    globally = options.auto_jit > 0 and (not rule.opt_in or bool(getattr(options, rule.opt_in)))
    if not node.mt_compile and not globally:
        if options.auto_jit == 0:
            return Verdict(reason=Reason.CLUSTERING_OFF)
        return Verdict(reason=Reason.DEVICE_RULE, detail=node.device)
    if options.clustering_fuel is not None:
        if state.marked >= options.clustering_fuel:
            return Verdict(reason=Reason.FUEL)
        state.marked += 1
    # A scope's border only matters where clustering is asked for scope by scope.
    return node.device, 0 if globally else node.scope, False


def _note_device_rule(verdicts: dict[int, Verdict], state: ClusteringState) -> None:
    """Say once that the level is on and only a flag is missing."""
    if state.noted_device_rule:
        return
    refused = sum(verdict.reason is Reason.DEVICE_RULE for verdict in verdicts.values())
    if refused:
        state.noted_device_rule = True
        logger.warning(
            "auto_jit is on, but %d ops on the CPU stay eager: for the CPU it needs --cpu_global_jit in MT_JIT_FLAGS "
            "too, or optimizer_options.cpu_global_jit = True in the session's config. (This is said once.)",
            refused,
        )


def _join_unconnected(
    contracted: ContractedGraph, keys: list[_Key | None], nodes: list[Node], options: JitOptions
) -> None:
    joining: dict[_Key, dict[int, None]] = {}
    for place, key in enumerate(keys):
        if key is not None and (key[2] or (options.auto_jit >= 2 and _gains(nodes[place]))):
            joining.setdefault(key, {})[contracted.find(place)] = None
    for groups in joining.values():
        if len(groups) > 1:
            contracted.join(groups)


def _names(graph: Graph, options: JitOptions, state: ClusteringState) -> Iterator[str]:
    """Give names for clusters: counted through the process, or told apart by what the graph contains."""
    prefix = ""
    for number in itertools.count():
        if not options.deterministic_cluster_names:
            yield state.next_name()
        else:
            prefix = prefix or f"cluster_{_fingerprint(graph)}"
            yield f"{prefix}_{number}"


def _fingerprint(graph: Graph) -> str:
    lines = [f"{n.op}{n.params!r}{n.inputs}{n.outputs}{n.control_inputs}" for n in graph] + [repr(graph.fetches)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def _accept(
    places: list[int],
    graph: Graph,
    contracted: ContractedGraph,
    options: JitOptions,
    names: Iterator[str],
    marking: Marking,
) -> None:
    """Give the verdict on a group of candidates."""
    nodes = graph.nodes
    members = [nodes[place] for place in places]
    size = sum(map(_gains, members))
    must_compile = members[0].must_compile
    asked_for = any(node.mt_compile for node in members)
    wanted = 1 if asked_for else options.min_cluster_size
    if must_compile or size >= wanted:
        prediction = ""
        if options.auto_jit == 1 and not asked_for and not must_compile:
            costs = predict(graph, members)
            if not costs.decision:
                refusal = Verdict(reason=Reason.COST, detail=costs.decision.reason)
                marking.verdicts.update((node.id, refusal) for node in members)
                return
            prediction = costs.text
        name = next(names)
        ids = tuple(node.id for node in members)
        marking.clusters.append(Cluster(name, ids, members[0].device, must_compile, prediction))
        verdict = Verdict(cluster=name)
        for node in members:
            node.attributes[CLUSTER_ATTRIBUTE] = name
            marking.verdicts[node.id] = verdict
        return
    verdict = _too_small(places, nodes, contracted, size, wanted)
    for node in members:
        alone = size == 0 and node.by_kernel
        marking.verdicts[node.id] = Verdict(reason=Reason.KERNEL_ALONE) if alone else verdict


def _gains(node: Node) -> bool:
    """Whether compiled code does better than the eager kernel."""
    return not (node.is_trivial or node.by_kernel)


def _too_small(places: list[int], nodes: list[Node], contracted: ContractedGraph, size: int, wanted: int) -> Verdict:
    refusals = contracted.refusals
    if size == 0:
        return Verdict(reason=Reason.TRIVIAL)
    count = f"{size} op{'' if size == 1 else 's'}, and the least is {wanted}"
    blocker = next((refusals.cycle[place] for place in places if place in refusals.cycle), None)
    if blocker is not None:
        node = nodes[blocker]
        where = f" at {node.source}" if node.source is not None else ""
        return Verdict(reason=Reason.CYCLE, detail=f"{node.op}{where}")
    if any(place in refusals.size for place in places):
        return Verdict(reason=Reason.SIZE_LIMIT, detail=count)
    return Verdict(reason=Reason.TOO_SMALL, detail=count)
