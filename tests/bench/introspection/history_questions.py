"""Questions about the past, pictures and bundles of a large cluster: the CPU of each in one process.

The cluster is that of the benchmark; after its first lists pods are created, decided about and deleted. The
questions go to the application directly, without a network. The time by the clock would depend on what else
the machine does; the CPU of the store is not included.
"""

import gc
import io
import itertools
import math
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import flask.testing
import werkzeug.test

from app import settings
from app.domain import events, model
from app.framework import pipeline
from app.store import stores
from app.store.bundles import bundle_reader
from app.store.server import embedded
from app.store.state import gc_pause, walks
from app.verbs.explain import explanations
from tests.bench.data import bench_cluster
from tests.support import declared
from tests.support.extender import api_worlds
from tests.support.store import filled_stores

CLUSTER = "bench"
NODES, PODS, EVENTS, DECISIONS = 5_000, 150_000, 50_000, 10_000
_SHADOW = model.Shadow(
    "doubled",
    overrides=(
        {
            "op": "scalePolicy",
            "policy": f"{bench_cluster.NAMESPACE}/{bench_cluster.FREE}",
            "allocations": {bench_cluster.rack(1): 0},
        },
    ),
)
PACE, _PACED_SECONDS = 200.0, 10.0
_RUN = 250
_REPEATED = 1_000
"""Decisions that are repeated without a comparison."""
_AGAIN = 5


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of CPU, unless a field names another unit."""

    replayed: float
    """Decisions for each second of CPU."""
    repeated: float
    """The same for what no replay can do without."""
    scored: float
    """The same with scores."""
    chained: float
    """The same as a chain."""
    replays_grown: int
    """Bytes by which these two raised the highest use of memory."""
    shadowed: float
    """Seconds of CPU for one decision compared with a shadow."""
    shadow_behind: float
    """The greatest age in seconds of the record that the comparison was at, while records were written."""
    added_up: float
    """The sums of all nodes, which the process computes when it starts."""
    map_first: float
    map_again: float
    map_later: float
    """One event later."""
    frames: float
    rest: float
    """A moment of a window that is in memory."""
    cold: float
    diff: float
    bisected: float
    exported: float
    bundle: int
    """Bytes."""
    grown: int
    """Bytes by which the export raised the highest use of memory."""


def measure(
    nodes: int = NODES,
    pods: int = PODS,
    lived: int = EVENTS,
    decisions: int = DECISIONS,
    pace: float = PACE,
) -> Took:
    """Measure each question, with ``lived`` events after the first lists and ``decisions`` among them.

    ``pace``: decisions a second while the shadow is followed.
    """
    server = embedded.Server()
    try:
        filled_stores.fill(server.url, CLUSTER, bench_cluster.facts(nodes, pods))
        store = stores.open_store(
            settings.Store(url=server.url),
            schema=declared.SCHEMA,
            cluster=CLUSTER,
            indexed=api_worlds.plugins_of_the_seeds().indexed(),
        )
        store.start()
        try:
            world = api_worlds.world(store)
            store.checkpoints.write(store.follower.catch_up(timeout=60), store.follower.dated()[1] or 0)
            first = store.follower.catch_up(timeout=60).offset
            world.append(events.ShadowSet(_SHADOW))
            _live(world, lived, decisions)
            return _asked(world, first, pace)
        finally:
            store.close()
    finally:
        server.stop()


def _live(world: api_worlds.World, lived: int, decisions: int) -> None:
    """Append pods of the policy in runs, decide about some of each run, and delete them."""
    share = max(1, decisions * _RUN // lived)
    pods = _pods()
    for _ in range(lived // (2 * _RUN)):
        run = list(itertools.islice(pods, _RUN))
        world.append(*(events.PodSeen(pod=pod) for pod in run))
        # Each pod that fits is filtered and scored.
        api_worlds.decide(world, *run[:share])
        world.append(*(events.PodGone(uid=pod.uid, namespace=pod.namespace, name=pod.name) for pod in run))


def _pods() -> Iterator[model.Pod]:
    for number in itertools.count():
        yield model.Pod(
            uid=bench_cluster.uid("later", number),
            namespace=bench_cluster.NAMESPACE,
            name=f"later-{number:06}",
            labels={bench_cluster.POLICY_LABEL: bench_cluster.FREE},
            requests={"cpu": 250, "memory": 512 << 20},
            created="2026-11-02T09:00:00Z",
        )


def _asked(world: api_worlds.World, first: int, pace: float) -> Took:
    client, store = world.client, world.store
    at_head = store.follower.catch_up()
    last = at_head.offset
    begun = time.process_time()
    at_head.add_up()  # This and the next line: as the process does when it starts.
    gc.freeze()
    added_up = time.process_time() - begun
    maps = [_timed(client, f"map?at={last}&color=pods") for _ in range(_AGAIN)]
    world.append(events.PodSeen(pod=next(_pods())))
    later = _timed(client, f"map?at={last + 1}&color=pods")
    _timed(client, f"map?at={first}&color=pods")  # A cold moment is measured below.
    frames = _timed(client, f"frames?from={first}&to={last}&count=60")
    rest = statistics.median(
        _timed(client, f"map?at={first + (last - first) * part // 7 + 1}") for part in range(1, 6)
    )
    ended = time.process_time()
    cold = type(store.histories)(store.log, store.follower, store.recovery_points)
    cold.at(first + 1)
    cold_seconds = time.process_time() - ended
    diff = min(_timed(client, f"diff?from={first}&to={last}") for _ in range(2))  # Of moments that are kept.
    bisected = _posted(client, "bisect", {"waiting": {"atLeast": 10 * _RUN}})
    replayed = _replayed(client, first)
    repeated = _repeated(world)
    before = _peak()
    scored, chained = _replayed(client, first, compare="scores"), _chained(client, first)
    replays_grown = _peak() - before
    shadowed = _shadowed(world)
    behind = _behind(world, pace)
    before = _peak()
    begun = time.process_time()
    bundle = client.get(f"/apis/v1/export?from={first}").data
    exported = time.process_time() - begun
    grown = _peak() - before
    bundle_reader.read(io.BytesIO(bundle))
    return Took(
        replayed=replayed,
        repeated=repeated,
        scored=scored,
        chained=chained,
        replays_grown=replays_grown,
        shadowed=shadowed,
        shadow_behind=behind,
        added_up=added_up,
        map_first=maps[0],
        map_again=statistics.median(maps[1:]),
        map_later=later,
        frames=frames,
        rest=rest,
        cold=cold_seconds,
        diff=diff,
        bisected=bisected,
        exported=exported,
        bundle=len(bundle),
        grown=grown,
    )


def _timed(client: flask.testing.FlaskClient, path: str) -> float:
    begun = time.process_time()
    _checked(client.get(f"/apis/v1/{path}"))
    return time.process_time() - begun


def _posted(client: flask.testing.FlaskClient, path: str, question: dict[str, object]) -> float:
    begun = time.process_time()
    _checked(client.post(f"/apis/v1/{path}", json=question))
    return time.process_time() - begun


def _replayed(client: flask.testing.FlaskClient, first: int, **more: object) -> float:
    """Decisions for each second of CPU, over all pieces of the replay."""
    question: dict[str, object] = {"from": str(first), "budget": 20, **more}
    looked, begun = 0, time.process_time()
    while True:
        answer = _checked(client.post("/apis/v1/replay", json=question)).json or {}
        assert answer["examined"] == answer["same"], answer["classes"]
        looked += int(answer["examined"])
        if not answer.get("continue"):
            return looked / (time.process_time() - begun)
        question["continue"] = answer["continue"]


def _repeated(world: api_worlds.World) -> float:
    """Decisions for each second of CPU in which a replay does what no replay can do without.

    It reads the records, folds the log from one to the next, unpacks the candidates and filters.
    """
    store, plugins = world.store, world.registry
    (first,) = store.decisions.since("0-0", limit=1)
    store.histories.at(first.position.offset)  # A cold moment is measured above.
    gc.collect()  # What was not collected before would be in the middle of it.
    with gc_pause.paused():  # As while a question is answered.
        begun = time.process_time()
        walk, recorded = walks.Walk(store.histories), store.decisions.since("0-0", limit=_REPEATED)
        for record in recorded:
            snapshot = walk.to(record.position.offset)
            candidates = store.decisions.candidates(record, snapshot)
            pipeline.run_filter(plugins, explanations.cycle_of(record, candidates, snapshot, plugins))
        return len(recorded) / (time.process_time() - begun)


def _chained(client: flask.testing.FlaskClient, first: int) -> float:
    """Decisions for each second of CPU of a chain, within the longest time for an answer."""
    begun = time.process_time()
    reply = client.post("/apis/v1/replay", json={"from": str(first), "budget": 20, "mode": "chain"})
    answer = _checked(reply).json or {}
    assert answer["examined"] == answer["same"], answer["classes"]
    return int(answer["examined"]) / (time.process_time() - begun)


def _shadowed(world: api_worlds.World) -> float:
    """Seconds of CPU for each decision that is compared with one shadow."""
    begun = time.process_time()
    while world.shadows.step():
        pass
    report = world.shadows.reports()[_SHADOW.name]
    assert report.examined, report.skipped
    assert report.classes["nodes"], report.classes
    return (time.process_time() - begun) / report.examined


def _behind(world: api_worlds.World, pace: float) -> float:
    """How far the comparison is behind while ``pace`` decisions a second are recorded for ten seconds."""
    shadows = api_worlds.shadows_of(world.store, world.registry, wall=time.time)
    while shadows.step():
        pass
    shadows.start()
    behind = 0.0
    try:
        begun, pods = time.monotonic(), list(itertools.islice(_pods(), 10))
        for turn in range(math.ceil(_PACED_SECONDS * pace / (2 * len(pods)))):
            # Each pod that fits is filtered and scored.
            api_worlds.decide(world, *pods)
            behind = max(behind, shadows.reports()[_SHADOW.name].behind)
            time.sleep(max(0.0, begun + (turn + 1) * 2 * len(pods) / pace - time.monotonic()))
    finally:
        shadows.stop()
    return behind


def _checked(reply: werkzeug.test.TestResponse) -> werkzeug.test.TestResponse:
    assert reply.status_code == 200, reply.text
    return reply


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    print(measure(*map(int, sys.argv[1:])))
