"""Are the tests worth anything? Each mutant of the function and of the fold must fail one of them.

    python -m tests.campaigns.mutation function|fold             # every mutant; one JSON line each
    python -m tests.campaigns.mutation function|fold NAME        # one of them, with the output of the tests
    python -m tests.campaigns.mutation function|fold --sample 5 --seed 3

One process collects the tests that concern it and forks for each mutant; the child puts the mutant in place
and runs them until the first fails. A child that takes too long counts as failed.
"""

import argparse
import collections
import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import NamedTuple

import pytest
import redis
from hypothesis import settings as hypothesis_settings

from app.domain import event_subjects, projections, schema
from app.plugins.workload_policy import policy_counts
from app.store import errors, schemas
from app.store.server import connections, embedded
from tests.support.campaigns import mutants

LIMIT = 90.0
"""Seconds for one mutant: many times what the tests take without one."""
SURVIVORS = pathlib.Path(__file__).with_name("survivors.txt")
"""The mutants that no test need fail, and why: subject, name and reason, with tabs between them."""


class Subject(NamedTuple):
    """What is mutated, and the tests that cover it best, the quickest first."""

    tests: tuple[str, ...]
    without: str
    """Tests that take long and check something else, as pytest's ``-k`` spells it."""
    made: Callable[[], list[tuple[mutants.Mutant, Callable[[str], None]]]]


class Outcome(NamedTuple):
    """What became of one mutant."""

    name: str
    outcome: str
    """killed, late, survived, or invalid: one that is not a program."""
    seconds: float
    by: str
    """The test that noticed."""


def _in_function() -> list[tuple[mutants.Mutant, Callable[[str], None]]]:
    return [(one, _plant_function) for one in mutants.of_lua(schemas.library())]


def _plant_function(text: str) -> None:
    schemas.library = lambda: text


def _in_fold() -> list[tuple[mutants.Mutant, Callable[[str], None]]]:
    found: list[tuple[mutants.Mutant, Callable[[str], None]]] = []
    for module in (projections, event_subjects, schema, policy_counts):
        assert module.__file__ is not None
        text = pathlib.Path(module.__file__).read_text()
        name = module.__name__.rpartition(".")[2]
        found += [
            (mutants.Mutant(f"{name}.{one.name}", one.make), _planted_in(module))
            for one in mutants.of_python(text)
        ]
    return found


def _planted_in(module: ModuleType) -> Callable[[str], None]:
    def plant(text: str) -> None:
        # Most callers look the function up in the module, so they get this one.
        former = dict(_functions(module))
        exec(compile(text, f"<mutant of {module.__name__}>", "exec"), vars(module))
        # Declarations hold functions, and instances have methods: these become the mutant in place.
        for name, function in _functions(module):
            if name in former and former[name].__code__.co_freevars == function.__code__.co_freevars:
                former[name].__code__ = function.__code__

    return plant


def _functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """The functions of a module and the methods of its classes, by qualified name."""
    for owner in (module, *(one for one in vars(module).values() if isinstance(one, type))):
        for function in vars(owner).values():
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                yield function.__qualname__, function


SUBJECTS = {
    "function": Subject(
        (
            "tests/store/log/test_lost_replies.py",
            "tests/store/log/test_logs.py",
            "tests/store/log/test_loss_reports.py",
            "tests/store/log/test_functions.py",
            "tests/store/state/test_followers.py",
            "tests/store/state/test_follower_losses.py",
            "tests/store/state/test_follower_outages.py",
            "tests/store/state/test_prefetched_reads.py",
            "tests/store/state/test_subscribers.py",
            "tests/workers/compactor/test_compactors.py",
            "tests/workers/recorder/test_leadership.py",
            "tests/workers/recorder/test_store_losses.py",
            "tests/workers/recorder/test_store_restarts.py",
            "tests/workers/recorder/test_cluster_identity.py",
            "tests/store/log/test_machine.py",
        ),
        "not (waits_while_the_store_is_away or do_no_harm or cut_anywhere or stolen or within_the_timeout)",
        _in_function,
    ),
    "fold": Subject(("tests/domain", "tests/laws"), "", _in_fold),
}


def chosen(subject: str, *, sample: int = 0, seed: int = 0, operator: str = "") -> list[str]:
    """Names of mutants that must fail the tests: all, or a sample of those that they can fail."""
    made = [mutant for mutant, _ in SUBJECTS[subject].made()]
    names = [mutant.name for mutant in made if operator in ("", mutant.operator)]
    if not sample:
        return names
    excused = explained(subject)
    return random.Random(seed).sample([name for name in names if name not in excused], sample)


def explained(subject: str) -> dict[str, str]:
    """Mutants that may survive -> why."""
    found = {}
    for line in SURVIVORS.read_text().splitlines():
        if line and not line.startswith("#"):
            of, name, reason = line.split("\t")
            if of == subject:
                found[name] = reason
    return found


def run(subject: str, names: list[str], report: Callable[[Outcome], None], *, verbose: bool = False) -> None:
    """Try each of the mutants."""
    trial = _Trial(subject, names, report, verbose=verbose)
    code = _tested(SUBJECTS[subject], trial, verbose=verbose)
    if trial.is_child:
        os._exit(code)
    if trial.problem is not None:
        raise trial.problem


def _tested(subject: Subject, trial: "_Trial", *, verbose: bool) -> int:
    # A failed example is enough: it need not be shrunk.
    hypothesis_settings.register_profile(
        "mutant",
        phases=[phase for phase in hypothesis_settings().phases if phase.name in _PHASES],
        database=None,
        # A slow example notices no mutant.
        deadline=None,
    )
    hypothesis_settings.load_profile("mutant")
    # That hypothesis was there before pytest is not news.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:cacheprovider"]
    words = ["-x", "-m", "not campaign", "--timeout", "60", *quiet, *subject.tests]
    if subject.without:
        words += ["-k", subject.without]
    if not verbose:
        words += ["-s", "-p", "no:terminal", "-o", "addopts="]
    return int(pytest.main(words, plugins=[trial]))


class _Trial:
    """In the place of pytest's loop over the tests: a child for each mutant, in which that loop is run.

    The tests are collected once. Those that noticed most mutants so far go first. A test has to pass without
    any mutant when it notices for the first time: it might fail for another reason.
    """

    def __init__(
        self, subject: str, names: list[str], report: Callable[[Outcome], None], *, verbose: bool
    ) -> None:
        self._subject, self._names, self._report, self._verbose = subject, names, report, verbose
        self._noticed: collections.Counter[str] = collections.Counter()
        self._folder = pathlib.Path()
        self._server: embedded.Server | None = None
        self.is_child = False
        self.problem: Exception | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Go through the mutants; in a child, leave the loop to pytest."""
        try:
            self._run(session)
        except Exception as problem:
            # pytest would print it, and end as if a test had been at fault.
            self.problem = problem
        return None if self.is_child else True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report which test failed: the child is about to exit."""
        if report.failed:
            (self._folder / _WITNESS).write_text(report.nodeid)

    def _run(self, session: pytest.Session) -> None:
        made = {mutant.name: (mutant, plant) for mutant, plant in SUBJECTS[self._subject].made()}
        self._server = embedded.Server() if self._subject == "function" else None
        try:
            for name in self._names:
                self._try(session, name, *made[name])
                if self.is_child:
                    return
        finally:
            if self._server is not None and not self.is_child:
                self._server.stop()

    def _try(
        self, session: pytest.Session, name: str, mutant: mutants.Mutant, plant: Callable[[str], None]
    ) -> None:
        if self._server is not None and not _loads(self._server, mutant.text):
            self._report(Outcome(name, "invalid", 0.0, ""))
            return
        began = time.monotonic()
        order = sorted(session.items, key=lambda item: -self._noticed[item.nodeid])
        outcome, by = self._tried(session, order, functools.partial(plant, mutant.text))
        if not self.is_child and by and not self._noticed[by]:
            last = [item.nodeid for item in order].index(by)
            sound, _ = self._tried(session, order[: last + 1], lambda: None)
            if not self.is_child and sound != "survived":
                raise ValueError(f"{by} does not pass without any mutant either: {sound}")
        if not self.is_child:
            self._noticed.update([by] if by else [])
            self._report(Outcome(name, outcome, round(time.monotonic() - began, 2), by))

    def _tried(
        self, session: pytest.Session, order: list[pytest.Item], plant: Callable[[], None]
    ) -> tuple[str, str]:
        """What became of one mutant, and the test that noticed; in the child, go on to the tests."""
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="mutant-"))
        child = os.fork()
        if child == 0:
            self.is_child = True
            os.setsid()
            os.environ["TMPDIR"] = tempfile.tempdir = str(self._folder)
            if not self._verbose:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
            session.items = order
            plant()
            return "", ""
        try:
            status = _waited(child)
            witness = self._folder / _WITNESS
            by = witness.read_text() if witness.exists() else ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _end_all_in(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
        if status is None:
            return "late", by
        code = os.waitstatus_to_exitcode(status)
        return {0: "survived", 1: "killed", 2: "killed"}.get(code, f"broken: {code}"), by


def _loads(server: embedded.Server, text: str) -> bool:
    client = connections.connect(server.url)
    try:
        client.function_load(text, replace=True)
    except redis.ResponseError:
        return False
    finally:
        client.close()
    return True


def _end_all_in(folder: pathlib.Path) -> None:
    """End the servers that a child has left behind: each leads a session of its own, in this folder."""
    for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in command.read_bytes():
                os.kill(int(command.parent.name), signal.SIGKILL)


def _waited(child: int) -> int | None:
    """How it ended; None if it had to be ended."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


_WITNESS = "noticed-by"
_PHASES = ("explicit", "generate")


def main(words: list[str]) -> int:
    """Exit code 1 if a mutant survived that is not explained."""
    parser = argparse.ArgumentParser()
    parser.add_argument("subject", choices=sorted(SUBJECTS))
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operator", default="")
    given = parser.parse_args(words)
    drawn = chosen(given.subject, sample=given.sample, seed=given.seed, operator=given.operator)
    names = [given.name] if given.name else drawn
    excused, bad = explained(given.subject), []

    def report(found: Outcome) -> None:
        print(json.dumps(found._asdict()), flush=True)
        if found.outcome == "survived" and found.name not in excused:
            bad.append(found.name)

    run(given.subject, names, report, verbose=bool(given.name))
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except errors.NoServer as problem:
        sys.exit(str(problem))
