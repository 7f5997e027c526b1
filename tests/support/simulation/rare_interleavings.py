"""Interleavings that random choice seldom produces: several events in the one order that is dangerous."""

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.domain import events
from app.store import errors
from tests.support.decisions import pod_sets
from tests.support.simulation import processes
from tests.support.simulation.cluster import cluster_objects, sent_bindings
from tests.support.simulation.oracle import plain_quotas, quota_law
from tests.support.simulation.store import lossy_calls

if TYPE_CHECKING:
    from tests.support.simulation import histories

BESIDE = 0.5
"""Probability that a pod is bound while a change that affects the counts of many pods is appended."""
RESTARTED = 0.06
"""Probability that the store restarts, and a recorder records that, before a decision is appended."""
OVERTAKEN = 0.015
"""Probability that a recorder is stopped before it appends facts, until another one has taken over."""
OUTRUN, RIVALLED, LABELLED = 0.06, 0.06, 0.2
"""Probability that a pod is written to while its Binding is in flight, is bound to another node, or, where
users label pods, gets other labels."""
_BESIDE = "beside"
_SILENCE = 4.0
"""Seconds without an answer of the store: longer than a bind waits for it."""


class RareInterleavings:
    """Adds events to one simulation at the moments that matter, drawn from its generator."""

    def __init__(self, simulation: "histories.Simulation") -> None:
        self._of = simulation
        self.patching_late = False
        """The controller is stopped before it patches a pod, until no Binding is in flight."""

    # -- before an append, and while a Binding is under way ------------------------------------

    def appending(self, batch: Sequence[events.AnyEvent]) -> None:
        """A process is about to append the batch."""
        of = self._of
        placed = any(isinstance(event, events.PlacementsCommitted) for event in batch)
        if placed:
            of.losses.before_placement()
        if of.alone:
            return
        # In histories that change only pods no count exceeds its quota, but this pod ignores quotas.
        nodes = () if of.traits.steady else self._moved(batch)
        if nodes and of.rng.random() < BESIDE:
            with of.meanwhile():
                self._bind_beside(nodes)
        for pod in (*self._relabelled(batch), *self._planned(batch)[:1]):
            if of.rng.random() < BESIDE:
                with of.meanwhile():
                    of.scheduler.bind_anywhere(pod)
        for quota in self._other_quotas(batch)[:1]:
            if of.rng.random() < BESIDE:
                self._place_newcomer(quota)
        for pod in self._planned(batch)[:1]:
            if of.rng.random() < BESIDE:
                self._record_without(pod)
        for quota in self._own_quotas(batch)[:1] if of.traits.narrowing else ():
            if of.rng.random() < BESIDE:
                self._record_narrowed(quota)
        if placed and of.traits.fails_over and of.rng.random() < RESTARTED:
            with of.meanwhile():
                of.failovers.replica.follow()
                of.failovers.fail_over(now=True, restarted=True)
                of.fleet.hand_over()
        decided = any(
            isinstance(event, events.PlacementsCommitted | events.PlacementReleased) for event in batch
        )
        if not decided and len(of.fleet.busy) == 1 and of.rng.random() < OVERTAKEN:
            self._overtake(*of.fleet.busy)

    def _record_without(self, pod: cluster_objects.Json) -> None:
        """Users delete the pod, and a recorder records that."""
        of = self._of
        with of.meanwhile(of.deep):
            of.log_step(f"users delete {pod['metadata']['name']}, which is planned")
            of.cluster.objects.remove("pods", (pod["metadata"]["namespace"], pod["metadata"]["name"]))
            of.fleet.record()

    def _record_narrowed(self, quota: str) -> None:
        """Users lower the max of a quota to what it uses, and a recorder records that."""
        of = self._of
        used = of.watchdog.fold.counts().get(f"quota||{quota}|{plain_quotas.RESOURCE}", 0) // 1000
        spec, key = of.cluster.amounts(min(1, used), used), (cluster_objects.NAMESPACE, quota)
        with of.meanwhile(of.deep):
            of.log_step(f"users lower quota {quota} to the {used} cores that it uses")
            of.cluster.edit("elasticquotas", key, lambda made: made.update(spec=spec))
            of.fleet.record()

    def _overtake(self, frozen: processes.Recorder) -> None:
        """Another recorder leads before the first one resumes, and has recorded none of its facts."""
        of = self._of
        with of.meanwhile(of.deep):
            of.log_step(f"{frozen.name} is frozen before it appends")
            frozen.freeze(True)
            if not of.fleet.idle():
                of.fleet.start_recorder()
            of.clock.advance(processes.TERMS.lease + 2 * processes.TERMS.retry)
            for other in of.fleet.idle():
                with of.fleet.at_work(other):
                    of.log_step(f"{other.name} {'leads' if other.begin() else 'is on standby'}")
            frozen.freeze(False)

    def rival(self, sent: sent_bindings.Sent) -> None:
        """While a Binding is in flight, its pod changes or is bound to another node."""
        of = self._of
        if of.alone:
            return
        fate = of.rng.random()
        if fate < OUTRUN:
            of.log_step("the pod is written to before its Binding arrives")
            of.activity.refuse({"uid": sent.uid}, str(fate))
        elif fate < OUTRUN + RIVALLED:
            pods = [pod for pod in of.cluster.all("pods") if pod["metadata"]["uid"] == sent.uid]
            others = sorted(cluster_objects.NODES.keys() - {sent.node})
            with of.meanwhile():
                for pod in pods:
                    of.scheduler.bound(of.rng.randrange(len(of.fleet.extenders)), pod, of.rng.choice(others))
        elif of.traits.labelling and fate < OUTRUN + RIVALLED + LABELLED:
            with of.meanwhile(of.deep):
                self._label(sent.uid)
                if of.rng.random() < 0.5:
                    of.fleet.record()

    def _bind_beside(self, nodes: Sequence[str]) -> None:
        """A pod that policies count, and that none refuses, is bound to one of the nodes."""
        of = self._of
        taken = [pod for pod in of.cluster.all("pods") if pod["metadata"]["name"] == _BESIDE]
        pod = taken[0] if taken else of.cluster.pod(_BESIDE, cluster_objects.COUNTED)
        if not pod["spec"].get("nodeName"):
            of.scheduler.bound(of.rng.randrange(len(of.fleet.extenders)), pod, of.rng.choice(nodes))

    def _relabelled(self, batch: Sequence[events.AnyEvent]) -> list[cluster_objects.Json]:
        """The pending pods whose counts change with the batch."""
        known = self._of.watchdog.fold.pods
        uids = {
            event.pod.uid
            for event in batch
            if isinstance(event, events.PodSeen)
            and event.pod.uid in known
            and known[event.pod.uid].labels != event.pod.labels
        }
        pods = self._of.cluster.all("pods")
        return [pod for pod in pods if pod["metadata"]["uid"] in uids and not pod["spec"].get("nodeName")]

    def _planned(self, batch: Sequence[events.AnyEvent]) -> list[cluster_objects.Json]:
        """The planned pods of the batch, which are placed together with another one."""
        uids = {
            placement.pod.uid
            for event in batch
            if isinstance(event, events.PlacementsCommitted)
            for placement in event.placements
            if placement.planned
        }
        return [pod for pod in self._of.cluster.all("pods") if pod["metadata"]["uid"] in uids]

    def _place_newcomer(self, quota: str) -> None:
        """Users create a pod of the quota, and an extender places it before any recorder has recorded it.

        Its request changes the runtimes of its tree: each of two quotas may then have capacity that their
        parent has only once.
        """
        of = self._of
        names = {pod["metadata"]["name"] for pod in of.cluster.all("pods")}
        free = [name for name in cluster_objects.NAMES if name not in names]
        if free:
            with of.meanwhile():
                pod = of.cluster.pod(of.rng.choice(free), {plain_quotas.LABEL: quota})
                of.log_step(f"users create {pod['metadata']['name']} in quota {quota}")
                of.scheduler.bind_anywhere(pod)

    def _other_quotas(self, batch: Sequence[events.AnyEvent]) -> list[str]:
        """The teams' quotas other than those of the pods of the batch; empty if these have no quota."""
        own = _named_quotas(batch)
        return [team for team in quota_law.TEAMS if own and team not in own]

    def _own_quotas(self, batch: Sequence[events.AnyEvent]) -> list[str]:
        """The existing quotas of the pods of the batch."""
        there = {quota["metadata"]["name"] for quota in self._of.cluster.all("elasticquotas")}
        return sorted(there & _named_quotas(batch))

    def _moved(self, batch: Sequence[events.AnyEvent]) -> tuple[str, ...]:
        """The nodes whose pods have other counts after the batch."""
        nodes = self._of.watchdog.fold.nodes
        for event in batch:
            match event:
                case events.NodeSeen(node=node):
                    if node.name in nodes and nodes[node.name].labels != node.labels:
                        return (node.name,)
                case events.NodeGone(name=name):
                    return (name,)
                case events.ObjectObserved() | events.ObjectGone():
                    return tuple(sorted(nodes))
                case _:
                    pass
        return ()

    # -- pods that wait ------------------------------------------------------------------------

    def fence_too_late(self) -> None:
        """An extender is killed while its Binding is in flight; the controller reads the pod, which is not
        bound, and the Binding arrives before its fence.
        """
        of = self._of
        which = of.rng.randrange(len(of.fleet.extenders))
        of.fleet.record_through()
        extender, limited = of.fleet.extenders[which], cluster_objects.WEB.items()
        waiting = [pod for pod in self._waiting() if limited <= pod["metadata"]["labels"].items()]
        if extender is None or not waiting:
            return
        pod = of.rng.choice(waiting)
        meta = pod["metadata"]
        extender.client.outlasting = True
        with of.meanwhile(), contextlib.suppress(errors.StoreError, lossy_calls.Crashed):
            extender.store.follower.catch_up()
            for node in extender.kept(pod)[:1]:
                extender.offer(pod)
                error = extender.bind(meta["namespace"], meta["name"], meta["uid"], node)
                of.log_step(f"extender {which} is killed: {meta['name']} -> {node}: {error}")
            of.fleet.start_extender(which)
            self.patching_late = True
            of.fleet.settle(patient=True)
        extender.client.outlasting = self.patching_late = False

    def relabel_member(self) -> None:
        """A pod of a set is labelled so that its policy does not select it, and another one is bound."""
        of = self._of
        waiting = [pod for pod in self._waiting() if pod_sets.POD_SET in pod["metadata"]["labels"]]
        if not waiting:
            return
        changed = of.rng.choice(waiting)
        meta, pod_set = changed["metadata"], changed["metadata"]["labels"][pod_sets.POD_SET]
        key = (meta["namespace"], meta["name"])
        with of.meanwhile():
            of.log_step(f"users label {meta['name']} app=other, and bind another one of its set")
            of.cluster.edit("pods", key, lambda made: made["metadata"]["labels"].update(app="other"))
            of.fleet.record_through()
            for pod in waiting:
                if pod is not changed and pod["metadata"]["labels"][pod_sets.POD_SET] == pod_set:
                    of.scheduler.bind_anywhere(pod)
            if changed["metadata"]["uid"] in [pod["metadata"]["uid"] for pod in self._waiting()]:
                of.cluster.objects.remove("pods", key)

    def label_and_bind(self) -> None:
        """A waiting pod gets other labels before or after filter, and is bound: the log may be behind."""
        of, waiting = self._of, self._waiting()
        if not waiting:
            return
        pod = of.rng.choice(waiting)
        uid = pod["metadata"]["uid"]
        with of.meanwhile():
            if of.rng.random() < 0.5:
                of.fleet.record_through()
            self._label(uid)
            if of.rng.random() < 0.3:
                of.fleet.record_through()
            # kube-scheduler may have observed the former labels only.
            of.scheduler.bind_anywhere(of.rng.choice([pod, *self._still_waiting(uid)]))

    def label_without_store(self) -> None:
        """A pod that no policy selects gets other labels after the store has stopped to answer."""
        of, waiting = self._of, self._waiting()
        which = of.rng.randrange(len(of.fleet.extenders))
        extender = of.fleet.extenders[which]
        if not waiting or extender is None:
            return
        uid = of.rng.choice(waiting)["metadata"]["uid"]
        with of.meanwhile(of.deep), contextlib.suppress(errors.StoreError, lossy_calls.Crashed):
            self._label(uid, {"app": "other"})
            of.fleet.record_through()
            extender.store.follower.catch_up()
            of.schedule.outage = of.clock.now + _SILENCE
            for before in self._still_waiting(uid):
                self._label(uid)
                sent = of.rng.choice([before, *self._still_waiting(uid)])
                of.scheduler.bound(which, sent, of.scheduler.any_node())

    def _still_waiting(self, uid: str) -> list[cluster_objects.Json]:
        """The pending pod as it is now, unless it is bound or gone."""
        return [pod for pod in self._waiting() if pod["metadata"]["uid"] == uid]

    def _label(self, uid: str, given: Mapping[str, str] | None = None) -> None:
        """Users give a pending pod these labels, or those of a policy or of a quota, or take them from it."""
        for pod in self._still_waiting(uid):
            labels = dict(given or self._of.activity.labels.changed(pod["metadata"]["labels"]))
            self._of.log_step(f"users label {pod['metadata']['name']} {labels}")
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
            self._of.cluster.edit("pods", key, partial(_give, labels))

    def bind_to_arrival(self) -> None:
        """A pod that the policy counts, though it does not name it, is bound to a node that was created
        after the store has stopped to answer.
        """
        of, name = self._of, self._of.scheduler.any_node()
        there = [made for made in of.cluster.all("pods") if made["metadata"]["name"] == _BESIDE]
        pod = there[0] if there else of.cluster.pod(_BESIDE, cluster_objects.COUNTED)
        if pod["spec"].get("nodeName"):
            return
        if name in {made["metadata"]["name"] for made in of.cluster.all("nodes")}:
            of.cluster.objects.remove("nodes", ("", name))
        which = of.rng.randrange(len(of.fleet.extenders))
        with of.meanwhile(), contextlib.suppress(errors.StoreError, lossy_calls.Crashed):
            of.fleet.record_through()
            extender = of.fleet.extenders[which]
            if extender is None or extender.store.follower.catch_up().unlisted:
                return
            if name in {made["metadata"]["name"] for made in of.cluster.all("nodes")}:
                return  # Users have created it again meanwhile, and it may be recorded.
            of.log_step(f"node {name} is created, and the store does not answer")
            of.cluster.node(name, role=cluster_objects.NODES[name])
            of.schedule.outage = of.clock.now + _SILENCE
            of.scheduler.bound(which, pod, name)

    def _waiting(self) -> list[cluster_objects.Json]:
        """The pending pods."""
        pods = self._of.cluster.all("pods")
        return [
            pod
            for pod in pods
            if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        ]


def _give(labels: dict[str, str], pod: cluster_objects.Json) -> None:
    pod["metadata"]["labels"] = labels


def _named_quotas(batch: Sequence[events.AnyEvent]) -> set[str]:
    """The quotas named by the pods that the batch places."""
    return {
        placement.pod.labels[plain_quotas.LABEL]
        for event in batch
        if isinstance(event, events.PlacementsCommitted)
        for placement in event.placements
        if plain_quotas.LABEL in placement.pod.labels
    }
