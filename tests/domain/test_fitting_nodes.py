"""The nodes that a pod fits on: the rules of node_fit on every node, whatever was placed in between."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import events, model, projections, snapshots
from app.domain.fit import fitting_nodes, node_fit
from tests.support import declared

NAMES = ("n1", "n2", "n3")
SPOT = model.Taint("spot", "NoSchedule", "x")

nodes = st.builds(
    model.Node,
    name=st.just(""),
    uid=st.just(""),
    labels=st.sampled_from(({}, {"disk": "ssd"})),
    taints=st.sampled_from(((), (SPOT,))),
    allocatable=st.fixed_dictionaries(
        {"cpu": st.integers(0, 4), "pods": st.integers(1, 4)},
    ),
    unschedulable=st.booleans(),
)
constraints = st.builds(
    model.Constraints,
    tolerations=st.sampled_from((model.STANDARD_TOLERATIONS, (model.Toleration("spot", "Exists"),))),
    node_selector=st.sampled_from(({}, {"disk": "ssd"})),
    host_ports=st.sampled_from(((), (model.HostPort(80, "TCP"),))),
)
pods = st.builds(
    model.Pod,
    uid=st.just(""),
    namespace=st.just("ns"),
    name=st.just(""),
    node=st.sampled_from(("", *NAMES)),
    nominated=st.sampled_from(("", "", *NAMES)),
    phase=st.sampled_from(("Running", "Succeeded")),
    priority=st.integers(0, 1),
    requests=st.fixed_dictionaries({"cpu": st.integers(0, 3)}),
    constraints=constraints,
)


def world(given_nodes: list[model.Node], given_pods: list[model.Pod]) -> snapshots.Snapshot:
    seen: list[events.AnyEvent] = [
        events.NodeSeen(node=msgspec.structs.replace(node, name=name, uid=name))
        for name, node in zip(NAMES, given_nodes, strict=True)
    ]
    for at, pod in enumerate(given_pods):
        phase = pod.phase if pod.node else "Pending"
        nominated = "" if pod.node else pod.nominated
        uid = f"p{at}"
        seen.append(
            events.PodSeen(
                pod=msgspec.structs.replace(pod, uid=uid, name=uid, phase=phase, nominated=nominated)
            )
        )
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), seen)


def expected(snapshot: snapshots.Snapshot, pod: model.Pod) -> set[str]:
    """The nodes by the rules, one by one."""
    found = set()
    for name, node in snapshot.nodes.items():
        plus = [one for one in snapshot.nominated_before(pod) if one.nominated == name]
        if not node_fit.fits(snapshot, pod, node, plus=plus):
            found.add(name)
    return found


@pytest.mark.scenario("WI-13")
@given(
    given_nodes=st.lists(nodes, min_size=3, max_size=3),
    given_pods=st.lists(pods, min_size=1, max_size=8),
    moves=st.lists(st.tuples(st.integers(0, 7), st.sampled_from(NAMES)), max_size=5),
)
def test_placements_one_by_one_lead_to_the_nodes_of_the_rules(
    given_nodes: list[model.Node], given_pods: list[model.Pod], moves: list[tuple[int, str]]
) -> None:
    snapshot = world(given_nodes, given_pods)
    fitting = fitting_nodes.FittingNodes(snapshot)
    uids = sorted(snapshot.pods)
    for number, node in [*moves, (0, "")]:
        for uid in uids:
            pod = snapshot.pods[uid]
            assert fitting.of(pod) == expected(snapshot, pod), uid
        if node:
            pod = snapshot.pods[uids[number % len(uids)]]
            # A pod that ran to its end is not placed again.
            if pod.finished:
                continue
            placed = msgspec.structs.replace(pod, node=node, phase="Running", nominated="")
            fitting.place(pod, node)
            snapshot = projections.project_all(snapshot, [events.PodSeen(pod=placed)])
