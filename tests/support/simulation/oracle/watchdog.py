"""Reads the log of a simulation while it grows, and compares it with the views, the cluster and the laws."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import redis

from app.domain import events, snapshots
from app.store import keys
from app.store.log import codecs, incarnations
from tests.support.simulation.cluster import cluster_objects
from tests.support.simulation.oracle import (
    binding_law,
    convergence,
    gang_law,
    guarantees,
    losses,
    observation_law,
    placement_law,
    plain_fold,
    pod_set_law,
    quota_law,
    runtime_law,
    unrecorded_law,
)

Raw = tuple[bytes, dict[bytes, bytes]]


class Entry(NamedTuple):
    """One entry of the log."""

    offset: int
    at: bytes
    epoch: str
    payload: bytes


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
        self.losses = losses.Losses()
        self.incarnation = ""
        self._trimmed = 0
        self._client = client
        self._names = names
        self._cluster = cluster
        self._steady = steady
        self._selected = selected
        self._monotonic = monotonic
        self._epoch = ""
        self._excused = False
        """Events were lost, and not all kinds are listed again: the log need not contain every bound pod."""
        self._lost_pods: set[str] = set()
        """Uids of the pods that a reader of lost entries may have on a node, though the log has not."""
        self._placements = placement_law.PlacementLaw(
            cluster, self.losses, selected=selected, monotonic=monotonic
        )
        self._decided = pod_set_law.Decided()
        self._placed = binding_law.Placed()
        self._shares: dict[int, runtime_law.Shares] = {}
        """Offset -> what quotas may use there, since the latest failover."""

    @property
    def current(self) -> bool:
        """Whether the log has all that was recorded: no loss is open, and every kind is listed."""
        return not (self.losses.doubtful or self.losses.unseen or self.fold.unlisted)

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
        guarantees.demand(head == self.fold.offset, "P1", f"{meta}, {self.fold.offset} read")
        self._equal("counts", {key: int(count) for key, count in counts.items()}, self.fold.counts())
        self._equal("versions", {key: int(at) for key, at in versions.items()}, self.fold.versions)
        for uid, nodes in self._cluster.bound.items():
            guarantees.demand(len(nodes) == 1, "P7", f"pod {uid} was bound to {sorted(nodes)}")
        if not self._excused:
            self._bound_is_recorded()
        self._quotas_hold()
        for written in self._cluster.written:
            problem = self._decided.problem(
                written.pod.uid,
                written.version,
                written.annotations,
                unrecorded=pod_set_law.unrecorded(written),
            )
            guarantees.demand(not problem, "P7", problem)
            problem = self._placed.problem(written)
            guarantees.demand(not problem, "P6", problem)
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
    ) -> losses.Loss | None:
        """Another server is the store, with fewer entries or the same; returns the loss.

        ``note``: that of the Lease. ``doubted``: the change is visible. If it is not, only readers of lost
        entries notice it.
        """
        before = self.fold
        self._shares.clear()
        found = [_entry(raw) for raw in self._raws(0)]
        kept = found[-1].offset if found else 0
        survivors, gone = self.entries[:kept], self.entries[kept:]
        guarantees.demand(
            found == survivors[len(survivors) - len(found) :], "P2", "a copy of the log is another log"
        )
        loss = (
            losses.Loss(self.incarnation, kept + 1, len(self.entries)) if kept < len(self.entries) else None
        )
        self.entries, self.fold, self._epoch, self._trimmed = survivors, plain_fold.Fold(), "", 0
        for entry in survivors:
            self.fold.apply(codecs.decode(entry.payload))
            self._epoch = entry.epoch or self._epoch
        self._excused |= loss is not None
        self._lost_pods.update(before.pods_and_nodes().keys() - self.fold.pods_and_nodes().keys())
        lost = [(entry.offset, int(entry.at)) for entry in gone]
        self.losses.failed_over(loss, lost, note, doubted=doubted)
        self._placements.failed_over(before, self.fold)
        return loss

    def whole(self) -> None:
        """The log still contains what was read before; newer entries are ignored."""
        found = [one for one in map(_entry, self._raws(0)) if one.offset <= len(self.entries)]
        kept = self.entries[len(self.entries) - len(found) :]
        guarantees.demand(found == kept, "P2", "entries of the log are not what they were")
        if len(found) < len(self.entries):
            covered = [int(offset) for offset in self._client.hkeys(self._names.checkpoints)]
            oldest = len(self.entries) - len(found) + 1
            guarantees.demand(
                max(covered, default=0) >= oldest - 1, "P15", f"{oldest}.. are left, checkpoints {covered}"
            )

    def trimmed(self, keep: int) -> None:
        """The entries to be kept exist, from the one at the checkpoint."""
        raws: Any = self._client.xrange(self._names.log, count=1)
        oldest = _entry(raws[0]).offset if raws else 0
        # Another trim may have removed more while this one waited.
        self._trimmed = max(1, keep, self._trimmed)
        guarantees.demand(
            not self.entries or 0 < oldest <= self._trimmed, "P15", f"{oldest}.. are left of {keep}.."
        )

    def must_be_placed(self, snapshot: snapshots.Snapshot, uid: str, node: str) -> bool:
        """Whether a process with this snapshot may bind the pod only after a placement."""
        self.read()
        return unrecorded_law.must_be_placed(self.fold, snapshot, uid, node)

    def placed(self, uid: str, node: str) -> bool:
        """Whether the log ever had a placement of the pod on the node."""
        self.read()
        return (uid, node) in self._placements.placed

    def recorded(self) -> set[str]:
        """Uids of the pods on nodes that the log has, and of those that a reader of lost entries may have."""
        return {*self.fold.pods_and_nodes(), *(self._lost_pods if self.losses.unseen else ())}

    def divided_alike(self, snapshot: snapshots.Snapshot) -> None:
        """A reader of this log divides among the quotas what the log has to divide at its offset."""
        problem = runtime_law.problem(snapshot, self._shares.get(snapshot.offset, {}))
        guarantees.demand(not problem, "P1", f"runtimes of quotas at {snapshot.position}: {problem}")

    # -- reading -----------------------------------------------------------------------------

    def _raws(self, first: int) -> list[Raw]:
        raws: Any = self._client.xrange(self._names.log, min=f"{first}-0")
        found: list[Raw] = raws
        return found

    def _take(self, raws: Iterable[Raw]) -> None:
        for raw in raws:
            entry = _entry(raw)
            guarantees.demand(
                entry.offset == self.fold.offset + 1, "P1", f"offset {entry.offset} is not dense"
            )
            if entry.epoch:
                rises = (len(entry.epoch), entry.epoch) >= (len(self._epoch), self._epoch)
                guarantees.demand(rises, "P5", f"epoch {entry.epoch} wrote after {self._epoch}")
                self._epoch = entry.epoch
            event = _event(entry)
            doubtful = self.losses.doubtful and not entry.epoch
            guarantees.demand(not doubtful, "P4", f"{event} was appended before the failover was examined")
            self._check(event)
            problem = pod_set_law.problem(event, self.fold) or gang_law.problem(event, self.fold)
            guarantees.demand(not problem, "P7", problem)
            overspent = quota_law.problem(event, self.fold)
            guarantees.demand(not overspent, "P6", overspent)
            self._decided.note(event)
            self._placed.note(event)
            self.entries.append(entry)
            self.fold.apply(event)
            if self.fold.quotas:
                self._shares[self.fold.offset] = runtime_law.shares(self.fold)
            if not self.losses.doubtful and not self.fold.unlisted:
                self.losses.listed()
            if self.current:
                self._excused = False

    def _equal(self, what: str, stored: dict[str, int], folded: dict[str, int]) -> None:
        wrong = {
            key: (stored.get(key), folded.get(key))
            for key in stored.keys() | folded.keys()
            if stored.get(key) != folded.get(key)
        }
        guarantees.demand(not wrong, "P1", f"{what} (stored, folded) {wrong}")

    def _quotas_hold(self) -> None:
        if not self._steady:
            return
        quotas, used = self.quotas(), self._cluster.usage(foreign=False)
        if self.losses.overspent:
            # What was decided on less counts in the log, or is on its way. Counter: | is the larger number.
            most = self._counted() | Counter(used)
            over = any(count > quotas.get(domain, 0) for domain, count in most.items())
            self.losses.overspent = self._excused or over or self._unrecorded_bindings()
        if not self.losses.overspent:
            for domain, count in used.items():
                limit = quotas.get(domain, 0)
                guarantees.demand(count <= limit, "P6", f"{domain}: {count} of {limit} are bound")

    def _counted(self) -> Counter[str]:
        """Domain -> pods that the log has there, bound or placed, without those that others have bound."""
        found = Counter[str]()
        for uid, (pod, node) in self.fold.pods_and_nodes().items():
            if uid not in self._cluster.foreign:
                found.update({key.rpartition("=")[2] for key in self.fold.keys(pod, node)})
        return found

    def _unrecorded_bindings(self) -> bool:
        """Whether a Binding may be carried out that the log does not count."""
        located, now = self.fold.pods_and_nodes(), self._monotonic()
        return any(
            located.get(one.uid, (None, ""))[1] != one.node and self._cluster.feasible(one.uid, one.node, now)
            for one in self._cluster.sent
        )

    def _bound_is_recorded(self) -> None:
        """Each pod that runs under a policy was placed before, until the watch shows it bound."""
        located = self.fold.pods_and_nodes()
        for pod in self._cluster.all("pods"):
            meta, node = pod["metadata"], pod["spec"].get("nodeName", "")
            counted = self._selected and self._steady and meta["labels"].get("app") == "web"
            named = not cluster_objects.LIMITING.isdisjoint(meta["labels"])
            if node and (named or counted) and meta["uid"] not in self._cluster.foreign:
                recorded = located.get(meta["uid"], (None, ""))[1]
                guarantees.demand(
                    recorded == node, "P6", f"{meta['name']} runs on {node}, the log has it on {recorded!r}"
                )

    def _check(self, event: events.AnyEvent) -> None:
        match event:
            case events.PlacementsCommitted():
                self._placements.committed(event, self.fold)
            case events.PlacementReleased():
                self._placements.released(event, self.fold)
            case events.StoreRewound():
                self._rewound(event)
                self.losses.doubtful = self.losses.noted = False
                self.losses.recovering()
            case events.StoreRestarted():
                guarantees.demand(
                    not self.losses.noted, "P4", "the Lease names what is lost, and no event does"
                )
                self.losses.doubtful = False
                self.losses.recovering()
            case _:
                observation_law.check(event, self.fold)

    def _rewound(self, event: events.StoreRewound) -> None:
        """The event reports an actual loss."""
        self.losses.report(event, self.incarnation, len(self.entries) + 1)
        self._excused = True

    # -- the end -----------------------------------------------------------------------------

    def converged(self, readers: Iterable[snapshots.Snapshot] = ()) -> None:
        """The log matches the cluster, no placement is in flight, and all readers have the same state."""
        self.compare()
        self.whole()
        convergence.check_cluster(self.fold, self._cluster)
        for snapshot in readers:
            convergence.check_reader(snapshot, self.fold)
            self.divided_alike(snapshot)

    def losses_are_known(self, known: Iterable[incarnations.Watermark]) -> None:
        """No event that a live reader has read was lost without a new incarnation."""
        self.losses.are_known(known, self.incarnation)


def _entry(raw: Raw) -> Entry:
    identity, fields = raw
    return Entry(int(identity.partition(b"-")[0]), fields[b"t"], fields[b"w"].decode(), fields[b"e"])


def _event(entry: Entry) -> events.AnyEvent:
    return codecs.decode(entry.payload)
