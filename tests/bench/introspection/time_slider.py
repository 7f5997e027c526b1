"""filter while viewers drag the slider of `topolog view`, and without that process; the memory of both."""

import contextlib
import os
import pathlib
import statistics
from collections.abc import Callable, Iterator
from functools import partial

from tests.bench import rows, runs
from tests.bench.introspection import viewer_load
from tests.bench.peer import client
from tests.support import extender_processes

NODES, PODS, MANY = 5_000, 50_000, 150_000
MIB = 1024 * 1024
_TURNS = 12
"""A single p99 varies by a third on a shared machine: only the median of many turns shows a difference."""
_VIEWERS = 3
Turn = Callable[[], client.Figure]


def scrubbing(bench: runs.Bench) -> Iterator[rows.Row]:
    """The rows of the case."""
    with bench.viewed(NODES, MANY) as (ours, view):
        yield _memory(ours, view, MANY)
    caller, load = bench.caller(NODES), client.Load(NODES, bench.calls(300), verbs=["filter"])
    with bench.viewed(NODES, PODS) as (ours, view):

        def measured() -> client.Figure:
            return caller.measure(load, {"ours": ours.url}).targets["ours"]["filter"]

        measured()
        yield _memory(ours, view, PODS)
        beside = _in_turns(bench, view, measured)
        if (os.cpu_count() or 1) > 1:
            with _alone(view) as core:
                apart = _in_turns(bench, view, measured, core)
            yield from _compared(f"{_VIEWERS} viewers, view on its own core", apart, None, 1.1)
        running, others = _without(view, measured)
    yield from _compared(f"{_VIEWERS} viewers scrub and replay", beside, 1.05, 1.15)
    for what, found in others.items():
        yield from _compared(f"view {what}", (running, found), None, 1.02)


def _memory(ours: extender_processes.Extender, view: extender_processes.Extender, pods: int) -> rows.Row:
    case = f"memory of view against an extender, {NODES:,} nodes, {pods:,} pods"
    return rows.compared(case, "MB", ours=view.memory() / MIB, peer=ours.memory() / MIB, bar=1.5)


def _in_turns(
    bench: runs.Bench, view: extender_processes.Extender, measured: Turn, core: int | None = None
) -> tuple[list[client.Figure], list[client.Figure]]:
    """Without viewers, and with them; ``core``: the only one that the viewers may use."""
    idle, beside = [], []
    crowd = partial(viewer_load.crowd, view.url, bench.tls, bench.folder, _VIEWERS, viewer_load.SCRUB)
    for _ in range(_TURNS):
        idle.append(measured())
        with contextlib.ExitStack() as viewers:
            with _starting_on(core):
                viewers.enter_context(crowd())
            beside.append(measured())
    return idle, beside


def _without(
    view: extender_processes.Extender, measured: Turn
) -> tuple[list[client.Figure], dict[str, list[client.Figure]]]:
    """With the view running and idle, and by what was done to it.

    Turn by turn: the speed of a shared machine drifts, and that must not be in the ratio.
    """
    running: list[client.Figure] = []
    stopped: list[client.Figure] = []
    killed: list[client.Figure] = []
    restarted: list[client.Figure] = []
    for _ in range(_TURNS):
        running.append(measured())
        with view.stopped():
            stopped.append(measured())
        view.process.kill()
        killed.append(measured())
        view.process.start()
        restarted.append(measured())
        view.await_ready()
        measured()
    return running, {"stopped": stopped, "restarted": restarted, "killed": killed}


def _compared(
    what: str, turns: tuple[list[client.Figure], list[client.Figure]], p50: float | None, p99: float | None
) -> Iterator[rows.Row]:
    """Medians of the turns against those of an idle view."""
    for part, bar in (("p50", p50), ("p99", p99)):
        idle, found = (statistics.median(getattr(one, part) for one in each) for each in turns)
        yield rows.compared(f"filter, {what}, against idle, {part}", "ms", ours=found, peer=idle, bar=bar)


@contextlib.contextmanager
def _alone(view: extender_processes.Extender) -> Iterator[int]:
    """Give the view the last core, and everything else that belongs to this run the others; its number."""
    cores = os.sched_getaffinity(0)
    last = max(cores)
    everyone = set(extender_processes.family(os.getpid()))
    own = set(extender_processes.family(view.process.pid))
    _pin(everyone - own, cores - {last})
    _pin(own, {last})
    try:
        yield last
    finally:
        _pin(everyone, cores)


@contextlib.contextmanager
def _starting_on(core: int | None) -> Iterator[None]:
    """Processes that the calling thread starts in the block inherit the core; None: any core."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _pin(processes: set[int], cores: set[int]) -> None:
    for pid in processes:
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(int(task.name), cores)
