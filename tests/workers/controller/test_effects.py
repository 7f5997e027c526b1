"""Effects from the log to the API server: a recorder, a real store, controllers and their elections."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
from structlog import testing

from app.domain import events, model, projections, snapshots
from app.framework import effects, registry
from app.kube.client import clients
from app.kube.election import electors
from app.plugins.workload_policy.plugin import WorkloadPolicy
from app.simulation.apiserver import faults, requests
from app.store import stores
from app.store.log import batches
from tests.support.decisions import fake_plugins
from tests.support.kube import plain_access
from tests.support.workers import clusters, recordings
from workers import election
from workers.controller import controllers

Json = dict[str, Any]
Start = Callable[[], recordings.Recording]
POLICIES = "/apis/kosmos.io/v1alpha1/namespaces/ns/workloadpolicies"


class Controlling(NamedTuple):
    """A controller, and whether it leads."""

    controller: controllers.Controller
    elector: election.Leadership


Control = Callable[..., Controlling]


@pytest.fixture
def control(again: Callable[..., stores.Store], cluster_side: clusters.Cluster) -> Iterator[Control]:
    """Starts controllers, each as a process of its own; with a token, as candidates for one Lease."""
    with contextlib.ExitStack() as ending:

        def start(*plugins: fake_plugins.Idle | WorkloadPolicy, token: str = "") -> Controlling:
            built = registry.Registry(plugins or (WorkloadPolicy(),))
            client = clients.Client(plain_access.of(cluster_side.server.url, token=token))
            ending.callback(client.close)
            elector: election.Leadership = election.NoElection()
            if token:
                elector = electors.Elector(client, "ns", "topolog-controller", durations=recordings.TERMS)
            made = controllers.Controller(
                again(indexed=built.indexed()),
                client,
                built,
                old=1e6,
                elector=elector,
            )
            thread = threading.Thread(target=made.run, daemon=True)
            thread.start()
            ending.callback(thread.join, recordings.LIMIT)
            ending.callback(made.stop)
            recordings.eventually(lambda: made.subscribed, "the controller listens")
            return Controlling(made, elector)

        yield start


def status(cluster: clusters.Cluster, name: str) -> Json:
    found: Json = json.loads(cluster.client.get(f"{POLICIES}/{name}"))
    return dict(found.get("status", {}))


def reason(cluster: clusters.Cluster, name: str) -> str:
    conditions = status(cluster, name).get("conditions", [{}])
    return str(conditions[0].get("reason", ""))


def patches(cluster: clusters.Cluster) -> list[requests.Request]:
    """The status patches of policies so far."""
    return [
        one
        for one in cluster.server.seen
        if one.method == "PATCH" and one.path.startswith(POLICIES) and one.path.endswith("/status")
    ]


def test_a_policy_shows_its_counts_and_its_own_status_is_not_an_event(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    cluster_side.policy("p", host=2)
    recording = recorded().ready()
    control()
    recordings.eventually(lambda: status(cluster_side, "p").get("placed") == 0, "the policy has a status")
    assert status(cluster_side, "p")["observedGeneration"] == 1
    cluster_side.pod("one", node="n", app="x")
    recordings.eventually(lambda: status(cluster_side, "p")["placed"] == 1, "the pod is counted")
    cluster_side.edit_policy("p", allocationPolicy=[{"name": "host", "replicas": 5}])
    recordings.eventually(lambda: status(cluster_side, "p")["desired"] == 5, "the quota is shown")
    assert status(cluster_side, "p")["observedGeneration"] == 2
    assert status(cluster_side, "p")["domains"] == [{"name": "host", "desired": 5, "placed": 1}]
    # What the watch shows after the last status is recorded as well: then its echo was observed.
    cluster_side.policy("marker", host=1)
    recordings.eventually(lambda: reason(cluster_side, "marker") == "Valid", "the marker has a status")
    entries = recording.store.log.read(0, limit=100_000)
    seen = [one.event.identity for one in entries if isinstance(one.event, events.ObjectObserved)]
    assert seen == ["ns/p", "ns/p", "ns/marker"]
    assert len(patches(cluster_side)) <= 4, "one for each change"


def test_an_invalid_policy_shows_its_errors(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.policy("p", host=2)
    recorded().ready()
    control()
    recordings.eventually(lambda: reason(cluster_side, "p") == "NoSuchDomain", "no node has the domain")
    cluster_side.edit_policy("p", topologyKey="")
    recordings.eventually(lambda: reason(cluster_side, "p") == "InvalidSpec", "the policy is invalid")
    accepted, satisfied = status(cluster_side, "p")["conditions"]
    assert (accepted["type"], accepted["status"]) == ("Accepted", "False")
    assert accepted["message"] == "spec.topologyKey is empty"
    assert (satisfied["type"], satisfied["status"]) == ("Satisfied", "Unknown")
    assert status(cluster_side, "p").keys() == {"conditions", "observedGeneration"}


def test_the_next_leader_goes_on_and_the_former_one_writes_nothing(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    """The first leader cannot renew its Lease, and can do everything else."""
    server = cluster_side.server
    cluster_side.node("n", zone="host")
    cluster_side.policy("p", host=9)
    recorded().ready()
    first = control(token="one").elector
    recordings.eventually(lambda: status(cluster_side, "p").get("placed") == 0, "the first one leads")
    second = control(token="two").elector
    server.faults.add(
        faults.FaultKind.DROP, lambda asked: _of(asked, "one") and "/leases" in asked.path, times=10**6
    )
    number = 0

    def taken_over() -> bool:
        nonlocal number
        number += 1
        cluster_side.pod(f"p{number}", node="n", app="x")
        return second.tenure is not None and first.tenure is None

    with testing.capture_logs() as lines:
        recordings.eventually(taken_over, "the second one leads")
        recordings.eventually(lambda: len(own(lines)) == 2, "both have logged it")
    assert sorted(line["event"] for line in own(lines)) == ["controller leads", "controller no longer leads"]
    since = len(server.seen)
    cluster_side.pod("last", node="n", app="x")
    recordings.eventually(lambda: status(cluster_side, "p")["placed"] == number + 1, "the second one goes on")
    later = [one for one in server.seen[since:] if "/leases" not in one.path and one.method != "GET"]
    assert any(_of(one, "two") for one in later)
    assert not [one for one in later if _of(one, "one")]


def own(lines: list[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    """What controllers log about their leadership."""
    return [line for line in lines if line["event"].startswith("controller ")]


def _of(asked: requests.Request, token: str) -> bool:
    return asked.headers.get("authorization") == f"Bearer {token}"


def test_a_stopped_controller_writes_nothing(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    for at in range(30):
        cluster_side.policy(f"p{at}", host=9)
    recording = recorded().ready()
    made = control().controller
    recordings.eventually(lambda: bool(patches(cluster_side)), "it has begun")
    made.stop()
    recordings.eventually(lambda: not _writing(made), "the call under way has ended")
    written = len(patches(cluster_side))
    cluster_side.node("marker")
    recording.until(lambda one: "marker" in one.nodes, "the log goes on")
    assert len(patches(cluster_side)) == written


def _writing(made: controllers.Controller) -> bool:
    return any(thread.name == "statuses" and thread.is_alive() for thread in threading.enumerate())


@dataclass(frozen=True, slots=True)
class Releasing(fake_plugins.Idle):
    """Releases all placements when a debug flag is set."""

    name: str = "Releasing"
    statuses: ClassVar[tuple[str, ...]] = ()

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[effects.Effect]:
        if snapshot.flags:  # not its event, which a controller that begins to lead may miss
            yield effects.ReleasePlacements(tuple(snapshot.placements), "a flag was set")


def test_placements_are_released_at_once_and_only_on_evidence(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    cluster_side.node("n", zone="host")
    pods = {name: cluster_side.pod(name) for name in ("unbound", "bound", "gone")}
    recording = recorded().ready()
    recording.until(lambda one: len(one.pods) == 3, "the pods are recorded")
    recording.stop()  # so that a placement is confirmed by nothing but the controller's own look
    log = recording.store.log
    for pod in pods.values():
        placement = model.Placement(pod, "n", resource_version=_version(cluster_side, pod))
        placed = events.PlacementsCommitted(placements=(placement,))
        projection = projections.Projection(recording.snapshot)
        projection.apply(placed)
        log.append(batches.Batch(events=(placed,), increments=projection.increments))
    cluster_side.bind("bound", "n")
    cluster_side.end_pod("gone")
    control(Releasing())
    before = _version(cluster_side, pods["unbound"])
    assert len(recording.snapshot.placements) == 3
    log.append(batches.Batch(events=(events.FlagSet(flag=model.Flag(name="v", value="1")),)))
    recording.until(lambda one: len(one.placements) == 1, "two placements are released")
    assert set(recording.snapshot.placements) == {pods["bound"].uid}
    assert _version(cluster_side, pods["unbound"]) != before, "its Binding was fenced first"
    causes = {
        one.event.name: one.event.cause
        for one in log.read(0, limit=100_000)
        if isinstance(one.event, events.PlacementReleased)
    }
    assert causes == {"unbound": "unbound", "gone": "gone"}


@dataclass(frozen=True, slots=True)
class ReleasingTogether(fake_plugins.Idle):
    """Releases all placements together when a debug flag is set, unless a pod is bound."""

    name: str = "ReleasingTogether"
    statuses: ClassVar[tuple[str, ...]] = ()

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[effects.Effect]:
        found = self._renewed(snapshot) if snapshot.flags else None
        return (found,) if found is not None else ()

    def _renewed(self, snapshot: snapshots.Snapshot) -> effects.ReleasePlacements | None:
        if any(pod.node for pod in snapshot.pods.values()):
            return None
        uids = tuple(snapshot.placements)
        return effects.ReleasePlacements(uids, "a flag was set", plugin=self.name, renewed=self._renewed)


@pytest.mark.parametrize("bound", [True, False])
def test_planned_placements_go_together_once_the_others_are_resolved(
    recorded: Start, control: Control, cluster_side: clusters.Cluster, bound: bool
) -> None:
    """The Binding of one is under way: if it was carried out, all others stay."""
    cluster_side.node("n", zone="host")
    pods = {name: cluster_side.pod(name) for name in ("own", "a", "b")}
    recording = recorded().ready()
    recording.until(lambda one: len(one.pods) == 3, "the pods are recorded")
    placed = events.PlacementsCommitted(
        placements=tuple(
            model.Placement(
                pod,
                "n",
                planned=name != "own",
                resource_version=_version(cluster_side, pod) if name == "own" else "",
            )
            for name, pod in pods.items()
        )
    )
    projection = projections.Projection(recording.snapshot)
    projection.apply(placed)
    log = recording.store.log
    if bound:
        cluster_side.server.faults.add(faults.FaultKind.FAIL, faults.calls("PATCH", "/status"), times=1000)
    log.append(batches.Batch(events=(placed,), increments=projection.increments))
    control(ReleasingTogether())
    log.append(batches.Batch(events=(events.FlagSet(flag=model.Flag(name="v", value="1")),)))
    if bound:
        recordings.eventually(
            lambda: any("/pods/own" in one.path for one in cluster_side.server.seen), "it is looked up"
        )
        assert len(recording.snapshot.placements) == 3
        cluster_side.bind("own", "n")
        recording.until(lambda one: len(one.placements) == 2, "the watch shows it bound")
    else:
        recording.until(lambda one: not one.placements, "all are released")
    asked = {one.path.rpartition("/pods/")[2] for one in cluster_side.server.seen if one.method == "GET"}
    assert not {"a", "b"} & asked, "a planned placement has no Binding"
    released = [one for one in log.read(0, limit=100_000) if isinstance(one.event, events.PlacementReleased)]
    assert [one.event.subject for one in released[:1]] == ([] if bound else [f"pod:{pods['own'].uid}"])
    assert len({one.at_ms for one in released[1:]}) == (0 if bound else 1)


def _version(cluster: clusters.Cluster, pod: model.Pod) -> str:
    found = cluster.server.objects.get("pods", (pod.namespace, pod.name))
    return str(found["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class Posting(fake_plugins.Idle):
    """Posts an Event about each pod that is observed, or present when the controller begins to lead."""

    name: str = "Posting"
    statuses: ClassVar[tuple[str, ...]] = ()

    def reconcile(self, snapshot: snapshots.Snapshot, changes: effects.Changes) -> Iterable[effects.Effect]:
        seen = [event.pod for event in changes.events if isinstance(event, events.PodSeen)]
        for pod in snapshot.pods.values() if changes.before is None else seen:
            yield effects.PostEvent(pod, "Observed", "a message", warning=False)


def test_an_event_of_a_plugin_is_posted(
    recorded: Start, control: Control, cluster_side: clusters.Cluster
) -> None:
    recorded().ready()
    control(Posting())
    cluster_side.pod("one")

    def posted() -> list[tuple[str, str, str]]:
        found = json.loads(cluster_side.client.get("/api/v1/namespaces/ns/events"))["items"]
        return [(one["involvedObject"]["name"], one["reason"], one["type"]) for one in found]

    recordings.eventually(lambda: posted() == [("one", "Observed", "Normal")], "the Event is posted")
