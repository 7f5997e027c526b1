"""Checks of ``topolog doctor`` as data: what is checked, why it matters, how it is fixed, and what was found.

A check is a pure function of facts. What could not be seen has the verdict ``unsure``, never ``ok``: an
operator who reads that all is well must be able to rely on it.
"""

import fractions
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from app.domain import snapshots

Verdict = Literal["ok", "warning", "problem", "unsure"]

OK: Final = "ok"
WARNING: Final = "warning"
"""Works, with a risk or a cost."""
PROBLEM: Final = "problem"
"""Does harm, or cannot work."""
UNSURE: Final = "unsure"
"""The facts could not be read."""

_NOTHING: Final[Mapping[str, str]] = types.MappingProxyType({})
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]{3,}\b")

VERDICTS: Final[tuple[Verdict, ...]] = (PROBLEM, UNSURE, WARNING, OK)
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one check found about one subject."""

    id: str
    subject: str
    """What was checked: a file, an object, a process."""
    verdict: Verdict
    seen: str
    why: str = ""
    """Why it matters; empty if the verdict is ok."""
    fix: str = ""
    """The command or change that fixes it; empty if the verdict is ok."""
    docs: str = ""
    """The page and section about it, below docs/."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check; its results differ in subject and in what was seen."""

    id: str
    """Stable: a letter for the area and two digits."""
    about: str
    """What has to be so, as a sentence."""
    why: str
    """Why it matters, as a clause that follows what was found."""
    fix: str
    """What to do, with capitals for what depends on the installation: results replace them by ``known``."""
    docs: str

    def ok(self, subject: str, seen: str) -> Result:
        """The facts are as they should be."""
        return Result(self.id, subject, OK, seen, docs=self.docs)

    def problem(
        self, subject: str, seen: str, *, fix: str = "", why: str = "", known: Mapping[str, str] = _NOTHING
    ) -> Result:
        """The facts do harm, or cannot work. ``known``: capitals of the fix -> what they stand for."""
        return self._found(subject, PROBLEM, seen, why=why, fix=filled(fix or self.fix, known))

    def warning(
        self, subject: str, seen: str, *, fix: str = "", why: str = "", known: Mapping[str, str] = _NOTHING
    ) -> Result:
        """The facts work, with a risk or a cost. ``known``: as for a problem."""
        return self._found(subject, WARNING, seen, why=why, fix=filled(fix or self.fix, known))

    def unsure(self, subject: str, seen: str, *, fix: str) -> Result:
        """The facts could not be read; ``fix``: how they can be."""
        return self._found(subject, UNSURE, seen, why="", fix=fix)

    def _found(self, subject: str, verdict: Verdict, seen: str, *, why: str, fix: str) -> Result:
        return Result(self.id, subject, verdict, seen, why or self.why, fix, self.docs)


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that makes pods from a template: a Deployment, a StatefulSet, a Job."""

    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    template_labels: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = "default-scheduler"
    """schedulerName of the template."""
    node: str = ""
    """nodeName of it: no scheduler places its pods; empty if one does."""
    replicas: int = 1
    unavailable: str = ""
    """maxUnavailable of a Deployment's rolling update: a number or a percentage; empty if it has none."""
    surge: str = "25%"
    """maxSurge of it."""

    @property
    def subject(self) -> str:
        """The object in results."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def surging(self) -> bool:
        """Whether a rolling update removes no pod before a new one is available.

        As Kubernetes resolves both: it rounds maxUnavailable down and maxSurge up, and removes one pod at a
        time if neither is left.
        """
        if not self.unavailable:
            return False
        removed = math.floor(_resolved(self.unavailable, self.replicas))
        return removed == 0 and math.ceil(_resolved(self.surge, self.replicas)) > 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What plugins diagnose: the state of the API server, not of the log."""

    snapshot: snapshots.Snapshot
    workloads: tuple[Workload, ...] = ()
    schedulers: frozenset[str] | None = None
    """Names of the schedulers that call the extender; None if that could not be seen."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The checks of a plugin, and the function that makes them."""

    checks: tuple[Check, ...]
    run: Callable[[Cluster], Iterable[Result]]


def _resolved(text: str, replicas: int) -> fractions.Fraction:
    """A number of pods, or a percentage of the replicas."""
    number, percent, _ = text.partition("%")
    return fractions.Fraction(int(number) * replicas, 100) if percent else fractions.Fraction(int(number))


def filled(fix: str, known: Mapping[str, str]) -> str:
    """A fix with what its capitals stand for; those that are not known are left."""
    return _PLACEHOLDER.sub(lambda found: known.get(found[0], found[0]), fix)


def worst(results: Sequence[Result]) -> Verdict:
    """The worst verdict of all; ok if there is none."""
    found = {one.verdict for one in results}
    return next((verdict for verdict in VERDICTS if verdict in found), OK)
