"""Three counts of one history: the fold in Python, the counts in Redis, and SQL over what the archive holds.

The history is a recorded cluster trace (TOPOLOG_TRACE): its nodes, and its pods as they come and go. The
trace does not contain where pods ran: that is drawn here, and labels of nodes change now and then.
"""

import csv
import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain import events, model, projections
from app.plugins.workload_policy import policy_model
from app.simulation import traces
from app.store import stores
from app.store.checkpoints import archive_storage, archives
from app.store.log import batches
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.store import materialised

EVERY = 1000
"""Events between two comparisons."""
_BATCH = 250
_KEYS = ("topology.kubernetes.io/zone", "topology.topolog.io/rack", "gpu.model", "kubernetes.io/hostname")
TRACE = os.environ.get("TOPOLOG_TRACE", "")
recorded = pytest.mark.skipif(not TRACE, reason="TOPOLOG_TRACE names no folder with a recorded cluster trace")


def nodes(trace: traces.Trace) -> dict[str, model.Node]:
    found = {}
    for made in traces.node_objects(trace):
        meta = made["metadata"]
        found[meta["name"]] = model.Node(name=meta["name"], uid=meta["name"], labels=meta["labels"])
    return found


def pods(folder: Path, most: int) -> list[tuple[model.Pod, int, int, str]]:
    """Pod, when it came, when it went, and how it ended."""
    with (folder / traces.PODS_FILE).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:most]
    return [
        (
            model.Pod(
                uid=row["name"], namespace=f"team-{at % 3}", name=row["name"], labels={"qos": row["qos"]}
            ),
            int(row["creation_time"] or 0),
            int(row["deletion_time"] or 0),
            row["pod_phase"],
        )
        for at, row in enumerate(rows)
    ]


def history(folder: Path, most: int) -> Iterator[events.AnyEvent]:
    """Everything that happened, in order."""
    rng = random.Random(0)
    machines = nodes(traces.load(folder))
    yield from (events.NodeSeen(node=node) for node in machines.values())
    for at, key in enumerate(_KEYS):
        for number in range(3):
            labels = {"qos": ("LS", "BE", "Burstable", "Guaranteed")[at]} if number else {}
            policy = policy_model.WorkloadPolicy(
                uid=f"{at}-{number}",
                namespace=f"team-{number}",
                name=f"p{at}",
                topology_key=key,
                selector=model.Selector(labels=labels),
            )
            yield declared.observed(policy)
    names = sorted(machines)
    found = pods(folder, most)
    moments = [(came, 0, at) for at, (_, came, _, _) in enumerate(found)]
    # Every other pod stays: as they ended, there were never more than a few dozen at a time.
    moments += [(went, 1, at) for at, (_, _, went, _) in enumerate(found) if at % 2]
    for number, (_, ends, at) in enumerate(sorted(moments)):
        pod, _, _, phase = found[at]
        yield from _ended(pod, phase) if ends else _begun(pod, rng.choice(names), rng)
        if number % 40 == 0:
            name = rng.choice(names)
            labels = {**machines[name].labels, _KEYS[0]: rng.choice(traces.ZONES)[0]}
            machines[name] = model.Node(name=name, uid=name, labels=labels)
            yield events.NodeSeen(node=machines[name])


def _begun(pod: model.Pod, node: str, rng: random.Random) -> Iterator[events.AnyEvent]:
    yield events.PodSeen(pod=pod)
    yield events.placed(pod, node)
    if rng.random() < 0.1:
        yield events.PlacementReleased(pod.uid, pod.namespace, pod.name, node, "drawn", "refused")
        return
    yield events.PodSeen(pod=_as(pod, node=node, phase="Running"))


def _ended(pod: model.Pod, phase: str) -> Iterator[events.AnyEvent]:
    if phase in ("Succeeded", "Failed"):
        yield events.PodSeen(pod=_as(pod, phase=phase))
    yield events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name)


def _as(pod: model.Pod, *, node: str = "", phase: str) -> model.Pod:
    return model.Pod(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, labels=pod.labels, node=node, phase=phase
    )


class Recount:
    """The independent count: lines in, counts out, SQL between."""

    def __init__(self) -> None:
        self._base = sqlite3.connect(":memory:")
        self._base.executescript(Path(__file__).with_name("recounting.sql").read_text())

    def take(self, lines: list[bytes]) -> None:
        rows = ((line.decode(),) for line in lines)
        self._base.executemany(
            "INSERT INTO lines SELECT value ->> '$.offset', value -> '$.e' FROM (SELECT ? AS value)", rows
        )

    def counts(self) -> dict[str, int]:
        return dict(self._base.execute("SELECT key, pods FROM counts"))


def compared(store: stores.Store, archive: archives.Archive, folder: Path, most: int) -> tuple[int, int]:
    """How many events there were, and how many comparisons."""
    recount, snapshot, waiting = Recount(), store.follower.catch_up(), list(history(folder, most))
    exported = compared = 0
    for start in range(0, len(waiting), _BATCH):
        projection = projections.Projection(snapshot)
        projection.apply_all(waiting[start : start + _BATCH])
        batch = batches.Batch(events=waiting[start : start + _BATCH], increments=projection.increments)
        store.log.append(batch)
        snapshot = projection.finish()
        if snapshot.offset - exported >= EVERY or snapshot.offset == len(waiting):
            name = archive.keep_segment(store.log.raws(exported, snapshot.offset), store.log.incarnation)
            recount.take([archives.line(raw) for raw in archive.raws(name)])
            exported, compared = snapshot.offset, compared + 1
            assert dict(snapshot.counts) == materialised.counts(store), f"at offset {exported}"
            assert recount.counts() == materialised.counts(store), f"at offset {exported}"
    assert materialised.counts(store)
    return exported, compared


@recorded
def test_three_counts_of_a_recorded_cluster_agree(store: stores.Store, tmp_path: Path) -> None:
    archive = archives.Archive(
        archive_storage.Folder(tmp_path), store.keys.cluster, lambda: store.log.incarnation
    )
    exported, times = compared(store, archive, Path(TRACE), 300)
    assert exported > 2000
    assert times >= exported // EVERY


@recorded
@pytest.mark.campaign
def test_three_counts_of_a_whole_recorded_cluster_agree(store: stores.Store, tmp_path: Path) -> None:
    archive = archives.Archive(
        archive_storage.Folder(tmp_path), store.keys.cluster, lambda: store.log.incarnation
    )
    exported, times = compared(store, archive, Path(TRACE), sizes.of("TRACE_PODS", 1_000_000))
    assert times >= exported // EVERY
