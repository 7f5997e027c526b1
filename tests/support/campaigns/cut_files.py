"""A store that loses the end of its file, as by a power cut, again and again.

A recorder, an extender's follower and a writer go on (or die with the store) while the server is
killed and its file cut at some byte of what was written since the disk last had everything: in the
middle of an entry, more often than not. What was on disk must exist; what is lost must be reported.
"""

import random
from pathlib import Path
from typing import Any

from app import settings
from app.domain import events, model
from app.store import errors, schemas, stores
from app.store.log import batches
from app.store.server import connections, embedded
from tests.support import declared
from tests.support.simulation.oracle import guarantees
from tests.support.store import materialised
from tests.support.workers import clusters, recordings

NAME = "cut"
_KINDS = set(declared.SCHEMA.names)


class Run:
    """One server, cut many times."""

    def __init__(self, directory: Path, cluster: clusters.Cluster, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lost = 0
        """Cuts by which something was lost."""
        self.torn = 0
        """Those that ended in the middle of an entry."""
        self.vague = 0
        """Losses whose reported range is not exact: the recorder had not read what others had."""
        self._cluster = cluster
        self._directory = directory
        self._server = embedded.Server(directory, append_only=True)
        client = connections.connect(self._server.url)
        schemas.migrate(client, declared.names(NAME), declared.SCHEMA)
        client.close()
        self._stores: list[stores.Store] = []
        self._extender = self._open()
        self._extender.follower.start()
        self._writer = self._open()
        self._numbers = 0
        for at in range(3):
            cluster.node(f"n{at}", zone="host")
        cluster.policy("p", host=1000)
        self._recording = recordings.Recording(self._open(), cluster).ready()

    def close(self) -> None:
        self._recording.recorder.stop()
        self._recording.thread.join(recordings.LIMIT)
        for store in self._stores:
            store.close()
        self._server.stop()

    # -- one cut -----------------------------------------------------------------------------

    def cut(self) -> None:
        """Write, lose, heal, compare. Raises Broken."""
        self._write(self.rng.randint(0, 5))
        kept, safe = self._written(), self._size
        sizes = dict(self._write(self.rng.randint(1, 20)))
        level = self.rng.random() < 0.7
        if level:
            self._all_notice()
        alone = self.rng.random() < 0.3
        if alone:
            # Only the successors are left, and the note in the Lease.
            self._recording.stop()
        before = self._written()
        former, head = self._extender.log.incarnation, max(before)
        at = self.rng.randint(safe, self._size)
        self._server.kill()
        with self._file.open("r+b") as file:
            file.truncate(at)
        self._server.start()
        if alone:
            self._recording = recordings.Recording(self._open(), self._cluster)
        self.torn += at not in (*sizes.values(), safe)
        whole = max([max(kept), *(offset for offset, size in sizes.items() if size <= at)])
        self._healed()
        if self._extender.log.incarnation == former and not self._same(before)[1]:
            # Only the writer had seen what is lost. Its next append detects it.
            self._append()
        self._judge(former, before, whole, head, exact=level and not alone)

    def _append(self) -> None:
        try:
            self._writer.log.append(batches.Batch(events=()))
        except errors.Rewound:
            self._healed()
            return
        raise guarantees.Broken("P4: an append builds on a log that differs from what its writer has seen")

    def _same(self, before: dict[int, tuple[int, str]]) -> tuple[int, bool]:
        """The last offset up to which the log is what it was, and whether that is all of it."""
        after = self._written()
        same = next(
            (offset - 1 for offset in sorted(before) if before[offset] != after.get(offset)), max(before)
        )
        return same, same == max(before)

    def _judge(
        self, former: str, before: dict[int, tuple[int, str]], whole: int, head: int, *, exact: bool
    ) -> None:
        """``whole``: the last offset that is in the file beyond doubt; ``head``: the last that was read."""
        same, all_there = self._same(before)
        guarantees.demand(same >= whole, "P2", f"{whole} was on the disk, and the log goes only to {same}")
        log = self._extender.log
        if log.incarnation == former:
            guarantees.demand(all_there, "P4", f"the log was cut at {same} of {head} in silence")
            return
        self.lost += 1
        reported = [one.event for one in log.read(same) if isinstance(one.event, events.StoreRewound)]
        guarantees.demand(
            len(reported) == 1, "P4", f"behind {same} the loss is reported {len(reported)} times"
        )
        (event,) = reported
        guarantees.demand(
            event.from_incarnation == former, "P4", f"lost in {event.from_incarnation}, not {former}"
        )
        # The recorder cannot distinguish lost entries that it had not read from later ones.
        claimed = event.lost_from, event.lost_to
        guarantees.demand(event.lost_from <= same + 1, "P4", f"lost from {same + 1}, reported {claimed}")
        right = claimed == (same + 1, head)
        guarantees.demand(not exact or right, "P4", f"{(same + 1, head)} is lost, reported {claimed}")
        self.vague += not right
        self._gone(former, head)

    def _gone(self, former: str, head: int) -> None:
        """Positions of the former incarnation are answered with what is kept: 410 over HTTP."""
        for offset in (1, head):
            try:
                self._extender.histories.of(model.Position(former, offset))
            except errors.Superseded:
                continue
            raise guarantees.Broken(f"P4: position {former}/{offset} is still answered")

    # -- what goes on --------------------------------------------------------------------------

    def _write(self, times: int) -> list[tuple[int, int]]:
        """(offset, size of the file then) of what was acknowledged to the writer."""
        reported = []
        for _ in range(times):
            self._numbers += 1
            if self.rng.random() < 0.3:
                self._cluster.pod(f"p{self._numbers}", node=f"n{self.rng.randrange(3)}", app="x")
            note = events.Quarantined("notes", f"note-{self._numbers}", "x" * self.rng.randint(0, 200))
            self._writer.follower.catch_up()
            appended = self._writer.log.append(batches.Batch(events=(note,)))
            reported.append((appended.last, self._size))
        return reported

    def _all_notice(self) -> None:
        """The recorder and the extender have read all that is in the log."""
        self._healed()
        head = self._extender.log.head().offset
        followers = [store.follower for store in (self._recording.store, self._extender)]
        recordings.eventually(lambda: all(one.snapshot.offset >= head for one in followers), "all is read")

    def _written(self) -> dict[int, tuple[int, str]]:
        """Offset -> when it was written and what: all that the writer has read."""
        self._writer.follower.catch_up()
        log = self._writer.log
        return {
            one.offset: (one.at_ms, type(one.event).__name__) for one in log.read(0, limit=log.seen.offset)
        }

    def _healed(self) -> None:
        """Every process follows one log that matches the cluster."""

        def holds() -> bool:
            try:
                snapshots = [store.follower.catch_up() for store in (self._extender, self._writer)]
            except errors.StoreError:
                return False
            objects = self._cluster.server.objects
            nodes = {one["metadata"]["name"] for one in objects.all("nodes")}
            pods = {one["metadata"]["uid"] for one in objects.all("pods")}
            here = snapshots[0].position
            return (
                self._recording.recorder.ready
                and self._recording.store.log.incarnation == here.incarnation
                and all(
                    (set(one.nodes), set(one.pods), set(one.listed)) == (nodes, pods, _KINDS)
                    and not one.unlisted
                    for one in snapshots
                )
            )

        recordings.eventually(holds, "every process has the cluster again")
        snapshot = self._extender.follower.catch_up()
        counts, versions = materialised.counts(self._extender), materialised.versions(self._extender)
        guarantees.demand(counts == dict(snapshot.counts), "P1", "the counts are not those of the fold")
        guarantees.demand(versions == dict(snapshot.versions), "P1", "the versions are not those of the fold")

    def _open(self) -> stores.Store:
        chosen = settings.Store(url=self._server.url, socket_timeout=1.0)
        self._stores.append(stores.open_store(chosen, schema=declared.SCHEMA, cluster=NAME, emptied=True))
        return self._stores[-1]

    @property
    def _file(self) -> Path:
        return sorted((self._directory / "appendonlydir").glob("*.incr.aof"))[-1]

    @property
    def _size(self) -> int:
        """Bytes of the file once it has everything: while the disk is slow, answers may come before that."""

        def written() -> bool:
            info: Any = self._writer.client.info("persistence")
            return not info["aof_buffer_length"] and not info["aof_pending_bio_fsync"]

        recordings.eventually(written, "the file has everything")
        return self._file.stat().st_size
