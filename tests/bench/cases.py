"""The cases: what each one measures, and its bars.

A case starts the processes it needs, lets the compiled client call Topolog and the peer in turns, and yields
its rows. The bars are the project's goals: what a user may rely on, not the best figure reached.
"""

import dataclasses
import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping

from tests.bench import rows, runs
from tests.bench.data import bench_cluster
from tests.bench.end_to_end import gang_placement, pods_per_second
from tests.bench.extender import hostile_clients
from tests.bench.introspection import hypothetical_questions, time_slider, viewer_load
from tests.bench.peer import client, processes
from tests.bench.store import placement_durability

NODES, PODS = 5_000, 50_000
MIB = 1024 * 1024
_COMPARED = 200
"""Decisions a second that are compared with a shadow."""


def names(bench: runs.Bench) -> Iterator[rows.Row]:
    """filter and prioritize over node names, as kube-scheduler calls with nodeCacheCapable."""
    caller = bench.caller(NODES)
    with (
        bench.ours(NODES, PODS) as ours,
        bench.peer() as echo,
        bench.peer(refuse=processes.SENTENCE) as refusing,
    ):
        free, half = {"ours": ours.url, "peer": echo}, {"ours": ours.url, "peer": refusing}
        many = client.Load(NODES, bench.calls(1_000))
        report = caller.measure(many, free)
        yield _row(f"filter, {NODES:,} names, p50", report, "filter", bar=0.8)
        yield _row(f"filter, {NODES:,} names, p99", report, "filter", bar=1.0, tail=True)
        yield _row(f"prioritize, {NODES:,} names, p50", report, "prioritize", bar=0.9)
        report = caller.measure(dataclasses.replace(many, policy=bench_cluster.HALF), half)
        yield _row(f"filter, {NODES:,} names, half refused, p50", report, "filter", bar=0.8)
        yield _row(f"filter, {NODES:,} names, half refused, p99", report, "filter", bar=1.0, tail=True)
        few = client.Load(500, bench.calls(2_000))
        report = caller.measure(few, free)
        yield _row("filter, 500 names, p50", report, "filter", bar=1.6)
        yield _row("prioritize, 500 names, p50", report, "prioritize", bar=1.6)
        report = caller.measure(dataclasses.replace(few, policy=bench_cluster.HALF), half)
        yield _row("filter, 500 names, half refused, p50", report, "filter", bar=1.6)


def whole(bench: runs.Bench) -> Iterator[rows.Row]:
    """filter over whole nodes, and the memory that is held afterwards."""
    caller = bench.caller(NODES)
    with (
        bench.ours(NODES, PODS) as ours,
        bench.peer() as echo,
        bench.peer(refuse=processes.SENTENCE) as refusing,
    ):
        caller.measure(client.Load(NODES, 20, warm=200), {"ours": ours.url})
        before = ours.memory()
        load = client.Load(NODES, bench.calls(10), warm=2, form="nodes", verbs=["filter"])
        report = caller.measure(load, {"ours": ours.url, "peer": echo})
        yield _row(f"filter, {NODES:,} whole nodes, p50", report, "filter", bar=0.35)
        half = dataclasses.replace(load, policy=bench_cluster.HALF)
        report = caller.measure(half, {"ours": ours.url, "peer": refusing})
        yield _row(f"filter, {NODES:,} whole nodes, half refused, p50", report, "filter", bar=0.35)
        limit = before * 1.25 + 16 * MIB
        after = _settled(ours.memory, limit)
        yield rows.at_most("memory after whole nodes", "MB", ours=after / MIB, bar=limit / MIB)


def viewers(bench: runs.Bench) -> Iterator[rows.Row]:
    """filter while viewers send heavy questions, each as soon as the last is answered: no call may fail."""
    caller, load = bench.caller(NODES), client.Load(NODES, bench.calls(600), verbs=["filter"])
    with bench.ours(NODES, PODS) as ours:
        caller.measure(dataclasses.replace(load, calls=50), {"ours": ours.url})
        found: dict[int, list[float]] = {0: [], 8: [], 200: []}
        for _ in range(3):
            # In turns, and the median of them: the speed of a shared machine varies.
            for count, figures in found.items():
                with viewer_load.crowd(ours.url, bench.tls, bench.folder, count):
                    figures.append(caller.measure(load, {"ours": ours.url}).targets["ours"]["filter"].p99)
    alone = statistics.median(found.pop(0))
    yield rows.measured(f"filter, {NODES:,} names, no viewers, p99", "ms", ours=alone)
    for (count, figures), bar in zip(found.items(), (2.0, 2.5), strict=True):
        case = f"filter, {NODES:,} names, {count} viewers against none, p99"
        yield rows.compared(case, "ms", ours=statistics.median(figures), peer=alone, bar=bar)


def attacks(bench: runs.Bench) -> Iterator[rows.Row]:
    """filter while clients with any certificate try to occupy the extender: no call may fail."""
    caller, load = bench.caller(NODES), client.Load(NODES, bench.calls(600), verbs=["filter"])
    kinds = {hostile_clients.BODILESS: 70, hostile_clients.DENIED: 8}
    with bench.ours(NODES, PODS) as ours:

        def p99() -> float:
            return caller.measure(load, {"ours": ours.url}).targets["ours"]["filter"].p99

        caller.measure(dataclasses.replace(load, calls=50), {"ours": ours.url})
        alone: list[float] = []
        beside: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(3):
            # In turns, and the median of them: the speed of a shared machine varies.
            alone.append(p99())
            for kind, count in kinds.items():
                with hostile_clients.attacking(ours.url, bench.tls, bench.folder, count, kind):
                    beside[kind].append(p99())
    for what, kind in (
        ("70 requests without their body", hostile_clients.BODILESS),
        ("8 clients without the role", hostile_clients.DENIED),
    ):
        case = f"filter, {NODES:,} names, {what} against none, p99"
        found, usual = statistics.median(beside[kind]), statistics.median(alone)
        yield rows.compared(case, "ms", ours=found, peer=usual, bar=2.0)


def refusals(_: runs.Bench) -> Iterator[rows.Row]:
    """Bodies that no caller should send, in the size that a call with names may have."""
    yield rows.at_most(
        "4 MB of anything, refused",
        "ms",
        ours=_measured("extender.rejected_bodies", "measure_refusals"),
        bar=50,
    )


def crowd(bench: runs.Bench) -> Iterator[rows.Row]:
    """A cluster with a hundred times the pods answers as fast: the cost does not grow with the pods."""
    nodes, many, few = 1_000, 150_000, 1_500
    caller = bench.caller(nodes)
    with bench.ours(nodes, many) as crowded, bench.ours(nodes, few) as empty:
        load = client.Load(nodes, bench.calls(2_000))
        report = caller.measure(load, {"ours": crowded.url, "peer": empty.url})
        yield _row(f"filter, {nodes:,} names, {many:,} pods against {few:,}, p50", report, "filter", bar=1.1)


def choices(_: runs.Bench) -> Iterator[rows.Row]:
    """The choice of one node (filter_onlyone): the cost does not grow with the pods of the policy."""
    module = importlib.import_module("tests.bench.extender.node_choices")
    few, many = module.measure_choices()
    case = f"filter_onlyone, {NODES:,} nodes, policy of {module.MANY:,} pods against {module.FEW}, CPU"
    yield rows.compared(case, "ms", ours=many, peer=few, bar=1.5)


def ingest(_: runs.Bench) -> Iterator[rows.Row]:
    """Appends of guarded events to a store with an append-only file, and their replay."""
    written = _measured("store.ingest", "measure_ingest")
    yield rows.at_least("ingest, all guards, AOF everysec", "events/s", ours=written, bar=40_000)
    read = _measured("store.ingest", "measure_replay")
    yield rows.at_least("replay", "events/s", ours=read, bar=150_000)


def placements(_: runs.Bench) -> Iterator[rows.Row]:
    """The latency of a placement that has to be on disk (store.placements: fsync)."""
    synced, acknowledged = placement_durability.measure()
    case = "placement on disk (appendfsync always) against acknowledged (everysec), p50"
    yield rows.compared(case, "ms", ours=synced, peer=acknowledged, bar=None)


def cold_start(_: runs.Bench) -> Iterator[rows.Row]:
    """From an empty store to readiness, against the simulated API server.

    The median of three: the host may be slow to provide memory to a virtual machine.
    """
    seconds = statistics.median(_measured("store.cold_start", "measure_cold_start") for _ in range(3))
    yield rows.at_most("cold start, 5,000 nodes, 150,000 pods", "s", ours=seconds, bar=8)


def restart(_: runs.Bench) -> Iterator[rows.Row]:
    """From an empty process to the snapshot at the head, by a checkpoint and the entries behind it."""
    seconds = _measured("store.checkpoint_restart", "measure_restart")
    case = "start from checkpoint and tail, 5,000 nodes, 150,000 pods"
    yield rows.at_most(case, "s", ours=seconds, bar=3)


def travel(_: runs.Bench) -> Iterator[rows.Row]:
    """The cluster as it was at random offsets of a million events."""
    module = importlib.import_module("tests.bench.store.past_offsets")
    for where, found in zip(("log", "archive"), module.measure_travel(), strict=True):
        case = f"a past offset of 1,000,000, out of the {where}"
        yield rows.at_most(f"{case}, cold", "s", ours=found.cold_worst, bar=1)
        yield rows.at_most(f"{case}, cached", "ms", ours=1000 * found.cached_worst, bar=50)


def visibility(_: runs.Bench) -> Iterator[rows.Row]:
    """From the append of an event until every follower has applied it."""
    p99 = _measured("store.visibility", "measure_visibility")
    yield rows.at_most("event to snapshot of every follower, 1,000 events/s, p99", "ms", ours=p99, bar=10)


def questions(_: runs.Bench) -> Iterator[rows.Row]:
    """The largest pages for eight callers at once: the memory they take, and how much of it is kept."""
    module = importlib.import_module("tests.bench.introspection.page_memory")
    measured, left = module.measure_questions()
    for path, memory in measured.items():
        case = f"8 x GET {path.removeprefix('/apis/v1/').partition('?')[0]}, limit 1,000"
        yield rows.at_most(f"{case}, above rest", "MB", ours=memory.peak / MIB, bar=100)
        yield rows.at_most(f"{case}, left after 30 s", "MB", ours=memory.left / MIB, bar=10)
    yield rows.at_most("all of these, left after 30 s above the start", "MB", ours=left / MIB, bar=10)


def doctor(bench: runs.Bench) -> Iterator[rows.Row]:
    """All checks of `topolog doctor` that an API server and an extender answer."""
    module = importlib.import_module("tests.bench.introspection.doctor_speed")
    with bench.ours(module.NODES, module.PODS) as ours:
        seconds = module.measure(ours.url, bench.tls, bench.folder)
    yield rows.at_most(f"topolog doctor all, {module.PODS:,} pods", "s", ours=seconds, bar=5)


def pictures(_: runs.Bench) -> Iterator[rows.Row]:
    """The past of a large cluster: replay, maps, frames, a bundle, and a shadow."""
    took = importlib.import_module("tests.bench.introspection.history_questions").measure()
    size = "5,000 nodes, 150,000 pods"
    yield rows.at_least(f"replay, verdicts, {size}", "decisions/s", ours=took.replayed, bar=1_000)
    case = f"replay, verdicts, against folding, unpacking and filtering alone, {size}"
    yield rows.reaching(case, "decisions/s", ours=took.replayed, peer=took.repeated, bar=0.4)
    yield rows.at_least(f"replay with scores, {size}", "decisions/s", ours=took.scored, bar=500)
    yield rows.at_least(f"replay as a chain, {size}", "decisions/s", ours=took.chained, bar=500)
    yield rows.at_most(f"memory that these two take, {size}", "MB", ours=took.replays_grown / MIB, bar=50)
    share = 100 * took.shadowed * _COMPARED
    yield rows.at_most(f"a shadow at {_COMPARED} decisions/s, {size}", "% of a core", ours=share, bar=25)
    yield rows.at_most("how far it is behind, greatest", "s", ours=took.shadow_behind, bar=2)
    yield rows.measured(f"requests added up when view starts, {size}", "ms", ours=1000 * took.added_up)
    for case, seconds, bar in (
        ("map, first", took.map_first, 200),
        ("map, same position again", took.map_again, 5),
        ("map, one event later", took.map_later, 20),
        ("60 frames over 50,000 events", took.frames, 2_000),
        ("a moment of a window at hand", took.rest, 300),
        ("a cold moment", took.cold, 4_000),
        ("diff of two moments", took.diff, 1_000),
        ("bisect over all events", took.bisected, 6_000),
        ("bundle of 50,000 events and 10,000 decisions", took.exported, 10_000),
    ):
        yield rows.at_most(f"{case}, {size}", "ms", ours=1000 * seconds, bar=bar)
    yield rows.at_most(f"size of that bundle, {size}", "MB", ours=took.bundle / MIB, bar=25)
    yield rows.at_most(f"memory that it takes, {size}", "MB", ours=took.grown / MIB, bar=100)


def streams(_: runs.Bench) -> Iterator[rows.Row]:
    """Streams of summaries beside 1,000 events a second."""
    took = importlib.import_module("tests.bench.introspection.event_streams").measure()
    case = "32 streams, 1,000 events/s"
    yield rows.at_most(f"{case}, all CPU of view", "% of a core", ours=100 * took.share, bar=15)
    yield rows.measured("following 1,000 events/s without a stream", "% of a core", ours=100 * took.alone)
    yield rows.at_most(f"{case}, event to summary, p99", "ms", ours=took.late_ms, bar=600)


def pages(bench: runs.Bench) -> Iterator[rows.Row]:
    """The dashboard in Chromium on a large cluster."""
    module = importlib.import_module("tests.bench.introspection.page_speed")
    took = module.measure(live_seconds=module.LIVE_SECONDS * bench.scale)
    size = f"Overview, {module.NODES:,} nodes"
    yield rows.at_most(f"{size}, first paint later than an empty page", "ms", ours=took.later, bar=300)
    for case, unit, ours, bar in (
        ("map drawn", "ms", took.drawn, 2_500),
        ("redraw while dragging, p95", "ms", took.dragged, 50),
        ("tasks over 200 ms after load", "", took.long_tasks, 0),
        ("heap after 10 minutes live", "MB", took.heap / MIB, 60),
        ("page and code, compressed", "kB", took.code / 1000, 90),
        ("all that is loaded, compressed", "kB", took.overview / 1000, 150),
        ("a window of frames, compressed", "kB", took.window / 1000, 100),
        ("the slowest of eight tabs", "ms", took.tab, 3_000),
        ("another tab has the stream", "ms", took.led, 2_000),
    ):
        yield rows.at_most(f"{size}, {case}", unit, ours=ours, bar=bar)
    yield rows.measured(f"{size}, another tab shows it in all panels", "ms", ours=took.shown)
    followed = importlib.import_module("tests.bench.introspection.live_page").measure(60.0 * bench.scale)
    case = "Overview, 1,000 events/s, how old what it does not show is, p95"
    yield rows.at_most(case, "ms", ours=followed.behind, bar=1_000)
    yield rows.at_most("Overview, its server is killed, banner", "ms", ours=followed.banner, bar=2_000)


def gangs(_: runs.Bench) -> Iterator[rows.Row]:
    """Gangs: the plan in every state, the commitment of the first bind, and an explanation."""
    module = importlib.import_module("tests.bench.extender.gang_plans")
    for state, took in module.measure_plans().items():
        bar = module.BARS.get(state, 100)
        yield rows.at_most(f"gang of 1,000 over 5,000 nodes, {state}", "ms", ours=took, bar=bar)
    for state, took in module.measure_small_plans().items():
        yield rows.at_most(f"12 members of two sizes on 5,000 nodes, {state}", "ms", ours=took, bar=100)
    took = _measured("store.gang_commitments", "measure")
    yield rows.at_most("commitment of a gang of 1,000, in the store", "ms", ours=took, bar=50)
    module = importlib.import_module("tests.bench.introspection.gang_explanations")
    for count, took in module.measure_explanations().items():
        case = f"explain of a member, its quota admits {count} of 8, 5,000 nodes, 50,000 pods, CPU"
        yield rows.at_most(case, "ms", ours=took, bar=200)


def releases(_: runs.Bench) -> Iterator[rows.Row]:
    """A burst of releases while many pods wait, read as the controller does, and one by one."""
    together, alone = importlib.import_module("tests.bench.controller.release_bursts").measure_bursts()
    case = "1,000 releases, 5,000 pods wait for quotas, in four reads against one by one, CPU"
    yield rows.compared(case, "ms", ours=together, peer=alone, bar=0.1)


def quotas(_: runs.Bench) -> Iterator[rows.Row]:
    """The runtimes of a large tree of quotas: after an event that changes a request, and after another."""
    took = importlib.import_module("tests.bench.extender.quota_trees").measure_quotas()
    size = "1,000 quotas in 5 levels"
    yield rows.at_most(f"runtimes after a request, {size}", "ms", ours=took["changed"], bar=20)
    yield rows.at_most(f"runtimes after another event, {size}", "ms", ours=took["unchanged"], bar=0.1)
    unobserved = (" of an unobserved pod", "decided by a quota, unobserved")
    for pod, name in (("", "decided by a quota"), unobserved):
        case = f"filter{pod} of 5,000 names after a placement, under a quota against a policy, {size}"
        yield rows.compared(case, "ms", ours=took[name], peer=took["decided by a policy"], bar=1.1)
    for case in ("quota", "policy"):
        yield rows.measured(f"filter alone, after a placement, by a {case}, {size}", "ms", ours=took[case])


def preemption(_: runs.Bench) -> Iterator[rows.Row]:
    """The answer to a call of preempt, and the dry run on a large cluster whose nodes are all candidates."""
    answer = _measured("extender.preemption_dry_run", "measure_answer")
    yield rows.at_most("answer to preempt, 100 nodes of 5 victims", "ms", ours=answer, bar=50)
    took = _measured("extender.preemption_dry_run", "measure_dry_run")
    yield rows.at_most("dry run of a preemption, 5,000 nodes, 50,000 pods", "ms", ours=took, bar=2_000)


def sizes(_: runs.Bench) -> Iterator[rows.Row]:
    """The size of a pod and of an event: the figures of docs/how-to/sizing.md."""
    for name, found in importlib.import_module("tests.bench.store.sizes").measure_sizes().items():
        yield rows.measured(name, "bytes", ours=found)


def _measured(module: str, function: str) -> float:
    """The result of a measurement in a module that is imported only when it is needed."""
    return float(getattr(importlib.import_module(f"tests.bench.{module}"), function)())


def _row(case: str, report: client.Report, verb: str, *, bar: float, tail: bool = False) -> rows.Row:
    ours, peer = report.targets["ours"][verb], report.targets["peer"][verb]
    if tail:
        return rows.compared(case, "ms", ours=ours.p99, peer=peer.p99, bar=bar)
    return rows.compared(case, "ms", ours=ours.p50, peer=peer.p50, bar=bar)


def _settled(memory: Callable[[], int], limit: float, *, within: float = 15.0) -> int:
    """Bytes held as soon as they are within the limit, or after the time: allocators are lazy."""
    deadline = time.monotonic() + within
    while (held := memory()) > limit and time.monotonic() < deadline:
        time.sleep(0.25)
    return held


Case = Callable[[runs.Bench], Iterator[rows.Row]]
DEFAULT: Mapping[str, Case] = {
    "names": names,
    "whole": whole,
    "viewers": viewers,
    "attacks": attacks,
    "refusals": refusals,
    "crowd": crowd,
    "choices": choices,
    "ingest": ingest,
    "placements": placements,
    "cold-start": cold_start,
    "restart": restart,
    "travel": travel,
    "visibility": visibility,
    "questions": questions,
    "doctor": doctor,
    "asked": hypothetical_questions.asked,
    "scrubbing": time_slider.scrubbing,
    "pictures": pictures,
    "streams": streams,
    "pages": pages,
    "gangs": gangs,
    "releases": releases,
    "quotas": quotas,
    "preemption": preemption,
    "sizes": sizes,
}
END_TO_END: Mapping[str, Case] = {
    "e2e": pods_per_second.end_to_end,
    "e2e-gangs": gang_placement.gangs_in_racks,
    "e2e-packing": gang_placement.gangs_on_a_trace,
}
CASES: Mapping[str, Case] = {**DEFAULT, **END_TO_END}
