"""kube-scheduler preempts: for a group of its own as a whole, and pod by pod with the call of preempt.

While it does, no other process takes steps: what the extender answers is then checked on the state of the log
that it has read. kube-scheduler mostly sees the cluster as the log has it, and sometimes more.
"""

import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

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
"""Probability that members of the group are created before, and other pods take the capacity that is left."""
AHEAD = 0.1
"""Probability that kube-scheduler sees the API server's state, also where the log lags behind it."""
ASSUMED = 0.5
"""Probability that kube-scheduler has assumed the pods that are placed; else their Bindings failed for it."""
AGAIN = 0.3
"""Probability that a budget or the labels of a victim change, and the group is tried again."""
FUTILE = 0.4
"""Probability that kube-scheduler cannot evict, and nominates no member."""
UNSEEN = 0.2
"""Probability that kube-scheduler sees a victim that another scheduler has bound, and the log has not yet."""
HASTY = 0.2
"""Probability that a member is bound although no pod was evicted."""
JUDGED = "judged"
NOMINATED, LIMITED = (
    "judged but for its harm: a member is nominated",
    "judged but for its harm: a quota limits it",
)
"""How the oracle judges a group's cycle; each other key of ``cycles`` is a reason why it does not."""
_AHEAD = "kube-scheduler is ahead of the log"
_ELSEWHERE = "kube-scheduler holds another node for a pod that is placed"
_GROUP = f"{cluster_objects.NAMESPACE}/{eviction_law.PREEMPTING}"


class View(NamedTuple):
    """What kube-scheduler sees."""

    pods: tuple[model.Pod, ...]
    capacities: dict[str, int]
    """Node -> pods that it takes."""

    def held(self) -> dict[str, list[model.Pod]]:
        """Node -> the pods that occupy it."""
        found: dict[str, list[model.Pod]] = {name: [] for name in self.capacities}
        for pod in self.pods:
            if pod.node in found and not pod.finished:
                found[pod.node].append(pod)
        return found

    def taken(self) -> dict[str, tuple[int, set[tuple[str, int]]]]:
        """Node -> the pods that it takes, and uid and priority of those that are on it or wait for it."""
        found = {
            name: (self.capacities[name], {(pod.uid, pod.priority) for pod in pods})
            for name, pods in self.held().items()
        }
        for pod in self.waiting():
            if pod.nominated in found:
                found[pod.nominated][1].add((pod.uid, pod.priority))
        return found

    def less_important(self, pod: model.Pod, *, beside: Container[str]) -> dict[str, list[model.Pod]]:
        """Node -> the pods that occupy it and may be evicted for the pod; none of the uids ``beside``."""
        return defaultdict(
            list,
            {
                name: [one for one in pods if one.priority < pod.priority and one.uid not in beside]
                for name, pods in self.held().items()
            },
        )

    def waiting(self) -> list[model.Pod]:
        return [pod for pod in self.pods if not pod.node and not pod.terminating and not pod.finished]

    def offered(
        self, pod: model.Pod, assumed: Iterable[model.Pod], nodes: Iterable[str], *, supposed: bool
    ) -> list[str]:
        """Those of the nodes with capacity for the pod; if ``supposed``, as if less important ones were gone.

        ``assumed``: the members before it, on the nodes that they are nominated for.
        """
        beside = {one.uid: one for one in self.waiting()} | {one.uid: one for one in assumed}
        taken = Counter(
            one.nominated for one in beside.values() if one.priority >= pod.priority and one.uid != pod.uid
        )
        for name, pods in self.held().items():
            taken[name] += sum(one.priority >= pod.priority or not supposed for one in pods)
        return [name for name in nodes if name in self.capacities and taken[name] < self.capacities[name]]


class Preemptions:
    """The preemptions of one simulation, drawn from its generator."""

    def __init__(self, simulation: "histories.Simulation", record: Callable[[], None]) -> None:
        """``record``: a recorder observes every change."""
        self._of = simulation
        self._record = record
        self.cycles: Counter[str] = Counter()
        """JUDGED, NOMINATED, LIMITED, or why a group's cycle is not judged -> cycles."""
        self._asked = False
        """Whether the extender was asked in the present cycle: about no node it is not."""
        self._unseen = random.Random(f"{simulation.seed} unseen")
        """Of its own, so that the other steps are those of the seed."""

    def roomy(self) -> list[str]:
        """The nodes with capacity, according to the API server, in any order."""
        view = self._current()
        found = [name for name, pods in view.held().items() if len(pods) < view.capacities[name]]
        self._of.rng.shuffle(found)
        return found

    # -- a group as a whole ----------------------------------------------------------------------

    def group(self) -> None:
        """The group's cycle with every less important pod taken away, then the evictions, or the binds."""
        of = self._of
        if of.rng.random() < ARRIVING:
            of.activity.crowd()
        with self._alone() as extender:
            if extender is None:
                self.cycles["no extender runs"] += 1
                return
            found = self._cycle(extender)
            if found is not None and of.rng.random() < AGAIN:
                if of.rng.random() < 0.5:
                    of.activity.budgets()
                else:
                    of.activity.protect([pod.uid for pod in found[1]])
                self._record()
                of.watchdog.read()
                found = self._cycle(extender)
            if found is None:
                return
            seats, victims = found
            if not victims or of.rng.random() < HASTY:
                self._bound(extender, seats)
            if victims and of.rng.random() >= FUTILE:
                self._nominate(seats)
                self._evict(victims)

    def _cycle(self, extender: processes.Extender) -> tuple[dict[str, str], tuple[model.Pod, ...]] | None:
        """The nodes that the members are answered, and whom kube-scheduler evicts for that.

        None if too few have one, or the answers are not judged.
        """
        of = self._of
        view, unlike = self._seen()
        members = [pod for pod in view.waiting() if gang_law.gang(pod) == _GROUP]
        if not members:
            return None
        group = eviction_law.Group(of.watchdog.fold, _GROUP, eviction_law.HIGH)
        known = not unlike or (unlike == _AHEAD and self._matches_the_log(view, members, group))
        # Members that are nominated leave one another's nodes alone, whatever is the least harm.
        how = NOMINATED if any(pod.nominated for pod in members) else JUDGED
        how = LIMITED if any(map(_limited, members)) else how
        for supposed in (False, True):
            answered = self._answers(extender, view, members, supposed=supposed)
            why = "a member gets no answer" if answered is None else self._unsure(extender, group)
            if any(group.placed.get(uid, node) != node for uid, node in (answered or {}).items()):
                why = "a member is placed on a node that is not offered"
            why = why or ("" if known else unlike)
            if answered is None or why:
                self.cycles[why] += 1
                return None
            of.log_step(f"kube-scheduler {'preempts' if supposed else 'asks'} for {_GROUP}: {answered}")
            seats = {uid: node for uid, node in answered.items() if uid not in group.placed}
            problem = group.unfit(seats)
            if how == JUDGED and not problem:
                problem = group.problem(seats) if supposed else group.as_it_is(seats)
            guarantees.demand(not problem, "P7", f"group {_GROUP}: {problem}")
            if seats and len(seats) >= max(1, group.needed):
                break
        else:
            seats = {}
        self.cycles[how] += 1
        if not seats:
            self._nominate(dict.fromkeys((pod.uid for pod in members), ""))
            return None
        victims = group.evictions(seats).victims if supposed else ()
        broken = eviction_law.broken_gang(of.watchdog.fold, victims)
        guarantees.demand(not broken, "P7", f"group {_GROUP} preempts: {broken}")
        return seats, victims

    def _matches_the_log(self, view: View, members: list[model.Pod], group: eviction_law.Group) -> bool:
        """Whether kube-scheduler sees the members, nodes and nominations that the log has."""
        known = {pod.uid for pod in members} == {*group.waiting, *group.placed}
        return known and view.taken() == self._recorded_view().taken()

    def _answers(
        self, extender: processes.Extender, view: View, members: list[model.Pod], *, supposed: bool
    ) -> dict[str, str] | None:
        """uid -> the node that filter answers, of those that have one; None: some call got no answer."""
        self._asked = False
        found, assumed = dict[str, str](), list[model.Pod]()
        for pod in members:
            node = self._answer(extender, view, pod, assumed, supposed=supposed)
            if node is None:
                return None
            if node:
                found[pod.uid] = node
                assumed.append(msgspec.structs.replace(pod, nominated=node))
        return found

    def _unsure(self, extender: processes.Extender, group: eviction_law.Group) -> str:
        """Why what is answered cannot be judged on the log; empty if it can."""
        watchdog = self._of.watchdog
        if not watchdog.current:
            return "the log may lack events"
        if self._asked and extender.store.follower.snapshot.offset != watchdog.fold.offset:
            return "the extender lags behind the log"
        if group.torn:
            return "a node is gone on which a pod of a group that is disrupted as a whole runs"
        return ""

    def _answer(
        self,
        extender: processes.Extender,
        view: View,
        pod: model.Pod,
        assumed: list[model.Pod],
        *,
        supposed: bool,
    ) -> str | None:
        """The node that filter answers, the nominated one being offered first; None: no answer."""
        shuffled = sorted(view.capacities)
        self._of.rng.shuffle(shuffled)
        for nodes in ([pod.nominated], shuffled):
            offered = view.offered(pod, assumed, nodes, supposed=supposed)
            if not offered:
                continue
            self._asked = True
            try:
                found = filtering.run(extender.context, pod, candidates.Candidates(offered))
            except errors.VerbError:
                return None
            if found.trace.kept:
                return min(found.trace.kept)
        return ""

    def _bound(self, extender: processes.Extender, seats: dict[str, str]) -> None:
        """The members are bound at once, and their placements are within the capacity of the nodes."""
        of = self._of
        first = len(of.watchdog.entries)
        pods = [pod for pod in of.cluster.all("pods") if pod["metadata"]["uid"] in seats]
        of.rng.shuffle(pods)
        for pod in pods:
            of.scheduler.bound(of.fleet.extenders.index(extender), pod, seats[pod["metadata"]["uid"]])
            if extender not in of.fleet.extenders:
                break
        of.watchdog.read()
        if len(of.watchdog.entries) > first:
            group = eviction_law.Group(of.watchdog.fold, _GROUP, eviction_law.HIGH)
            problem = group.overfull(seats)
            guarantees.demand(not problem, "P7", f"group {_GROUP} is placed: {problem}")

    # -- pod by pod ------------------------------------------------------------------------------

    def pod(self) -> None:
        """The call of preempt for a pod, and the evictions on one of the nodes that are kept."""
        of = self._of
        with self._alone() as extender:
            fold = of.watchdog.fold
            view, _ = self._seen()
            waiting = [
                pod
                for pod in view.waiting()
                if pod.priority in (eviction_law.MIDDLE, eviction_law.TOP) and pod.uid in fold.pods
            ]
            if extender is None or not waiting:
                return
            asked = of.rng.choice(waiting)
            # kube-scheduler may see its victims before the log has them, and an extender what a loss took.
            unrecorded = self._current().less_important(asked, beside=fold.pods_and_nodes())
            recorded = of.watchdog.recorded()
            if fold.nodes and self._unseen.random() < UNSEEN:
                victim = model.Pod(uid="unseen", namespace="others", name="unseen")
                unrecorded[self._unseen.choice(sorted(fold.nodes))].append(victim)
            offer = {
                name: (*eviction_law.dry_run(fold, asked, name), *unrecorded[name])
                for name in sorted(fold.nodes)
            }
            offer = {name: victims for name, victims in offer.items() if victims}
            if not offer:
                return
            uids = {name: [victim.uid for victim in victims] for name, victims in offer.items()}
            found = preempting.run(extender.context, asked, uids)
            of.log_step(f"kube-scheduler preempts for {asked.name}: {sorted(found.kept)} of {sorted(offer)}")
            if not found.kept:
                return
            agreed = of.watchdog.current and extender.store.follower.snapshot.offset == fold.offset
            for name, kept in found.kept.items():
                listed = {victim.uid for victim in offer[name]}
                guarantees.demand(set(kept.uids) == listed, "P7", f"other victims on {name}: {kept.uids}")
                known = all(victim.uid in recorded for victim in unrecorded[name])
                problem = "" if known else "a victim is not recorded"
                if agreed and not problem:
                    problem = eviction_law.problem(fold, asked, name, offer)
                guarantees.demand(not problem, "P7", f"{asked.name} preempts on {name}: {problem}")
            least = min(sorted(found.kept), key=lambda name: len(offer[name]))
            self._nominate({asked.uid: least})
            self._evict(offer[least])

    # -- what kube-scheduler sees and does --------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self) -> Iterator[processes.Extender | None]:
        """An extender, while no other process acts; mostly everything is recorded before."""
        of = self._of
        with of.meanwhile(of.deep):
            if of.rng.random() < CURRENT:
                self._record()
            of.watchdog.read()
            extender = of.rng.choice(of.fleet.extenders)
            try:
                yield extender
            except lossy_calls.Crashed:
                of.fleet.start_extender(of.fleet.extenders.index(extender))

    def _seen(self) -> tuple[View, str]:
        """What kube-scheduler sees now, and why answers to that may not be judged; empty if they may."""
        if self._of.rng.random() < AHEAD:
            return self._current(), _AHEAD
        placed = [
            (pod, node) for pod, node in self._of.watchdog.fold.pods_and_nodes().values() if node != pod.node
        ]
        if placed and self._of.rng.random() < ASSUMED:
            return self._recorded_view(assumed=True), ""
        elsewhere = any(pod.nominated not in ("", node) for pod, node in placed)
        return self._recorded_view(), _ELSEWHERE if elsewhere else ""

    def _recorded_view(self, *, assumed: bool = False) -> View:
        """What the log has now.

        ``assumed``: pods that are placed count on their nodes, and their nominations are deleted.
        """
        fold = self._of.watchdog.fold
        capacities = {name: node.allocatable.get("pods", 0) for name, node in fold.nodes.items()}
        pods = list(fold.pods.values())
        if assumed:
            pods = [
                pod if node == pod.node else msgspec.structs.replace(pod, node=node, nominated="")
                for pod, node in fold.pods_and_nodes().values()
            ]
        return View(tuple(pods), capacities)

    def _current(self) -> View:
        """What the API server has now."""
        cluster = self._of.cluster
        nodes = [decoding.node(msgspec.json.encode(made)) for made in cluster.all("nodes")]
        pods = [decoding.pod(msgspec.json.encode(made)) for made in cluster.all("pods")]
        return View(tuple(pods), {node.name: node.allocatable.get("pods", 0) for node in nodes})

    def _nominate(self, seats: dict[str, str]) -> None:
        """kube-scheduler writes the node for which a pod waits into its status."""
        for pod in self._of.cluster.all("pods"):
            node = seats.get(pod["metadata"]["uid"])
            if node is not None and node != _nominated(pod) and not pod["spec"].get("nodeName"):
                key = (cluster_objects.NAMESPACE, pod["metadata"]["name"])
                self._of.log_step(f"kube-scheduler nominates {key[1]} for {node or 'no node'}")
                self._of.cluster.edit("pods", key, cluster_activity.nominate(node))

    def _evict(self, victims: Iterable[model.Pod]) -> None:
        """They terminate, or are gone at once."""
        of = self._of
        there = {pod["metadata"]["uid"] for pod in of.cluster.all("pods")}
        for victim in victims:
            if victim.uid not in there:
                continue
            key = (victim.namespace, victim.name)
            of.log_step(f"kube-scheduler evicts {victim.name}")
            if of.rng.random() < 0.5:
                of.cluster.edit("pods", key, cluster_activity.terminate)
            else:
                of.cluster.objects.remove("pods", key)


def _nominated(pod: cluster_objects.Json) -> str:
    return str(pod["status"].get("nominatedNodeName", ""))


def _limited(pod: model.Pod) -> bool:
    """Whether a policy or a quota may refuse the pod a node."""
    return not cluster_objects.LIMITING.isdisjoint(pod.labels)
