"""The guarantees P1 to P20, checked on the log and on the cluster during a simulation.

| | |
|---|---|
| P1 | the counts and versions in Redis are the fold of the log, and so is every reader's snapshot |
|    | what a reader divides among quotas is what the log has to divide |
| P2 | an entry of the log neither changes nor disappears, except by compaction or a failover |
| P3 | the same observation twice is one event; a repeated append is carried out once |
| P4 | after a failover nothing is decided before a recorder has recorded the loss, or the doubt |
| P5 | along the log no epoch is lower than one before it |
| P6 | no placement exceeds a quota; none that may still be bound is released, or lost and replaced |
| P7 | a pod gets one node, a plan or a gang is placed whole and decided once, a successful bind is true |
| P8 | once faults are over, the log matches the cluster, within a minute and a half |
| P9 | a deleted object stays deleted, and another one of its name has another uid |
| P10 | no process repeats a failing call to the API server or the store without end |
| P14 | a reader that starts from a checkpoint equals a replay of the whole log |
| P15 | only entries below a checkpoint are trimmed |

P11 to P13 and P16 to P20 are about replies, servers and connections, which a simulation does not have.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import redis

from app.domain import events, model, snapshots
from app.kube.objects import decoding
from app.kube.writes import binding
from app.plugins.workload_policy import decoding as policy_decoding
from app.plugins.workload_policy import policy_model
from app.store import keys
from app.store.log import codecs, incarnations
from tests.support import declared
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import (
    gang_law,
    plain_fold,
    plain_quotas,
    pod_set_law,
    quota_law,
    runtime_law,
)

Raw = tuple[bytes, dict[bytes, bytes]]


UNDER_WAY = 4.9
"""Seconds for which a Binding can be in flight after its placement, in this cluster."""


class Broken(AssertionError):
    """A guarantee does not hold; the text begins with its number."""


def demand(holds: bool, guarantee: str, text: str) -> None:
    if not holds:
        raise Broken(f"{guarantee}: {text}")


class Entry(NamedTuple):
    """One entry of the log."""

    offset: int
    at: bytes
    epoch: str
    payload: bytes


class Stray(NamedTuple):
    """A placement that a failover has lost."""

    uid: str
    keys: frozenset[str]
    """The counts that it contributed to."""
    until: float
    """The moment after which no Binding of it can be in flight."""


class Loss(NamedTuple):
    """Acknowledged events that a failover has lost."""

    incarnation: str
    first: int
    last: int


class Watchdog:
    """Reads the log with plain commands, and compares."""

    def __init__(
        self,
        client: redis.Redis,
        names: keys.Keys,
        cluster: cluster_objects.Cluster,
        *,
        steady: bool = False,
        selected: bool = False,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``steady``: only pods change, so no quota may ever be exceeded in the cluster.
        ``selected``: every Required policy limits every pod that its selector selects.
        """
        self.fold = plain_fold.Fold()
        self.entries: list[Entry] = []
        self.losses: list[Loss] = []
        """Losses that no event in the log reports yet."""
        self._lost: set[tuple[str, int, int]] = set()
        """Incarnation, offset and time of each lost event: a log that has grown again holds others there."""
        self._reported: dict[int, list[Loss]] = {}
        """Offset of an event -> the losses that it reports, including those that it need not name."""
        self._named: dict[Loss, int] = {}
        """Loss -> offset of the event that names it."""
        self.incarnation = ""
        self._trimmed = 0
        self._client = client
        self._names = names
        self._cluster = cluster
        self._steady = steady
        self._selected = selected
        self._epoch = ""
        self._excused = False
        """Events were lost, and not all kinds are listed again: the log need not contain every bound pod."""
        self._monotonic = monotonic
        self._doubtful = False
        """A failover that no recorder has recorded yet."""
        self._unseen = False
        """An undetectable failover: lost capacity may be placed again, and pods may run unrecorded."""
        self._noted = False
        """The Lease names lost entries, so an event has to name them."""
        self._strays: list[Stray] = []
        self._decided = pod_set_law.Decided()
        self._carried: dict[str, tuple[str, float]] = {}
        """uid -> the version that the Binding of its placement carries, and when the placement was read."""
        self._shares: dict[int, runtime_law.Shares] = {}
        """Offset -> what quotas may use there, since the latest failover."""
        self._leading: set[str] = set()
        """uids of those that were placed together with others, by their own bind."""

    @property
    def current(self) -> bool:
        """Whether the log has all that was recorded: no loss is open, and every kind is listed."""
        return not (self._doubtful or self._unseen or self.fold.unlisted)

    def read(self) -> None:
        """Read new entries, and check each event against the state before it."""
        self._take(self._raws(self.fold.offset + 1))

    def compare(self) -> None:
        """Compare the views in Redis, and the cluster."""
        pipeline: Any = self._client.pipeline(transaction=True)
        pipeline.xrange(self._names.log, min=f"{self.fold.offset + 1}-0")
        for key in (self._names.meta, self._names.counts, self._names.versions):
            pipeline.hgetall(key)
        entries, *hashes = pipeline.execute()
        self._take(entries)
        meta, counts, versions = (
            {field.decode(): value.decode() for field, value in found.items()} for found in hashes
        )
        self.incarnation = meta.get("incarnation", "")
        head = int(meta.get("offset", "0"))
        demand(head == self.fold.offset, "P1", f"{meta}, {self.fold.offset} read")
        self._equal("counts", {key: int(count) for key, count in counts.items()}, self.fold.counts())
        self._equal("versions", {key: int(at) for key, at in versions.items()}, self.fold.versions)
        for uid, nodes in self._cluster.bound.items():
            demand(len(nodes) == 1, "P7", f"pod {uid} was bound to {sorted(nodes)}")
        if not self._excused:
            self._bound_is_recorded()
        self._quotas_hold()
        for binding_sent in self._cluster.written:
            problem = self._decided.problem(*binding_sent)
            demand(not problem, "P7", problem)
        self._cluster.written.clear()

    def quotas(self) -> dict[str, int]:
        """Domain -> limit: the policies select the same pods, so the smallest number holds."""
        found: dict[str, int] = {}
        for policy in self._cluster.all("workloadpolicies"):
            for one in policy["spec"]["allocationPolicy"]:
                found[one["name"]] = min(one["replicas"], found.get(one["name"], one["replicas"]))
        return found

    def failed_over(
        self, note: incarnations.Watermark | None = None, *, doubted: bool = False
    ) -> Loss | None:
        """Another server is the store, with fewer entries or the same; returns the loss.

        ``note``: that of the Lease. ``doubted``: the change is visible. If it is not, only readers of lost
        entries notice it.
        """
        before = self.fold
        self._shares.clear()
        found = [_entry(raw) for raw in self._raws(0)]
        kept = found[-1].offset if found else 0
        survivors, gone = self.entries[:kept], self.entries[kept:]
        demand(found == survivors[len(survivors) - len(found) :], "P2", "a copy of the log is another log")
        loss = Loss(self.incarnation, kept + 1, len(self.entries)) if kept < len(self.entries) else None
        self.entries, self.fold, self._epoch, self._trimmed = survivors, plain_fold.Fold(), "", 0
        for entry in survivors:
            self.fold.apply(codecs.decode(entry.payload))
            self._epoch = entry.epoch or self._epoch
        if loss is not None:
            # The events that reported these are lost, so they are unreported again.
            self.losses += [
                one for at in sorted(self._reported) if at > kept for one in self._reported.pop(at)
            ]
            self.losses.append(loss)
            self._named = {named: at for named, at in self._named.items() if at <= kept}
            self._lost.update((self.incarnation, entry.offset, int(entry.at)) for entry in gone)
            self._excused = True
        self._doubtful = doubted
        self._unseen |= loss is not None and not doubted
        # A loss that the first event of this incarnation names need not be named again.
        self._noted = (
            note is not None
            and self.gone((note.incarnation, note.offset, note.at_ms or 0))
            and any(
                one.incarnation == note.incarnation and one.first <= note.offset <= one.last
                for one in self.losses
            )
        )
        self._carried.clear()
        until = self._monotonic() + UNDER_WAY
        for uid, (pod, node) in before.placements.items():
            if self.fold.placements.get(uid, (pod, ""))[1] != node:
                self._strays.append(Stray(uid, before.shared(pod, node), until))
        return loss

    def gone(self, entry: tuple[str, int, int]) -> bool:
        """Whether an entry (incarnation, offset, milliseconds) was lost."""
        return entry in self._lost

    def whole(self) -> None:
        """The log still contains what was read before; newer entries are ignored."""
        found = [one for one in map(_entry, self._raws(0)) if one.offset <= len(self.entries)]
        kept = self.entries[len(self.entries) - len(found) :]
        demand(found == kept, "P2", "entries of the log are not what they were")
        if len(found) < len(self.entries):
            covered = [int(offset) for offset in self._client.hkeys(self._names.checkpoints)]
            oldest = len(self.entries) - len(found) + 1
            demand(
                max(covered, default=0) >= oldest - 1, "P15", f"{oldest}.. are left, checkpoints {covered}"
            )

    def trimmed(self, keep: int) -> None:
        """The entries to be kept exist, from the one at the checkpoint."""
        raws: Any = self._client.xrange(self._names.log, count=1)
        oldest = _entry(raws[0]).offset if raws else 0
        # Another trim may have removed more while this one waited.
        self._trimmed = max(1, keep, self._trimmed)
        demand(not self.entries or 0 < oldest <= self._trimmed, "P15", f"{oldest}.. are left of {keep}..")

    def divided_alike(self, snapshot: snapshots.Snapshot) -> None:
        """A reader of this log divides among the quotas what the log has to divide at its offset."""
        problem = runtime_law.problem(snapshot, self._shares.get(snapshot.offset, {}))
        demand(not problem, "P1", f"runtimes of quotas at {snapshot.position}: {problem}")

    def losses_are_known(self, known: Iterable[incarnations.Watermark]) -> None:
        """No event that a live reader has read was lost without a new incarnation."""
        seen = list(known)
        for loss in self.losses:
            reported = [one for one in seen if (one.incarnation, one.offset, one.at_ms) in self._lost]
            here = self.incarnation == loss.incarnation
            demand(not (reported and here), "P4", f"{loss} is known and it is not reported")

    # -- reading -----------------------------------------------------------------------------

    def _raws(self, first: int) -> list[Raw]:
        raws: Any = self._client.xrange(self._names.log, min=f"{first}-0")
        found: list[Raw] = raws
        return found

    def _take(self, raws: Iterable[Raw]) -> None:
        for raw in raws:
            entry = _entry(raw)
            demand(entry.offset == self.fold.offset + 1, "P1", f"offset {entry.offset} is not dense")
            if entry.epoch:
                rises = (len(entry.epoch), entry.epoch) >= (len(self._epoch), self._epoch)
                demand(rises, "P5", f"epoch {entry.epoch} wrote after {self._epoch}")
                self._epoch = entry.epoch
            event = _event(entry)
            doubtful = self._doubtful and not entry.epoch
            demand(not doubtful, "P4", f"{event} was appended before the failover was examined")
            self._check(event)
            problem = pod_set_law.problem(event, self.fold) or gang_law.problem(event, self.fold)
            demand(not problem, "P7", problem)
            overspent = quota_law.problem(event, self.fold)
            demand(not overspent, "P6", overspent)
            self._decided.note(event)
            self.entries.append(entry)
            self.fold.apply(event)
            if self.fold.quotas:
                self._shares[self.fold.offset] = runtime_law.shares(self.fold)
            if not self._doubtful and not self._unseen and not self.fold.unlisted:
                self._excused = False

    def _equal(self, what: str, stored: dict[str, int], folded: dict[str, int]) -> None:
        wrong = {
            key: (stored.get(key), folded.get(key))
            for key in stored.keys() | folded.keys()
            if stored.get(key) != folded.get(key)
        }
        demand(not wrong, "P1", f"{what} (stored, folded) {wrong}")

    def _quotas_hold(self) -> None:
        if self._steady and not self._unseen:
            quotas = self.quotas()
            for domain, used in self._cluster.usage(foreign=False).items():
                most = quotas.get(domain, 0)
                demand(used <= most, "P6", f"{domain}: {used} of {most} are bound")

    def _bound_is_recorded(self) -> None:
        """Each pod that runs under a policy was placed before, until the watch shows it bound."""
        located = self.fold.pods_and_nodes()
        for pod in self._cluster.all("pods"):
            meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
            counted = self._selected and self._steady and meta["labels"].get("app") == "web"
            named = not cluster_objects.LIMITING.isdisjoint(meta["labels"])
            if node and (named or counted) and meta["uid"] not in self._cluster.foreign:
                recorded = located.get(meta["uid"], (None, ""))[1]
                demand(
                    recorded == node, "P6", f"{meta['name']} runs on {node}, the log has it on {recorded!r}"
                )

    def _uncounted(self, pod: model.Pod) -> bool:
        """Whether no policy, quota or gang selects the pod, so that it may be bound without a record."""
        limited = not cluster_objects.LIMITING.isdisjoint(pod.labels) or gang_law.gang(pod)
        return pod.labels.get("app") != "web" and not limited and not self.fold.quotas

    def _check(self, event: events.AnyEvent) -> None:
        fold = self.fold
        match event:
            case events.PodSeen(pod=pod):
                demand(fold.pods.get(pod.uid) != pod, "P3", f"pod {pod.uid} is recorded again as it was")
                demand(pod.uid not in fold.gone, "P9", f"pod {pod.uid} was gone and is back")
                before = fold.pods.get(pod.uid)
                moved = before is not None and before.node and before.node != pod.node
                demand(not moved, "P9", f"pod {pod.uid} moved from {before.node if before else ''}")
            case events.PodGone(uid=uid):
                known = uid in fold.pods or uid in fold.placements
                demand(known, "P3", f"pod {uid} goes, but was not there")
            case events.NodeSeen(node=node):
                known_node = fold.nodes.get(node.name)
                demand(known_node != node, "P3", f"node {node.name} is recorded again as it was")
                same = known_node is None or known_node.uid == node.uid
                demand(same, "P9", f"node {node.name} became another without an end of the former")
            case events.ObjectObserved(identity=key, data=data):
                policy = msgspec.json.decode(data, type=policy_model.WorkloadPolicy)
                known_policy = fold.policies.get(key)
                demand(policy.key == key, "P3", f"policy {policy.key} is recorded as {key}")
                demand(known_policy != policy, "P3", f"policy {key} is recorded again as it was")
            case events.PlacementsCommitted(placements=placements):
                for at, one in enumerate(placements):
                    self._placed(one.pod, one.node, placements[:at])
                    self._carried[one.pod.uid] = one.resource_version, self._monotonic()
                    (self._leading.discard if at or len(placements) == 1 else self._leading.add)(one.pod.uid)
            case events.PlacementReleased(uid=uid, node=name):
                # A placement that an undetectable failover has lost may be appended and released again, and a
                # pod without a policy is bound without a record when the store does not answer (ADR 0001).
                placed = fold.placements.get(uid)
                if event.cause in ("unbound", "superseded"):
                    # A bind releases the gang that it placed before it sends anything; what it sends later is
                    # compared with the log then.
                    version, _ = self._carried.get(uid, ("", 0.0))
                    unsent = uid in self._leading and (uid, version) not in self._cluster.ever_sent
                    withdrawn = unsent and event.cause == "superseded"
                    carries = not withdrawn and self._carries(uid)
                    demand(not carries, "P6", f"{uid} is released, and may yet be bound")
                    bound = name in self._cluster.bound.get(uid, set())
                    unrecorded = placed is not None and self._uncounted(placed[0])
                    text = f"{uid} is released from {name}, where it is bound"
                    demand(not bound or unrecorded, "P6", text)
                named = placed is not None and not cluster_objects.LIMITING.isdisjoint(placed[0].labels)
                feasible = named and not self._unseen and self._cluster.feasible(uid, name, self._monotonic())
                demand(not feasible, "P6", f"{uid} on {name} is released, and its Binding is under way")
            case events.StoreRewound():
                self._rewound(event)
                self._doubtful = self._noted = False
            case events.StoreRestarted():
                demand(not self._noted, "P4", "the Lease names what is lost, and no event does")
                self._doubtful = False
            case _:
                pass

    def _placed(self, pod: model.Pod, name: str, beside: Sequence[model.Placement]) -> None:
        """``beside``: the other placements of the same event that count before this one."""
        fold = self.fold
        demand(not fold.unlisted, "P6", f"{pod.uid} is placed before {sorted(fold.unlisted)} are listed")
        for stray in self._strays:
            lost = stray.keys.isdisjoint(fold.shared(pod, name)) or not self._may_come(stray)
            demand(lost, "P6", f"{pod.uid} is placed beside {stray}, which may yet be bound")
        former = fold.pods_and_nodes().get(pod.uid, (pod, ""))[1]
        demand(former in ("", name), "P7", f"pod {pod.uid} is placed on {name}, but also on {former}")
        if former:
            return  # the same placement, renewed
        for policy in self._limiting(pod, name):
            node = fold.nodes.get(name)
            domain = node.labels.get(policy.topology_key) if node is not None else None
            most = next((one.replicas for one in policy.allocations if one.name == domain), 0)
            key = f"{policy.key}|{policy.topology_key}={domain}"
            taken = fold.counts().get(key, 0) + sum(key in fold.keys(one.pod, one.node) for one in beside)
            demand(taken < most, "P6", f"{key} has {taken} of {most}, gets one more")

    def _limiting(self, pod: model.Pod, name: str) -> list[policy_model.WorkloadPolicy]:
        """The policies whose quotas the pod must not exceed."""
        policies = self.fold.policies
        found = [policy for policy in policies.values() if self._selected and plain_fold.limits(policy, pod)]
        if "workload-policy/kosmos.io" in pod.labels:
            policy = policies.get(f"{pod.namespace}/{pod.labels['workload-policy/kosmos.io']}")
            if policy is None:
                raise Broken(f"P6: pod {pod.uid} is placed on {name} under a policy that does not exist")
            selected = plain_fold.limits(policy, pod)
            demand(
                selected, "P6", f"pod {pod.uid} is placed on {name} under a policy that does not select it"
            )
            found += [] if policy in found else [policy]
        return found

    def _carries(self, uid: str) -> bool:
        """Whether a Binding of the pod's placement in flight would be carried out when it arrives."""
        version, since = self._carried.get(uid, ("", 0.0))
        return (
            bool(version)
            and self._monotonic() - since < binding.UNFENCED
            and any(
                pod["metadata"]["uid"] == uid
                and pod["metadata"]["resourceVersion"] == version
                and not pod["spec"].get("nodeName")
                for pod in self._cluster.all("pods")
            )
        )

    def _may_come(self, stray: Stray) -> bool:
        """Whether the pod exists unbound, and a Binding of it may be in flight."""
        there = any(pod["metadata"]["uid"] == stray.uid for pod in self._cluster.all("pods"))
        return (
            not self._unseen
            and there
            and stray.uid not in self._cluster.bound
            and self._monotonic() < stray.until
        )

    def _rewound(self, event: events.StoreRewound) -> None:
        """The event reports an actual loss."""
        reported = [
            loss
            for loss in self.losses
            # A later incarnation began on entries of the former one, which are lost with it.
            if loss.incarnation == event.from_incarnation
            or incarnations.later(loss.incarnation, event.from_incarnation)
            if _overlap(event, loss)
        ]
        # The other way round: the first entries of an incarnation are those of the one that it continued.
        begun = [loss.first for loss in self.losses if loss.incarnation == event.from_incarnation]
        reported += [
            loss
            for loss in self.losses
            if incarnations.later(event.from_incarnation, loss.incarnation)
            if loss.last < min(begun, default=0) and _overlap(event, loss)
        ]
        # The start of an incarnation is repeated if its reply is lost. With a failover in between there are
        # two of that name, and a reader of the first one misses its entries in the second.
        twice = event.from_incarnation == self.incarnation and any(
            incarnation == self.incarnation and event.lost_from <= offset <= event.lost_to
            for incarnation, offset, _ in self._lost
        )
        # The recorder that began the former incarnation may not have detected every loss until then.
        late = [loss for losses in self._reported.values() for loss in losses if loss not in self._named]
        reported += [loss for loss in late if _names(event, loss)]
        demand(bool(reported) or twice, "P4", f"{event} reports nothing that was lost: {self.losses}")
        at = len(self.entries) + 1
        self._named.update((loss, at) for loss in reported if _names(event, loss))
        # No process still holds an entry that was lost before this incarnation.
        self._reported[at] = self.losses
        self.losses = []
        self._excused = True

    # -- the end -----------------------------------------------------------------------------

    def converged(self, readers: Iterable[snapshots.Snapshot] = ()) -> None:
        """The log matches the cluster, no placement is in flight, and all readers have the same state."""
        self.compare()
        self.whole()
        fold, cluster = self.fold, self._cluster
        pods = {pod.uid: pod for pod in (decoding.pod(_bytes(made)) for made in cluster.all("pods"))}
        nodes = {node.name: node for node in (decoding.node(_bytes(made)) for made in cluster.all("nodes"))}
        policies = {
            policy.key: policy
            for policy in (policy_decoding.policy(_bytes(made)) for made in cluster.all("workloadpolicies"))
        }
        demand(fold.pods == pods, "P8", f"pods differ: {_difference(fold.pods, pods)}")
        demand(fold.nodes == nodes, "P8", f"nodes differ: {_difference(fold.nodes, nodes)}")
        demand(fold.policies == policies, "P8", f"policies differ: {_difference(fold.policies, policies)}")
        quotas = {one["name"]: _cores(one) for one in fold.quotas.values()}
        wanted = {made["metadata"]["name"]: made["spec"] for made in cluster.all("elasticquotas")}
        demand(quotas == wanted, "P8", f"quotas differ: log {quotas}, cluster {wanted}")
        demand(not fold.placements, "P8", f"in flight forever: {sorted(fold.placements)}")
        demand(not fold.unlisted, "P8", f"never listed again after a loss: {sorted(fold.unlisted)}")
        if cluster_objects.POLICY in {policy.name for policy in policies.values()}:
            prefix = f"{cluster_objects.NAMESPACE}/{cluster_objects.POLICY}|{cluster_objects.KEY}="
            counted = {
                key.removeprefix(prefix): n for key, n in fold.counts().items() if key.startswith(prefix)
            }
            demand(counted == cluster.usage(), "P8", f"{counted}, the cluster has {cluster.usage()}")
        for snapshot in readers:
            self._held(snapshot)

    def _held(self, snapshot: snapshots.Snapshot) -> None:
        """The snapshot of a reader at the head of the log, from whatever checkpoint it started."""
        fold = self.fold
        at = f"a reader at {snapshot.position}"
        demand(snapshot.offset == fold.offset, "P1", f"{at}, the log ends at {fold.offset}")
        demand(dict(snapshot.pods) == fold.pods, "P14", f"{at}: pods differ")
        demand(dict(snapshot.nodes) == fold.nodes, "P14", f"{at}: nodes differ")
        demand(declared.policies(snapshot) == fold.policies, "P14", f"{at}: policies differ")
        demand(not snapshot.placements, "P14", f"{at}: placements differ")
        demand(dict(snapshot.counts) == fold.counts(), "P14", f"{at}: counts differ")
        demand(dict(snapshot.versions) == fold.versions, "P14", f"{at}: versions differ")
        self.divided_alike(snapshot)


def _entry(raw: Raw) -> Entry:
    identity, fields = raw
    return Entry(int(identity.partition(b"-")[0]), fields[b"t"], fields[b"w"].decode(), fields[b"e"])


def _event(entry: Entry) -> events.AnyEvent:
    return codecs.decode(entry.payload)


def _overlap(event: events.StoreRewound, loss: Loss) -> bool:
    return event.lost_from <= loss.last and loss.first <= event.lost_to


def _names(event: events.StoreRewound, loss: Loss) -> bool:
    return loss.incarnation == event.from_incarnation and _overlap(event, loss)


def _cores(quota: plain_quotas.Quota) -> dict[str, dict[str, int]]:
    """The specification of a quota, in whole cores."""
    return {part: {"cpu": quota.get(part, {}).get("cpu", 0) // 1000} for part in ("min", "max")}


def _bytes(made: cluster_objects.Json) -> bytes:
    return msgspec.json.encode(made)


def _difference(
    have: dict[str, model.Pod] | dict[str, model.Node] | dict[str, policy_model.WorkloadPolicy],
    want: dict[str, model.Pod] | dict[str, model.Node] | dict[str, policy_model.WorkloadPolicy],
) -> str:
    named = sorted(key for key in have.keys() | want.keys() if have.get(key) != want.get(key))
    return "; ".join(f"{key}: log {have.get(key)}, cluster {want.get(key)}" for key in named[:3])
