"""A controller takes over what another one left half done: gangs below their minimum, and evictions."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import pytest

from app import clocks
from app.domain import events, model, projections
from app.kube.client import clients
from app.kube.election import electors
from app.plugins.coscheduling import gangs, options
from app.plugins.coscheduling.seats import losses
from app.simulation import populations
from app.simulation.apiserver import faults, requests
from app.store import stores
from app.store.log import batches
from tests.support import bind_times
from tests.support.kube import plain_access
from tests.support.workers import clusters, quotas, recordings
from workers.controller import controllers

ALWAYS = 10**6
SIZE = 3
MEMBER = {options.LABEL: "train", options.MINIMUM_LABEL: str(SIZE)}
REFUSAL = json.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "code": 429,
    }
).encode()
BUDGET = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(REFUSAL), REFUSAL)
)
"""As of a PodDisruptionBudget that the log does not hold yet."""


class Controlling(NamedTuple):
    """A controller with a token of its own, and whether it leads."""

    token: str
    controller: controllers.Controller
    elector: electors.Elector

    def sent(self, asked: requests.Request) -> bool:
        return asked.headers.get("authorization") == f"Bearer {self.token}"

    def leads(self) -> None:
        recordings.eventually(lambda: self.elector.tenure is not None, f"{self.token} leads")


Control = Callable[..., Controlling]


@pytest.fixture
def control(again: Callable[..., stores.Store], cluster_side: clusters.Cluster) -> Iterator[Control]:
    """Starts candidates for one Lease, each as a process of its own."""
    with contextlib.ExitStack() as ending:

        def start(token: str, clock: clocks.RealClock | None = None, **arguments: str | bool) -> Controlling:
            built = quotas.configured(**arguments)
            client = clients.Client(plain_access.of(cluster_side.server.url, token=token))
            ending.callback(client.close)
            elector = electors.Elector(client, "ns", "topolog-controller", durations=recordings.TERMS)
            made = controllers.Controller(
                again(indexed=built.indexed()),
                client,
                built,
                old=bind_times.OLD,
                elector=elector,
                clock=clock,
            )
            thread = threading.Thread(target=made.run, daemon=True)
            thread.start()
            ending.callback(thread.join, recordings.LIMIT)
            ending.callback(made.stop)
            recordings.eventually(lambda: made.subscribed, "the controller listens")
            return Controlling(token, made, elector)

        yield start


def cut_off(cluster: clusters.Cluster, one: Controlling, path: str) -> None:
    """Its requests with this part in their path are lost."""
    cluster.server.faults.add(
        faults.FaultKind.DROP, lambda asked: one.sent(asked) and path in asked.path, times=ALWAYS
    )


# -- gangs ------------------------------------------------------------------------------------------


def seated(recording: recordings.Recording, cluster: clusters.Cluster, size: int) -> list[model.Pod]:
    """The members of a Strict gang, placed together and none bound; the Binding of the last is under way."""
    cluster.node("n")
    for number in range(size):
        made = populations.pod("ns", f"train-{number}", MEMBER, cpu="1")
        cluster.server.objects.create("pods", made)
    snapshot = recording.until(lambda one: len(one.pods) == size and "n" in one.nodes, "the gang is known")
    members = sorted(snapshot.pods.values(), key=lambda pod: pod.name)
    seats = [model.Placement(pod, "n", planned=True, data={gangs.NAME: {}}) for pod in members]
    last = cluster.server.objects.get("pods", ("ns", members[-1].name))["metadata"]["resourceVersion"]
    seats[-1] = msgspec.structs.replace(seats[-1], planned=False, resource_version=last)
    placed = events.PlacementsCommitted(placements=tuple(seats))
    projection = projections.Projection(snapshot)
    projection.apply(placed)
    recording.store.log.append(batches.Batch(events=(placed,), increments=projection.increments))
    return members


def released(recording: recordings.Recording) -> list[str]:
    """The names of released seats in the order of the log, but for those whose pod is gone."""
    entries = recording.store.log.read(0, limit=100_000)
    found = [one.event for one in entries if isinstance(one.event, events.PlacementReleased)]
    return [one.name for one in found if one.cause != "gone"]


def reports(cluster: clusters.Cluster, one: Controlling) -> list[str]:
    """The Events about lost seats that a controller posted."""
    sent = [asked for asked in cluster.server.seen if "/events" in asked.path and one.sent(asked)]
    bodies = [json.loads(asked.body) for asked in sent if asked.body]
    return [body["message"] for body in bodies if body.get("reason") == losses.LOST]


def test_the_next_leader_releases_a_gang_below_its_minimum_once(
    recorded: Callable[[], recordings.Recording], control: Control, cluster_side: clusters.Cluster
) -> None:
    """The former one has noticed the loss, and ends before it has read any pod."""
    recording = recorded().ready()
    first = control("first")
    first.leads()
    cut_off(cluster_side, first, "/pods/")
    members = seated(recording, cluster_side, SIZE)
    cluster_side.end_pod("train-0")
    seen = cluster_side.server.seen
    recordings.eventually(
        lambda: any(first.sent(one) and "/pods/train-" in one.path for one in seen), "the first one has begun"
    )
    assert released(recording) == []
    cut_off(cluster_side, first, "/leases")
    second = control("second")
    second.leads()
    recording.until(lambda one: not one.placements, "no seat is left")
    assert sorted(released(recording)) == [pod.name for pod in members[1:]]
    recordings.eventually(lambda: bool(reports(cluster_side, second)), "the loss is reported")
    assert f"2 of {SIZE} members have a seat after a loss" in reports(cluster_side, second)[0]


# -- evictions --------------------------------------------------------------------------------------


def asked(cluster: clusters.Cluster, one: Controlling) -> list[str]:
    """The pods whose eviction a controller requested, in order."""
    return [
        request.path.split("/")[-2]
        for request in cluster.server.seen
        if request.path.endswith("/eviction") and one.sent(request)
    ]


def preconditions(cluster: clusters.Cluster) -> list[str]:
    bodies = (json.loads(one.body) for one in cluster.server.seen if one.path.endswith("/eviction"))
    return [body["deleteOptions"]["preconditions"]["uid"] for body in bodies]


def uid(cluster: clusters.Cluster, name: str) -> str:
    found: Mapping[str, dict[str, str]] = cluster.server.objects.get("pods", ("ns", name))
    return found["metadata"]["uid"]


def test_the_next_leader_evicts_what_its_predecessor_was_refused(
    recorded: Callable[[], recordings.Recording], control: Control, cluster_side: clusters.Cluster
) -> None:
    """A PDB delays the purpose, no other pod goes meanwhile, the list is that of the state (decision 45)."""
    quotas.full(cluster_side)
    refusing = cluster_side.server.faults.add(
        faults.FaultKind.RAW, faults.calls("POST", "/eviction"), times=ALWAYS, raw=BUDGET
    )
    recorded().ready()
    first = control("first", quotas.FastClock(), quota_preemption="evict")
    second = control("second", quotas.FastClock(), quota_preemption="evict")
    recordings.eventually(lambda: len(asked(cluster_side, first)) >= 2, "the first one is refused repeatedly")
    cut_off(cluster_side, first, "/leases")
    recordings.eventually(lambda: len(asked(cluster_side, second)) >= 2, "the second one is, too")
    assert set(quotas.evicted(cluster_side)) == {"lowest"}
    assert quotas.terminating(cluster_side) == set()
    refusing.times = 0
    recordings.eventually(
        lambda: quotas.terminating(cluster_side) == {"low", "lowest"}, "both are evicted by the second one"
    )
    former = uid(cluster_side, "lowest")
    later = asked(cluster_side, second)
    assert (later[-2:], later.count("low")) == (["lowest", "low"], 1)
    assert set(asked(cluster_side, first)) == {"lowest"}
    # One comes back to its place before the pod that waits takes it: it may be evicted again, as another pod.
    cluster_side.end_pod("lowest")
    quotas.pod(cluster_side, "lowest", "team", "1")
    assert uid(cluster_side, "lowest") != former
    recordings.eventually(
        lambda: quotas.terminating(cluster_side) == {"low", "lowest"}, "it is evicted once more"
    )
    again = asked(cluster_side, second)[len(later) :]
    assert again == ["lowest"]
    assert preconditions(cluster_side)[-1] == uid(cluster_side, "lowest")
