"""kube-scheduler preempts: for a group of its own as a whole, and pod by pod with the call of preempt.

While it does, no other process takes steps: what the extender answers is then checked on the state of the log
that it has read.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from app.domain import model
from app.kube.objects import decoding
from app.verbs import candidates, errors, filtering, preempting
from tests.support.simulation import processes
from tests.support.simulation.cluster import cluster_activity, cluster_objects
from tests.support.simulation.oracle import eviction_law, gang_law, guarantees
from tests.support.simulation.store import lossy_calls

if TYPE_CHECKING:
    from tests.support.simulation import histories

CURRENT = 0.8
"""Probability that everything is recorded before."""
ARRIVING = 0.5
"""Probability that members of the group are created before, and other pods take the room that is left."""
AGAIN = 0.3
"""Probability that the budgets change, and the group is tried again."""
HASTY = 0.2
"""Probability that a member is bound although no pod was evicted."""
_GROUP = f"{cluster_objects.NAMESPACE}/{eviction_law.PREEMPTING}"


class Preemptions:
    """The preemptions of one simulation, drawn from its generator."""

    def __init__(self, simulation: "histories.Simulation", record: Callable[[], None]) -> None:
        """``record``: a recorder observes every change."""
        self._of = simulation
        self._record = record

    def roomy(self) -> list[str]:
        """The nodes with room, according to the API server, in any order."""
        found = [name for name, pods in self._held().items() if len(pods) < self._room(name)]
        self._of.rng.shuffle(found)
        return found

    # -- a group as a whole ----------------------------------------------------------------------

    def group(self) -> None:
        """The group's cycle with every less important pod taken away, then the evictions, or the binds."""
        of = self._of
        if of.rng.random() < ARRIVING:
            of.activity.crowd()
        with self._alone() as extender:
            members = [pod for pod in self._waiting() if _priority(pod) == eviction_law.HIGH]
            if extender is None or not members:
                return
            found = self._cycle(extender, members)
            if found is not None and of.rng.random() < AGAIN:
                of.activity.budgets()
                self._record()
                found = self._cycle(extender, members)
            if found is None:
                return
            seats, victims = found
            if not victims or of.rng.random() < HASTY:
                self._bound(extender, [pod for pod in members if pod["metadata"]["uid"] in seats], seats)
            self._evict([pod.name for pod in victims])

    def _cycle(
        self, extender: processes.Extender, members: list[cluster_objects.Json]
    ) -> tuple[dict[str, str], tuple[model.Pod, ...]] | None:
        """The nodes that the members are answered, and whom kube-scheduler evicts for that.

        None if too few have one, or the answers are not checked: the log does not match the API server, a
        member is limited otherwise, or placed already.
        """
        of, seats = self._of, dict[str, str]()
        for pod in members:
            node = self._answer(extender, pod)
            if node is None:
                return None
            if node:
                seats[pod["metadata"]["uid"]] = node
        group = eviction_law.Group(of.watchdog.fold, _GROUP, eviction_law.HIGH)
        of.log_step(f"kube-scheduler preempts for {_GROUP}: {sorted(seats.values())}")
        uids = sorted(pod["metadata"]["uid"] for pod in members)
        known = self._agreed(extender) and group.waiting == uids
        if not known or not group.complete or group.placed or any(map(_limited, members)):
            return None
        problem = group.problem(seats)
        guarantees.demand(not problem, "P7", f"group {_GROUP}: {problem}")
        victims = group.evictions(seats).victims
        broken = eviction_law.broken_gang(of.watchdog.fold, victims)
        guarantees.demand(not broken, "P7", f"group {_GROUP} preempts: {broken}")
        return (seats, victims) if len(seats) >= max(1, group.needed) else None

    def _answer(self, extender: processes.Extender, pod: cluster_objects.Json) -> str | None:
        """The node that filter answers, of those with room if less important pods go; None: no answer."""
        offered = [
            name
            for name, pods in self._held().items()
            if sum(_priority(one) >= _priority(pod) for one in pods) < self._room(name)
        ]
        self._of.rng.shuffle(offered)
        asked = _decoded(pod)
        try:
            found = filtering.run(extender.context, asked, candidates.Candidates(offered))
        except errors.VerbError:
            return None
        return next(iter(found.trace.kept), "") if offered else ""

    def _bound(
        self, extender: processes.Extender, pods: list[cluster_objects.Json], seats: dict[str, str]
    ) -> None:
        """The members are bound at once, and their placements are within the room of the nodes."""
        of = self._of
        first = len(of.watchdog.entries)
        of.rng.shuffle(pods)
        for pod in pods:
            of.bound(of.extenders.index(extender), pod, seats[pod["metadata"]["uid"]])
            if extender not in of.extenders:
                break
        of.watchdog.read()
        if len(of.watchdog.entries) > first:
            problem = eviction_law.overfull(of.watchdog.fold, seats.values())
            guarantees.demand(not problem, "P7", f"group {_GROUP} is placed: {problem}")

    # -- pod by pod ------------------------------------------------------------------------------

    def pod(self) -> None:
        """The call of preempt for a pod, and the evictions on one of the nodes that are kept."""
        of = self._of
        with self._alone() as extender:
            waiting = [pod for pod in self._waiting() if _priority(pod) == eviction_law.MIDDLE]
            if extender is None or not waiting:
                return
            pod = of.rng.choice(waiting)
            asked = _decoded(pod)
            budgets = of.watchdog.fold.budgets
            offer = {
                name: eviction_law.dry_run(
                    [_decoded(one) for one in pods],
                    self._room(name),
                    asked.priority,
                    budgets,
                )
                for name, pods in self._held().items()
                if len(pods) >= self._room(name)
            }
            offer = {name: victims for name, victims in offer.items() if victims}
            if not offer:
                return
            uids = {name: [victim.uid for victim in victims] for name, victims in offer.items()}
            found = preempting.run(extender.context, asked, uids)
            of.log_step(f"kube-scheduler preempts for {asked.name}: {sorted(found.kept)} of {sorted(offer)}")
            if not found.kept:
                return
            fold, agreed = of.watchdog.fold, self._agreed(extender)
            for name, kept in found.kept.items():
                listed = {victim.uid for victim in offer[name]}
                guarantees.demand(set(kept.uids) == listed, "P7", f"other victims on {name}: {kept.uids}")
                problem = eviction_law.broken_gang(fold, offer[name]) if agreed else ""
                if not problem and agreed and gang_law.gang(asked):
                    problem = eviction_law.needless(fold, asked, name, offer)
                guarantees.demand(not problem, "P7", f"{asked.name} preempts on {name}: {problem}")
            least = min(sorted(found.kept), key=lambda name: len(offer[name]))
            self._evict([victim.name for victim in offer[least]])

    # -- what kube-scheduler sees -----------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self) -> Iterator[processes.Extender | None]:
        """An extender, while no other process acts; mostly everything is recorded before."""
        of = self._of
        with of.meanwhile(of.deep):
            if of.rng.random() < CURRENT:
                self._record()
            of.watchdog.read()
            extender = of.rng.choice(of.extenders)
            try:
                yield extender
            except lossy_calls.Crashed:
                of.start_extender(of.extenders.index(extender))

    def _agreed(self, extender: processes.Extender) -> bool:
        """Whether the extender has read the log to its end, and the log matches the API server."""
        of = self._of
        fold = of.watchdog.fold
        if not of.watchdog.current or extender.store.follower.snapshot.offset != fold.offset:
            return False
        pods = {pod.uid: pod for pod in map(_decoded, of.cluster.all("pods"))}
        nodes = {made["metadata"]["name"] for made in of.cluster.all("nodes")}
        limits = {
            made["metadata"]["name"]: made["status"]["disruptionsAllowed"]
            for made in of.cluster.all("poddisruptionbudgets")
        }
        known = {limit["name"]: limit.get("allowed", 0) for limit in fold.budgets.values()}
        return fold.pods == pods and set(fold.nodes) == nodes and known == limits

    def _waiting(self) -> list[cluster_objects.Json]:
        return [
            pod
            for pod in self._of.cluster.all("pods")
            if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        ]

    def _held(self) -> dict[str, list[cluster_objects.Json]]:
        """Node -> the pods that occupy it."""
        found: dict[str, list[cluster_objects.Json]] = {
            made["metadata"]["name"]: [] for made in self._of.cluster.all("nodes")
        }
        for pod in self._of.cluster.all("pods"):
            node = pod["spec"].get("nodeName", "")
            if node in found and pod["status"]["phase"] not in ("Succeeded", "Failed"):
                found[node].append(pod)
        return found

    def _room(self, name: str) -> int:
        node = self._of.cluster.objects.get("nodes", ("", name))
        return int(node["status"]["allocatable"]["pods"])

    def _evict(self, names: list[str]) -> None:
        """They terminate, or are gone at once."""
        of = self._of
        for name in names:
            key = (cluster_objects.NAMESPACE, name)
            if not any(pod["metadata"]["name"] == name for pod in of.cluster.all("pods")):
                continue
            of.log_step(f"kube-scheduler evicts {name}")
            if of.rng.random() < 0.5:
                of.cluster.edit("pods", key, cluster_activity.terminate)
            else:
                of.cluster.objects.remove("pods", key)


def _priority(pod: cluster_objects.Json) -> int:
    return int(pod["spec"].get("priority", 0))


def _limited(pod: cluster_objects.Json) -> bool:
    """Whether a policy or a quota may refuse the pod a node."""
    return not cluster_objects.LIMITING.isdisjoint(pod["metadata"]["labels"])


def _decoded(pod: cluster_objects.Json) -> model.Pod:
    return decoding.pod(msgspec.json.encode(pod))
