"""Fits a pod on a node by kube-scheduler's own rules, for nodes that it was not asked about.

kube-scheduler reports which nodes pass its filters only for the pod of a call. A question about another pod,
or about the cluster without some pods, needs these rules here: NodeUnschedulable, TaintToleration,
NodeAffinity, NodePorts and NodeResourcesFit (pkg/scheduler/framework/plugins, Kubernetes 1.37), with the
defaults of their arguments. ``unmodelled`` names the rules of a pod that are not applied; an answer that
depends on one of them is a proposal.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.domain import model, snapshots
from app.domain.fit import go_numbers
from app.domain.fold import node_sums

UNSCHEDULABLE = model.Taint("node.kubernetes.io/unschedulable", "NoSchedule")
"""The taint that a pod must tolerate to run on a cordoned node."""
REFUSING = frozenset(("NoSchedule", "NoExecute"))
"""Effects of taints that keep pods away; PreferNoSchedule does not."""


_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""IsDecimalInteger of k8s.io/apimachinery, as far as 64 bits go."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pod does not fit on a node, in kube-scheduler's words."""

    text: str
    resolvable: bool = False
    """Whether the eviction of pods may help (Unschedulable, not UnschedulableAndUnresolvable)."""


Reasons = tuple[Reason, ...]
"""Of the first rule that refuses the node; empty if the pod fits."""

_CORDONED = (Reason("node(s) were unschedulable"),)
_TAINTED = (Reason("node(s) had untolerated taint(s)"),)
_UNSELECTED = (Reason("node(s) didn't match Pod's node affinity/selector"),)
_PORTS = (Reason("node(s) didn't have free ports for the requested pod ports", resolvable=True),)
_PODS = Reason("Too many pods", resolvable=True)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What pods occupy on a node: changed by value, so that every supposition has its own."""

    amounts: node_sums.Amounts
    ports: tuple[tuple[model.HostPort, ...], ...] = ()
    """Those of each pod that takes any."""

    def without(self, pod: model.Pod) -> "Occupancy":
        """The occupancy after the pod has gone. Raises ValueError if its ports are not taken."""
        ports = list(self.ports)
        if ports_of(pod):
            ports.remove(ports_of(pod))
        return Occupancy(_changed(self.amounts, pod, -1), tuple(ports))

    def plus(self, pod: model.Pod) -> "Occupancy":
        """The occupancy with the pod added."""
        ports = (*self.ports, ports_of(pod)) if ports_of(pod) else self.ports
        return Occupancy(_changed(self.amounts, pod, +1), ports)


class PortIndex:
    """The ports of pods by number and protocol: only addresses of the same port are compared."""

    __slots__ = ("_addresses",)

    def __init__(self, ports: Iterable[model.HostPort]) -> None:
        self._addresses: dict[tuple[int, str], set[str]] = {}
        for one in ports:
            self._addresses.setdefault((one.port, one.protocol), set()).add(one.ip)

    def conflict(self, others: Iterable[model.HostPort]) -> bool:
        """Whether pods with the others cannot share a node with these."""
        known = self._addresses
        for one in others if known else ():
            addresses = known.get((one.port, one.protocol))
            if addresses is not None and (not one.ip or one.ip in addresses or "" in addresses):
                return True
        return False


def occupancy(snapshot: snapshots.Snapshot, node: model.NodeName) -> Occupancy:
    """What the pods bound to or placed on the node occupy."""
    there = snapshot.residents.get(node, node_sums.EMPTY)
    exposed = (snapshot.pod(uid) for uid in there.on_ports(snapshot.pod))
    ports = tuple(ports_of(pod) for pod in exposed if pod is not None)
    return Occupancy(snapshot.used(node), ports)


def fits(
    snapshot: snapshots.Snapshot,
    pod: model.Pod,
    node: model.Node,
    minus: Iterable[model.Pod] = (),
    plus: Iterable[model.Pod] = (),
) -> Reasons:
    """Why the pod does not fit on the node without the pods ``minus`` and with ``plus``; empty if it fits.

    A pod that is on the node itself is not in its own way.
    """
    fixed = refused(pod, node)
    if fixed:
        return fixed
    held = occupancy(snapshot, node.name)
    mine = snapshot.pod(pod.uid) if snapshot.node_of(pod.uid) == node.name else None
    for one in (*minus, *((mine,) if mine is not None and node_sums.holding(mine) else ())):
        held = held.without(one)
    for one in plus:
        held = held.plus(one)
    return crowded(pod, node, held)


def refused(pod: model.Pod, node: model.Node) -> Reasons:
    """Why the node refuses the pod whatever runs there: cordoned, tainted or not selected."""
    wanted = pod.constraints or model.STANDARD
    if node.unschedulable and not _tolerated(wanted, UNSCHEDULABLE):
        return _CORDONED
    if node.taints and any(
        taint.effect in REFUSING and not _tolerated(wanted, taint) for taint in node.taints
    ):
        return _TAINTED
    selects = wanted.node_selector or wanted.node_terms is not None
    return _UNSELECTED if selects and not _selected(wanted, node) else ()


def crowded(pod: model.Pod, node: model.Node, held: Occupancy) -> Reasons:
    """What the pods on the node leave too little of: ports, or resources."""
    if held.ports and (wanted := ports_of(pod)) and any(map(PortIndex(wanted).conflict, held.ports)):
        return _PORTS
    return tuple(_insufficient(pod, node.allocatable, held.amounts))


def slots(pod: model.Pod, node: model.Node, snapshot: snapshots.Snapshot) -> int:
    """How often the pod's requests fit into what is free on the node."""
    used = snapshot.used(node.name)
    free = [
        max(0, node.allocatable.get(resource, 0) - used.get(resource, 0)) // amount
        for resource, amount in pod.requests.items()
        if amount
    ]
    return min(free, default=1)


def unmodelled(snapshot: snapshots.Snapshot, *pods: model.Pod) -> tuple[str, ...]:
    """Names of the rules that kube-scheduler applies to these pods in this cluster and this module does not.

    ``podAntiAffinity of other pods``: a running pod may keep them away by its own required anti-affinity.
    """
    found: dict[str, None] = {}
    for pod in pods:
        if pod.constraints is None:
            found["constraints: recorded by an earlier version"] = None
        else:
            found |= dict.fromkeys(pod.constraints.others)
    if any(pod.constraints is not None for pod in pods) and any(map(_keeps_away, snapshot.pods.values())):
        found["podAntiAffinity of other pods"] = None
    return tuple(found)


def _keeps_away(pod: model.Pod) -> bool:
    """Whether the pod runs and has required anti-affinity, which also keeps other pods away from it."""
    constraints = pod.constraints
    if constraints is None or not constraints.others or not pod.node:
        return False
    return "podAntiAffinity" in constraints.others and node_sums.holding(pod)


def _changed(amounts: node_sums.Amounts, pod: model.Pod, by: int) -> node_sums.Amounts:
    changed = dict(amounts)
    node_sums.add_up(changed, pod, by)
    return changed


def ports_of(pod: model.Pod) -> tuple[model.HostPort, ...]:
    """The ports of its node that the pod takes."""
    return pod.constraints.host_ports if pod.constraints is not None else ()


def _insufficient(
    pod: model.Pod, allocatable: Mapping[str, int], held: node_sums.Amounts
) -> Iterator[Reason]:
    """A resource that the pod does not request does not limit it, however overcommitted the node is."""
    if held.get(node_sums.PODS, 0) + 1 > allocatable.get(node_sums.PODS, 0):
        yield _PODS
    for resource, amount in pod.requests.items():
        capacity = allocatable.get(resource, 0)
        if amount > 0 and amount > capacity - held.get(resource, 0):
            yield Reason(f"Insufficient {resource}", resolvable=amount <= capacity)


def _tolerated(wanted: model.Constraints, taint: model.Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in wanted.tolerations)


def _tolerates(toleration: model.Toleration, taint: model.Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal":
            return toleration.value == taint.value
        case "Gt" | "Lt":
            # The API server accepts them only with the feature gate TaintTolerationComparisonOperators.
            return _compared(toleration.operator, _decimal(taint.value), _decimal(toleration.value))
        case _:
            return False


def _selected(wanted: model.Constraints, node: model.Node) -> bool:
    if not wanted.node_selector.items() <= node.labels.items():
        return False
    return wanted.node_terms is None or any(_matches(term, node) for term in wanted.node_terms)


def _matches(term: model.NodeTerm, node: model.Node) -> bool:
    if not (term.expressions or term.fields):
        return False
    return all(_holds(one, node.labels) for one in term.expressions) and all(
        one.operator in ("In", "NotIn") and len(one.values) == 1 and _holds(one, {"metadata.name": node.name})
        for one in term.fields
    )


def _holds(requirement: model.Requirement, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a requirement; an invalid one (wrong number of values) is never met."""
    value, values = labels.get(requirement.key), requirement.values
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return bool(values) and value not in values
        case "Exists":
            return value is not None and not values
        case "DoesNotExist":
            return value is None and not values
        case "Gt" | "Lt":
            bound = go_numbers.go_integer(values[0], 64) if len(values) == 1 else None
            given = go_numbers.go_integer(value, 64) if value is not None else None
            return _compared(requirement.operator, given, bound)
        case _:
            return False


def _compared(operator: str, given: int | None, bound: int | None) -> bool:
    """Whether the number is above (Gt) or below (Lt) the bound; False if one of them is not a number."""
    if given is None or bound is None:
        return False
    return given > bound if operator == "Gt" else given < bound


def _decimal(text: str) -> int | None:
    """A whole number without a plus sign and leading zeros."""
    return go_numbers.go_integer(text, 64) if _DECIMAL.fullmatch(text) else None
