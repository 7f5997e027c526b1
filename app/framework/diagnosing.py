"""Checks of ``topolog doctor`` as data: what is checked, why it matters, how it is fixed, and what was found.

A check is a pure function of facts. What could not be seen has the verdict ``unsure``, never ``ok``: an
operator who reads that all is well must be able to rely on it.
"""

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["ok", "warning", "problem", "unsure"]

OK: Final = "ok"
WARNING: Final = "warning"
"""Works, with a risk or a cost."""
PROBLEM: Final = "problem"
"""Does harm, or cannot work."""
UNSURE: Final = "unsure"
"""The facts could not be read."""

VERDICTS: Final[tuple[Verdict, ...]] = (PROBLEM, UNSURE, WARNING, OK)
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one check found about one subject."""

    id: str
    subject: str
    """What was looked at: a file, an object, a process."""
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
    """What to do, with capitals for what depends on the installation."""
    docs: str

    def ok(self, subject: str, seen: str) -> Result:
        """The facts are as they should be."""
        return Result(self.id, subject, OK, seen, docs=self.docs)

    def problem(self, subject: str, seen: str, *, fix: str = "", why: str = "") -> Result:
        """The facts do harm, or cannot work."""
        return self._found(subject, PROBLEM, seen, why=why, fix=fix)

    def warning(self, subject: str, seen: str, *, fix: str = "", why: str = "") -> Result:
        """The facts work, with a risk or a cost."""
        return self._found(subject, WARNING, seen, why=why, fix=fix)

    def unsure(self, subject: str, seen: str, *, fix: str) -> Result:
        """The facts could not be read; ``fix``: how they can be."""
        return self._found(subject, UNSURE, seen, why="", fix=fix)

    def _found(self, subject: str, verdict: Verdict, seen: str, *, why: str, fix: str) -> Result:
        return Result(self.id, subject, verdict, seen, why or self.why, fix or self.fix, self.docs)


def worst(results: "list[Result] | tuple[Result, ...]") -> Verdict:
    """The worst verdict of all; ok if there is none."""
    found = {one.verdict for one in results}
    return next((verdict for verdict in VERDICTS if verdict in found), OK)
