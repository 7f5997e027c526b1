"""Whether a pod fits on a node: kube-scheduler's rules one by one.

Held against the real kube-scheduler in tests/e2e/placement/test_node_fit.py.
"""

from typing import ClassVar

import msgspec
import pytest

from app.domain import events, model, projections, snapshots
from app.domain.fit import node_fit
from tests.support import declared

FREE = {"cpu": 4000, "memory": 8 << 30, "pods": 10}


def node(**more: object) -> model.Node:
    return msgspec.structs.replace(model.Node(name="n1", uid="n1", allocatable=FREE), **more)


def pod(name: str = "p", *, node: str = "", phase: str = "", **wanted: object) -> model.Pod:
    requests = wanted.pop("requests", {})
    assert isinstance(requests, dict)
    return model.Pod(
        uid=name,
        namespace="ns",
        name=name,
        node=node,
        phase=phase or ("Running" if node else "Pending"),
        terminating=bool(wanted.pop("terminating", False)),
        requests=requests,
        constraints=msgspec.structs.replace(model.STANDARD, **wanted),
    )


def world(found: model.Node, *pods: model.Pod) -> snapshots.Snapshot:
    seen: list[events.AnyEvent] = [events.NodeSeen(node=found), *(events.PodSeen(pod=one) for one in pods)]
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), seen)


def reasons(asked: model.Pod, found: model.Node, *pods: model.Pod) -> list[str]:
    return [reason.text for reason in node_fit.fits(world(found, *pods), asked, found)]


CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"


@pytest.mark.parametrize(
    ("requests", "allocatable", "expected"),
    [
        ({}, FREE, []),
        ({"cpu": 4000, "memory": 8 << 30}, FREE, []),
        ({"cpu": 4001}, FREE, ["Insufficient cpu"]),
        ({"cpu": 4001, "memory": (8 << 30) + 1}, FREE, ["Insufficient cpu", "Insufficient memory"]),
        ({"example.com/gpu": 1}, FREE, ["Insufficient example.com/gpu"]),
        ({"example.com/gpu": 0}, FREE, []),
        ({}, {"cpu": 4000}, ["Too many pods"]),
    ],
)
def test_requests_must_fit_into_the_allocatable(
    requests: dict[str, int], allocatable: dict[str, int], expected: list[str]
) -> None:
    assert reasons(pod(requests=requests), node(allocatable=allocatable)) == expected


def test_pods_occupy_the_node_until_they_are_finished() -> None:
    half = {"cpu": 2000}
    asked = pod(requests={"cpu": 2001})
    assert reasons(asked, node(), pod("a", node="n1", requests=half)) == ["Insufficient cpu"]
    assert reasons(asked, node(), pod("a", node="n1", requests=half, terminating=True)) == [
        "Insufficient cpu"
    ]
    assert reasons(asked, node(), pod("a", node="n1", requests=half, phase="Succeeded")) == []
    assert reasons(asked, node(), pod("a", node="n2", requests=half)) == []
    assert reasons(asked, node(), pod("a", requests=half)) == []


def test_a_resource_that_is_not_requested_does_not_limit() -> None:
    over = pod("a", node="n1", requests={"cpu": 9000})
    assert reasons(pod(requests={"memory": 1}), node(), over) == []


def test_placements_occupy_the_node() -> None:
    taking = pod("a", requests={"cpu": 4000})
    snapshot = projections.project(world(node()), events.placed(taking, "n1"))
    assert node_fit.fits(snapshot, pod(requests={"cpu": 1}), node())


def test_a_pod_is_not_in_its_own_way() -> None:
    asked = pod(requests={"cpu": 3000}, host_ports=(model.HostPort(80),))
    placed = projections.project(world(node()), events.placed(asked, "n1"))
    assert node_fit.fits(placed, asked, node()) == ()


def test_supposed_pods_come_and_go() -> None:
    resident = pod("a", node="n1", requests={"cpu": 3000}, host_ports=(model.HostPort(80),))
    asked = pod(requests={"cpu": 3000}, host_ports=(model.HostPort(80),))
    snapshot = world(node(), resident)
    assert [r.text for r in node_fit.fits(snapshot, asked, node())] == [PORTS]
    assert node_fit.fits(snapshot, asked, node(), minus=(resident,)) == ()
    other = pod("b", requests={"cpu": 2000})
    assert [r.text for r in node_fit.fits(snapshot, asked, node(), minus=(resident,), plus=(other,))] == [
        "Insufficient cpu"
    ]
    # The snapshot is as it was.
    assert [r.text for r in node_fit.fits(snapshot, asked, node())] == [PORTS]


@pytest.mark.parametrize(
    ("tolerations", "taint", "tolerated"),
    [
        ((), model.Taint("a", "NoSchedule"), False),
        ((), model.Taint("a", "PreferNoSchedule"), True),
        (
            model.STANDARD_TOLERATIONS,
            model.Taint("node.kubernetes.io/not-ready", "NoExecute"),
            True,
        ),
        (
            model.STANDARD_TOLERATIONS,
            model.Taint("node.kubernetes.io/not-ready", "NoSchedule"),
            False,
        ),
        ((model.Toleration("a", "Equal", "x"),), model.Taint("a", "NoExecute", "x"), True),
        ((model.Toleration("a", "Equal", "x"),), model.Taint("a", "NoExecute", "y"), False),
        ((model.Toleration("a", "Exists"),), model.Taint("a", "NoExecute", "y"), True),
        ((model.Toleration("b", "Exists"),), model.Taint("a", "NoExecute"), False),
        ((model.Toleration("", "Exists"),), model.Taint("a", "NoSchedule"), True),
        ((model.Toleration("a", "Exists", "", "NoSchedule"),), model.Taint("a", "NoExecute"), False),
        ((model.Toleration("a", "Gt", "1"),), model.Taint("a", "NoExecute", "2"), True),
        ((model.Toleration("a", "Gt", "2"),), model.Taint("a", "NoExecute", "2"), False),
        ((model.Toleration("a", "Lt", "2"),), model.Taint("a", "NoExecute", "-3"), True),
        ((model.Toleration("a", "Lt", "-3"),), model.Taint("a", "NoExecute", "2"), False),
        ((model.Toleration("a", "Lt", "2"),), model.Taint("b", "NoExecute", "1"), False),
        ((model.Toleration("a", "Gt", "1", "NoSchedule"),), model.Taint("a", "NoExecute", "2"), False),
        ((model.Toleration("a", "Gt", "01"),), model.Taint("a", "NoExecute", "2"), False),
        ((model.Toleration("a", "Gt", "1"),), model.Taint("a", "NoExecute", "02"), False),
        ((model.Toleration("a", "Gt", "-0"),), model.Taint("a", "NoExecute", "1"), False),
        ((model.Toleration("a", "Lt", str(2**63)),), model.Taint("a", "NoExecute", "1"), False),
        ((model.Toleration("a", "Lt", str(2**63 - 1)),), model.Taint("a", "NoExecute", "0"), True),
        ((model.Toleration("a", "Gt", "1"),), model.Taint("a", "NoExecute", ""), False),
    ],
)
def test_taints_must_be_tolerated(
    tolerations: tuple[model.Toleration, ...], taint: model.Taint, tolerated: bool
) -> None:
    found = reasons(pod(tolerations=tolerations), node(taints=(taint,)))
    assert found == ([] if tolerated else [TAINTED])


def test_every_taint_must_be_tolerated() -> None:
    taints = (model.Taint("a", "NoSchedule"), model.Taint("b", "NoSchedule"))
    one = (model.Toleration("a", "Exists"),)
    assert reasons(pod(tolerations=one), node(taints=taints)) == [TAINTED]
    assert reasons(pod(tolerations=(*one, model.Toleration("b", "Exists"))), node(taints=taints)) == []


def test_a_cordoned_node_refuses_all_but_pods_that_tolerate_it() -> None:
    cordoned = node(unschedulable=True)
    assert reasons(pod(), cordoned) == [CORDONED]
    tolerating = (model.Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),)
    assert reasons(pod(tolerations=tolerating), cordoned) == []


LABELS = {"zone": "a", "cores": "16"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "met"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("zone", "In", (), False),
        ("rack", "In", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a",), False),
        ("zone", "NotIn", (), False),
        ("rack", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("rack", "Exists", (), False),
        ("zone", "DoesNotExist", (), False),
        ("rack", "DoesNotExist", (), True),
        ("cores", "Gt", ("15",), True),
        ("cores", "Gt", ("16",), False),
        ("cores", "Lt", ("17",), True),
        ("cores", "Lt", ("16",), False),
        ("cores", "Gt", ("-1",), True),
        ("cores", "Gt", ("4",), True),
        ("cores", "Lt", ("4",), False),
        ("cores", "Lt", ("+20",), True),
        ("cores", "Lt", (str(2**63 - 1),), True),
        ("cores", "Lt", (str(2**63),), False),
        ("cores", "Lt", ("1_7",), False),
        ("cores", "Lt", (" 20",), False),
        ("cores", "Gt", ("1", "2"), False),
        ("cores", "Gt", ("many",), False),
        ("zone", "Gt", ("1",), False),
        ("rack", "Lt", ("1",), False),
        ("zone", "Near", ("a",), False),
    ],
)
def test_node_affinity_requirements(key: str, operator: str, values: tuple[str, ...], met: bool) -> None:
    term = model.NodeTerm(expressions=(model.Requirement(key, operator, values),))
    assert reasons(pod(node_terms=(term,)), node(labels=LABELS)) == ([] if met else [UNSELECTED])


def test_one_term_is_enough_and_all_requirements_of_it_are_needed() -> None:
    here = model.Requirement("zone", "In", ("a",))
    elsewhere = model.Requirement("zone", "In", ("b",))
    found = node(labels=LABELS)
    assert reasons(pod(node_terms=(model.NodeTerm((elsewhere,)), model.NodeTerm((here,)))), found) == []
    assert reasons(pod(node_terms=(model.NodeTerm((here, elsewhere)),)), found) == [UNSELECTED]
    assert reasons(pod(node_terms=(model.NodeTerm(),)), found) == [UNSELECTED]
    assert reasons(pod(node_terms=()), found) == [UNSELECTED]


@pytest.mark.parametrize(
    ("operator", "values", "met"),
    [("In", ("n1",), True), ("In", ("n2",), False), ("NotIn", ("n1",), False), ("In", ("n1", "n2"), False)],
)
def test_a_node_is_selected_by_its_name(operator: str, values: tuple[str, ...], met: bool) -> None:
    term = model.NodeTerm(fields=(model.Requirement("metadata.name", operator, values),))
    assert reasons(pod(node_terms=(term,)), node()) == ([] if met else [UNSELECTED])


def test_a_node_selector_and_affinity_must_both_match() -> None:
    found = node(labels=LABELS)
    assert reasons(pod(node_selector={"zone": "a"}), found) == []
    assert reasons(pod(node_selector={"zone": "a", "rack": "1"}), found) == [UNSELECTED]
    term = model.NodeTerm((model.Requirement("zone", "In", ("b",)),))
    assert reasons(pod(node_selector={"zone": "a"}, node_terms=(term,)), found) == [UNSELECTED]


@pytest.mark.parametrize(
    ("taken", "conflicts"),
    [
        (model.HostPort(80), True),
        (model.HostPort(81), False),
        (model.HostPort(80, "UDP"), False),
        (model.HostPort(80, "TCP", "10.0.0.1"), True),
        (model.HostPort(80, "TCP", "10.0.0.2"), False),
    ],
)
def test_host_ports_conflict_by_port_protocol_and_address(taken: model.HostPort, conflicts: bool) -> None:
    asked = pod(host_ports=(model.HostPort(80, "TCP", "10.0.0.1"),))
    resident = pod("a", node="n1", host_ports=(taken,))
    assert reasons(asked, node(), resident) == ([PORTS] if conflicts else [])


def test_a_port_on_every_address_conflicts_with_each() -> None:
    resident = pod("a", node="n1", host_ports=(model.HostPort(80, "TCP", "10.0.0.1"),))
    assert reasons(pod(host_ports=(model.HostPort(80),)), node(), resident) == [PORTS]


class CountedPort(model.HostPort, frozen=True):
    """A port whose number, and equality with others, is counted when it is read."""

    reads: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> object:
        CountedPort.reads += name == "port"
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        CountedPort.reads += 1
        return super().__eq__(other)

    __hash__ = model.HostPort.__hash__


@pytest.mark.parametrize("count", [50, 600])
def test_many_ports_are_read_once_each(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedPort, "reads", 0)
    resident = pod("a", host_ports=tuple(CountedPort(number) for number in range(count)))
    asked = pod(host_ports=tuple(CountedPort(number) for number in range(count, 2 * count)))
    held = node_fit.Occupancy({}).plus(resident)
    assert node_fit.crowded(asked, node(), held) == ()
    assert node_fit.crowded(resident, node(), held.plus(asked))
    assert held.plus(asked).without(resident) == node_fit.Occupancy({}).plus(asked)
    assert 0 < CountedPort.reads <= 8 * count


def test_ports_come_and_go_with_their_pods() -> None:
    one, two = (
        pod(name, host_ports=(model.HostPort(80, "TCP", address), model.HostPort(90, "TCP", address)))
        for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2"))
    )
    held = node_fit.Occupancy({}).plus(one).plus(two)
    assert node_fit.crowded(pod(host_ports=(model.HostPort(90, "TCP", "10.0.0.1"),)), node(), held)
    left = held.without(one)
    assert not node_fit.crowded(pod(host_ports=(model.HostPort(90, "TCP", "10.0.0.1"),)), node(), left)
    assert node_fit.crowded(pod(host_ports=(model.HostPort(90),)), node(), left)
    assert not node_fit.crowded(pod(host_ports=(model.HostPort(90),)), node(), left.without(two))


def test_evictions_help_where_pods_are_in_the_way() -> None:
    def resolvable(asked: model.Pod, found: model.Node, *pods: model.Pod) -> list[bool]:
        return [reason.resolvable for reason in node_fit.fits(world(found, *pods), asked, found)]

    full = pod("a", node="n1", requests={"cpu": 4000})
    assert resolvable(pod(requests={"cpu": 4000}), node(), full) == [True]
    assert resolvable(pod(requests={"cpu": 4001}), node(), full) == [False]
    assert resolvable(pod(), node(allocatable={"pods": 1}), full) == [True]
    assert resolvable(pod(), node(unschedulable=True)) == [False]


def test_rules_that_are_not_applied_are_named() -> None:
    away = pod("a", node="n1", others=("podAntiAffinity",))
    asked = pod(others=("volumes",))
    assert node_fit.unmodelled(world(node(), away), asked) == ("volumes", "podAntiAffinity of other pods")
    assert node_fit.unmodelled(world(node(), pod("b", node="n1")), pod()) == ()
    old = msgspec.structs.replace(pod(), constraints=None)
    assert node_fit.unmodelled(world(node()), old) == ("constraints: recorded by an earlier version",)
