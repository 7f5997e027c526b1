"""SIGKILL of recorder, extender, controller and server while all of them have work to do.

Afterwards the whole log is judged: no placement exceeds a policy's quota or an elastic one at any offset.
"""

import contextlib
import os
import pathlib
import random
import threading
from collections.abc import Callable

import pytest

from tests.support import child_processes, polling
from tests.support.campaigns import loads, sizes, stacks

# ssl.SSLSocket forgets to close a socket that was reset before the handshake began, as a kill may do it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)

VICTIMS = ("recorder", "extender", "controller", "server")
LONGEST = 0.3
"""Seconds for which a process that is ready again is left alone at most."""
COMPACTION = {"TOPOLOG_COMPACTION_EVENTS": "20000", "TOPOLOG_COMPACTION_KEEP": "1000000000"}
REPORT_EVERY = 50
"""Kills after which a run of many prints its progress."""


class Killer:
    """Kills one kind of process so many times, at moments out of a seed."""

    def __init__(self, stack: stacks.Stack, victim: str, seed: int) -> None:
        self._stack = stack
        self._victim = victim
        self._rng = random.Random(f"{seed} {victim}")
        self._over = threading.Event()
        self.killed = 0
        self.error: BaseException | None = None

    def run(self, times: int) -> None:
        try:
            while self.killed < times:
                self._over.wait(self._rng.uniform(0.0, LONGEST))
                self._kill()
                self.killed += 1
                if self.killed % REPORT_EVERY == 0:
                    print(f"{self._victim}: {self.killed} of {times} kills")
        except BaseException as problem:
            self.error = problem

    def _kill(self) -> None:
        if self._victim == "server":
            self._stack.server.kill()
            self._over.wait(self._rng.uniform(0.0, 0.2))
            self._stack.server.start()
            return
        chosen: tuple[child_processes.Process, Callable[[], None]]
        if self._victim == "extender":
            replica = self._rng.choice(self._stack.replicas)
            chosen = replica.process, replica.ready
        else:
            worker = self._rng.choice(self._stack.workers[self._victim])
            chosen = worker.process, worker.ready
        process, ready = chosen
        process.kill()
        process.start()
        if self._rng.random() < 0.8:  # else it may be killed again while it starts
            ready()


def kill(folder: pathlib.Path, victims: tuple[str, ...], times: int, seed: int, each: int = 2) -> None:
    """All victims at once, each so many times."""
    with stacks.raised(folder, each=each) as stack, contextlib.closing(stack.opened()) as own:
        # Who starts again begins at a checkpoint; the judge wants the whole log.
        stack.work("compactor", "compact", **COMPACTION)
        load = loads.Load(stack.api, stack.side, own, stacks.callers(stack), seed, sharing=True)
        with load:
            killers = [Killer(stack, victim, seed) for victim in victims]
            threads = [threading.Thread(target=one.run, args=(times,)) for one in killers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for one in killers:
            if one.error is not None:
                raise one.error
        stacks.settled(stack)
        # While the disk is slow a server answers before it has written (two seconds at most): a kill may
        # lose that, and then it has to be reported.
        lost = loads.judge(stack.side, stack.store, load, lossy="server" in victims)
        print(
            f"{', '.join(victims)}: killed {times} times each; {len(load.acknowledged)} binds and"
            f" {len(load.written)} appends acknowledged ({lost} lost and reported), {dict(load.counted)},"
            f" {stack.store.log.head().offset} events"
        )


@pytest.mark.scenario("EQ-15")
def test_kills_under_load_lose_nothing(tmp_path: pathlib.Path) -> None:
    kill(tmp_path, VICTIMS, sizes.of("FEW_KILLS", 1), sizes.first_seed(), each=1)


@pytest.mark.campaign
@pytest.mark.parametrize("victim", VICTIMS)
def test_many_kills_of_one_kind(tmp_path: pathlib.Path, victim: str) -> None:
    kill(tmp_path, (victim,), sizes.of("KILLS", 500), sizes.first_seed())


@pytest.mark.campaign
def test_many_kills_of_every_kind_at_once(tmp_path: pathlib.Path) -> None:
    kill(tmp_path, VICTIMS, sizes.of("KILLS", 500) // 5, sizes.first_seed())


def test_what_is_killed_is_dead(tmp_path: pathlib.Path) -> None:
    """Else this would not be a campaign."""
    process = child_processes.Process("sleeper", ["sleep", "60"], log=tmp_path / "log")
    process.start()
    before = process.pid
    process.kill()
    process.start()
    assert process.pid != before
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)
    process.kill()


@pytest.mark.campaign
def test_a_recorder_that_was_stopped_past_its_lease_writes_nothing(tmp_path: pathlib.Path) -> None:
    """SIGSTOP of the leader until another one leads, then SIGCONT."""
    seed, times = sizes.first_seed(), sizes.of("PAUSES", 50)
    with stacks.raised(tmp_path) as stack, contextlib.closing(stack.opened()) as own:
        load = loads.Load(stack.api, stack.side, own, stacks.callers(stack, 1), seed)
        with load:
            for _ in range(times):
                pause(stack, random.Random(seed))
        stacks.settled(stack)
        loads.judge(stack.side, stack.store, load)
        print(f"stopped {times} leaders past their Lease; {stack.store.log.head().offset} events")


def pause(stack: stacks.Stack, rng: random.Random) -> None:
    log = stack.store.log
    before = log.state()
    leader = next(one.process for one in stack.workers["recorder"] if f"_{one.process.pid}_" in before.writer)
    leader.freeze()
    try:
        polling.eventually(lambda: log.state().writer != before.writer, "another one leads", within=30.0)
        threading.Event().wait(rng.uniform(0.0, 0.5))
    finally:
        leader.thaw()
    threading.Event().wait(rng.uniform(0.1, 0.5))
