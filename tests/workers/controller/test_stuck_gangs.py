"""What a gang that cannot be placed costs the API server, by a clock that the test moves."""

import itertools
from dataclasses import dataclass, field

import msgspec
import pytest

from app.domain import events, model, observations, projections, snapshots
from app.framework import effects, registry
from app.plugins.coscheduling.plugin import Coscheduling
from app.plugins.elastic_quota import kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from tests.support.decisions import small_gangs, small_quotas
from tests.support.kube import fake_clock
from workers.controller import reconciliation

SECONDS = 60
MEMBERS = 100


@dataclass
class Counting:
    """Counts the calls that effects would cost, at most: one for each pod, Event and changed status."""

    calls: list[str] = field(default_factory=list)
    statuses: dict[str, object] = field(default_factory=dict)

    def submit(
        self, found: effects.Effect, snapshot: snapshots.Snapshot, *, position: model.Position | None = None
    ) -> None:
        match found:
            case effects.WakePods():
                self.calls += [f"wake {pod.name}" for pod in found.pods]
            case effects.PostEvent():
                self.calls.append(f"post {found.message}")
            case effects.ReleasePlacements():
                self.calls += [f"release {uid}" for uid in found.pods]
            case effects.PatchStatus():
                if self.statuses.get(found.identity) != found.status:
                    self.calls.append(f"status {found.identity}")
                self.statuses[found.identity] = found.status

    def verify(self) -> None:
        self.statuses.clear()


class Busy:
    """A cluster in which other pods come and go, and the controller that follows it."""

    def __init__(self, *things: model.Node | model.Pod | model.DeclaredObject) -> None:
        plugins = (ElasticQuota(), Coscheduling())
        self.small = small_gangs.Cluster(*things, beside=(ElasticQuota(),))
        self.clock = fake_clock.VirtualClock()
        self.counting = Counting()
        self.following = reconciliation.Reconciliation(
            registry.Registry(plugins), lambda: self.small.snapshot, self.counting, self.clock
        )
        self.following.resume()
        self.following.run_once()
        self.calls()

    def calls(self) -> list[str]:
        """What was done since the last call."""
        found, self.counting.calls = self.counting.calls, []
        return found

    def happen(self, *happened: events.AnyEvent) -> None:
        for event in happened:
            before = self.small.snapshot
            after = projections.project(before, event)
            self.small.snapshot = after
            self.following.on_event(before, event, after)

    def see(self, pod: model.Pod) -> None:
        self.happen(*observations.pod(self.small.snapshot.pods.get(pod.uid), pod))

    def second(self, number: int) -> None:
        """Two pods end and two begin; the controller looks for work as often as it does."""
        for which in range(2):
            self.see(small_gangs.pod(f"busy-{number}-{which}", 1, node="n1"))
            if number:
                former = f"busy-{number - 1}-{which}"
                self.happen(events.PodGone(uid=f"uid-x-{former}", namespace="x", name=former))
        for _ in range(5):
            self.clock.now += 0.2
            self.following.run_once()


@pytest.mark.parametrize("form", ["pods alone", "a pod group"])
def test_a_stuck_gang_costs_at_most_two_calls_a_second(form: str) -> None:
    members = small_gangs.gang("train", MEMBERS, 1)
    group = small_gangs.sigs("train", MEMBERS)
    if form == "a pod group":
        label = {"scheduling.x-k8s.io/pod-group": "train"}
        members = [msgspec.structs.replace(one, annotations={}, labels=label) for one in members]
    busy = Busy(small_gangs.node("n1", 16), *([group] if form == "a pod group" else []), *members)
    reasons = set()
    for number in range(SECONDS):
        busy.second(number)
        # kube-scheduler tries each member again now and then; only another text makes it do so at once.
        for one in itertools.islice(itertools.cycle(members), number, number + 3):
            reasons.add(busy.small.why(one))
            busy.see(msgspec.structs.replace(one, unscheduled=busy.small.why(one)))
    calls = busy.calls()
    assert len(calls) <= 2 * SECONDS
    assert not [call for call in calls if call.startswith(("wake", "release"))]
    assert len(reasons) == 1


def test_a_gang_is_woken_once_when_its_capacity_appears() -> None:
    members = small_gangs.gang("train", 4, 4)
    busy = Busy(small_gangs.node("n1", 8), *members)
    busy.second(0)
    assert not [call for call in busy.calls() if call.startswith("wake")]
    busy.happen(events.NodeSeen(node=small_gangs.node("n2", 16)))
    for number in range(1, 20):
        busy.second(number)
    woken = [call for call in busy.calls() if call.startswith("wake")]
    assert sorted(woken) == [f"wake train{number}" for number in range(4)]


def test_a_gang_that_its_quota_refuses_is_not_woken_before_it_fits_there() -> None:
    members = small_gangs.gang("train", 4)
    members = [msgspec.structs.replace(one, labels={membership.LABEL: "team"}) for one in members]
    quota = small_quotas.quota("team", 0, 3)
    busy = Busy(small_gangs.node("n1", 16), quota, *members)
    for number in range(5):
        busy.second(number)
        busy.see(msgspec.structs.replace(members[number % 4], unscheduled=f"try {number}"))
    assert set(busy.calls()) == {"post gang koordinator/x/train: elastic quota team: no capacity in cpu"}
    busy.happen(*observations.declared(kinds.QUOTAS, quota, small_quotas.quota("team", 0, 4)))
    for number in range(5, 10):
        busy.second(number)
    woken = [call for call in busy.calls() if call.startswith("wake")]
    assert sorted(woken) == [f"wake train{number}" for number in range(4)]
