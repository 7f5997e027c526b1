"""Histories of evictions for quotas: pods come, wait, are evicted and end; replies are lost, leaders change.

The plugin and the evictor are the real ones, over HTTP; time is virtual, and the recorder is late at random.
The oracle counts cores with plain numbers.
"""

import copy
import itertools
import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from app.domain import events, model, projections, snapshots
from app.framework import effects, registry
from app.kube import call_limits
from app.kube.objects import decoding
from app.plugins.elastic_quota import evictions as wanted
from app.plugins.elastic_quota import kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.trees import membership
from app.plugins.preemption_rules import kinds as budget_kinds
from app.simulation import populations
from app.simulation.apiserver import faults
from tests.support import declared
from tests.support.decisions import small_quotas
from tests.support.kube import fake_clock
from tests.support.workers import clusters, quotas
from workers.controller import evictions

Json = dict[str, Any]
RULES = ElasticQuota(runtime=False, quota_preemption="evict")
NODES, CORES = ("n0", "n1", "n2"), 8
LIMITS, MIN = {"q": 10, "r": 12}, 4
STEPS = 80
EVICT = faults.calls("POST", "/eviction")


class Pod:
    """A pod in plain numbers."""

    def __init__(self, found: Json) -> None:
        labels = found["metadata"]["labels"]
        self.name, self.uid = found["metadata"]["name"], found["metadata"]["uid"]
        self.created = found["metadata"]["creationTimestamp"]
        self.quota = labels[membership.LABEL]
        self.firm = labels.get(membership.PREEMPTIBLE) == "false"
        self.cores = int(found["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        self.priority = found["spec"]["priority"]
        self.node = found["spec"].get("nodeName", "")
        self.going = "deletionTimestamp" in found["metadata"]
        conditions = found["status"].get("conditions", ())
        self.refused = any("elastic quota" in one.get("message", "") for one in conditions)

    def somewhere(self) -> "Pod":
        """The pod as if it had a node, whichever it is."""
        made = copy.copy(self)
        made.node = "somewhere"
        return made


def admitted(pod: Pod, pods: Iterable[Pod]) -> bool:
    """Whether the quota has capacity for the pod beside these, and its min if the pod is not preemptible."""
    held = [one for one in pods if one.node and one.quota == pod.quota]
    firm = sum(one.cores for one in held if one.firm) + pod.cores
    return sum(one.cores for one in held) + pod.cores <= LIMITS[pod.quota] and (not pod.firm or firm <= MIN)


def fits(pod: Pod, pods: Iterable[Pod]) -> list[str]:
    """The nodes on which the pod has capacity beside these, if its quota admits it."""
    held = [one for one in pods if one.node]
    return [
        name
        for name in NODES
        if admitted(pod, held) and sum(one.cores for one in held if one.node == name) + pod.cores <= CORES
    ]


def may_go(victim: Pod, waiting: Pod) -> bool:
    return (
        victim.quota == waiting.quota
        and bool(victim.node)
        and not victim.firm
        and victim.priority < waiting.priority
    )


class History:
    """One history; every request for an eviction is compared with what the state of its plan permits."""

    def __init__(self, cluster: clusters.Cluster, seed: int) -> None:
        self.dice, self.cluster, self.server = random.Random(seed), cluster, cluster.server
        self.clock = fake_clock.VirtualClock()
        self.snapshot = snapshots.empty(schema=declared.SCHEMA)
        things = [small_quotas.quota(name, MIN, most) for name, most in LIMITS.items()]
        cores = {"cpu": CORES * small_quotas.CORE, "memory": small_quotas.GIB, "pods": 110}
        nodes = [model.Node(name=name, uid=name, allocatable=cores, ready=True) for name in NODES]
        seen: list[events.AnyEvent] = [
            *(events.NodeSeen(node=one) for one in nodes),
            *map(kinds.QUOTAS.observed, things),
        ]
        self.snapshot = projections.project_all(self.snapshot, seen)
        self.term, self.numbers, self.requested = 0, itertools.count(), 0
        self.planned: list[Pod] = []
        """The pods of the state from which the present plan was made."""
        self.last: tuple[str, float] | None = None
        """The latest eviction that took effect, or may have, in this leadership."""
        self.evictor = self._evictor()

    def _evictor(self) -> evictions.Evictor:
        limit = call_limits.CallLimit(self.clock, term=lambda: str(self.term), burst=1000.0, rate=1000.0)
        return evictions.Evictor(
            self.cluster.client,
            lambda: self.snapshot,
            registry.Registry([RULES]),
            lambda found, term: None,
            limit,
            self.clock,
        )

    def pods(self) -> list[Pod]:
        """The pods at the API server."""
        return sorted(map(Pod, self.server.objects.all("pods")), key=lambda one: one.name)

    # -- what happens ------------------------------------------------------------------------

    def create(self) -> None:
        dice = self.dice
        labels = {membership.LABEL: dice.choice("qqr"), "app": dice.choice("abc")}
        if dice.random() < 0.15:
            labels[membership.PREEMPTIBLE] = "false"
        made = populations.pod("ns", f"p{next(self.numbers):03}", labels, cpu=str(dice.randint(1, 4)))
        made["spec"]["priority"] = dice.randrange(4)
        self.server.objects.create("pods", made)

    def schedule(self) -> None:
        """kube-scheduler tries all pods, the most important first."""
        for pod in sorted(self.pods(), key=lambda one: (-one.priority, one.name)):
            if pod.node or pod.going:
                continue
            nodes = fits(pod, self.pods())
            if nodes:
                self.cluster.bind(pod.name, self.dice.choice(nodes))
                self.cluster.phase(pod.name, "Running")
            elif admitted(pod, self.pods()):
                self.cluster.refuse(pod.name, "0/3 nodes are available: 3 Insufficient cpu.")
            else:
                quotas.refuse(self.cluster, pod.name, pod.quota)

    def end(self) -> None:
        """Kubelets end a pod that terminates, and its owner may make another one."""
        for pod in self.pods():
            if pod.going and self.dice.random() < 0.6:
                self.cluster.end_pod(pod.name)
                if self.dice.random() < 0.3:
                    self.create()

    def delete(self) -> None:
        """A pod that runs is deleted for another reason."""
        running = [pod for pod in self.pods() if pod.node and not pod.going]
        if running:
            self.cluster.delete_pod(self.dice.choice(running).name)

    def budget(self) -> None:
        """The budget of an app allows another number of evictions, or there is none."""
        app = self.dice.choice("ab")
        status = {"disruptionsAllowed": self.dice.randrange(3), "observedGeneration": 1}
        selector = {"matchLabels": {"app": app}}
        key = ("ns", app)
        if any(one["metadata"]["name"] == app for one in self.server.objects.all("poddisruptionbudgets")):
            self.server.objects.change("poddisruptionbudgets", key, lambda one: one | {"status": status})
        else:
            metadata = {"namespace": "ns", "name": app}
            made = {"metadata": metadata, "spec": {"selector": selector}, "status": status}
            self.server.objects.create("poddisruptionbudgets", made)

    def lose(self) -> None:
        kind = self.dice.choice([faults.FaultKind.LOSE, faults.FaultKind.DROP, faults.FaultKind.FAIL])
        self.server.faults.add(kind, EVICT, times=1, status=self.dice.choice([500, 429, 403]))

    def lead(self) -> None:
        """Another controller takes over: it has the state, and nothing else."""
        self.term += 1
        self.last, self.evictor = None, self._evictor()
        self.plan()

    def observe(self, *, late: bool = False) -> None:
        """The recorder observes everything; ``late``: but what terminates, or is gone."""
        found = {one["metadata"]["uid"]: one for one in self.server.objects.all("pods")}
        former = [pod for pod in self.planned if pod.uid not in found or Pod(found[pod.uid]).going]
        if late:
            found = {uid: one for uid, one in found.items() if not Pod(one).going}
        gone = [
            events.PodGone(uid=uid, namespace=pod.namespace, name=pod.name)
            for uid, pod in self.snapshot.pods.items()
            if uid not in found and not late
        ]
        seen = [events.PodSeen(pod=decoding.pod(json.dumps(one).encode())) for one in found.values()]
        decoded = (
            budget_kinds.BUDGETS.decode(json.dumps(one).encode())
            for one in self.server.objects.all("poddisruptionbudgets")
        )
        budgets = map(budget_kinds.BUDGETS.observed, decoded)
        self.snapshot = projections.project_all(self.snapshot, [*gone, *seen, *budgets])
        self.planned = [*map(Pod, found.values()), *(former if late else ())]
        self.plan()

    def observe_late(self) -> None:
        self.observe(late=True)

    def plan(self) -> None:
        """The controller asks the plugin about the state."""
        for found in RULES.reconcile(self.snapshot, effects.Changes()):
            if isinstance(found, effects.EvictPods):
                self.evictor.submit(found, self.snapshot, str(self.term))

    # -- what is checked ---------------------------------------------------------------------

    def evict(self) -> None:
        """The evictor works for a moment; compare what it requests with the oracle."""
        self.server.seen.clear()
        self.evictor.run_once()
        for asked in self.server.seen:
            if asked.method == "GET":
                continue
            assert asked.path.endswith("/eviction"), asked.path
            self.requested += 1
            name = asked.path.split("/")[-2]
            victim = next(pod for pod in self.planned if pod.name == name)
            self._permitted(victim)
            if self.last is not None:
                uid, at = self.last
                last = self.snapshot.pod(uid)
                unseen = last is not None and not last.terminating and uid != victim.uid
                assert not unseen or self.clock.now - at >= evictions.SEEN, (
                    "before the state has the former one"
                )
            after = {pod.name: pod for pod in self.pods()}.get(victim.name)
            if after is None or after.going:
                self.last = (victim.uid, self.clock.now)
        for one in self.server.objects.all("poddisruptionbudgets"):
            assert one["status"]["disruptionsAllowed"] >= 0

    def _permitted(self, victim: Pod) -> None:
        """Some pod waits for the victim in the state of the plan, in which terminating pods count as gone.

        A pod before it that waits for what terminates, and could evict others of the quota itself, has that.
        """
        left = [pod for pod in self.planned if not pod.going]
        asking = [pod for pod in left if pod.refused and not pod.node and pod.quota == victim.quota]
        for pod in sorted(asking, key=lambda one: (one.created, one.uid)):
            if admitted(pod, left):
                if not admitted(pod, self.planned) and any(may_go(one, pod) for one in self.planned):
                    left.append(pod.somewhere())
                continue
            stay = [one for one in left if one.node != victim.node or not may_go(one, pod)]
            if may_go(victim, pod) and admitted(pod, stay):
                return
        raise AssertionError(f"{victim.name} is evicted for nothing")

    def helped(self) -> bool:
        """Whether a pod waits for its quota, and some set of pods of a node would let it in there."""
        pods = [pod for pod in self.pods() if not pod.going]
        for pod in pods:
            for name in NODES if pod.refused and not pod.node and not admitted(pod, pods) else ():
                mine = [one for one in pods if one.node == name and may_go(one, pod)]
                for size in range(1, len(mine) + 1):
                    for going in itertools.combinations(mine, size):
                        if name in fits(pod, [one for one in pods if one not in going]):
                            return True
        return False


@pytest.mark.scenario("EQ-26", "TR-17")
@pytest.mark.parametrize("seed", range(8))
def test_pods_are_evicted_for_a_reason_one_at_a_time_and_until_nothing_more_would_help(
    cluster_side: clusters.Cluster, seed: int
) -> None:
    history = History(cluster_side, seed)
    actions = {
        history.create: 10,
        history.schedule: 6,
        history.observe: 6,
        history.observe_late: 4,
        history.delete: 2,
        history.evict: 8,
        history.end: 4,
        history.budget: 2,
        history.lose: 1,
        history.lead: 1,
    }
    for step in range(5 * STEPS):
        if step >= STEPS and history.requested:
            break
        (action,) = history.dice.choices(list(actions), list(actions.values()))
        action()
        history.clock.now += history.dice.choice([0.2, 1.0, wanted.WAITED])
    # The world calms down: no budgets, no faults, no new pods.
    for one in history.server.objects.all("poddisruptionbudgets"):
        history.server.objects.change(
            "poddisruptionbudgets",
            ("ns", one["metadata"]["name"]),
            lambda found: found | {"status": {"disruptionsAllowed": 100, "observedGeneration": 1}},
        )
    for _ in range(60):
        history.schedule()
        history.observe()
        history.clock.now += wanted.WAITED
        history.evict()
        for pod in history.pods():
            if pod.going:
                cluster_side.end_pod(pod.name)
    history.schedule()
    assert not history.helped()
    assert history.requested
