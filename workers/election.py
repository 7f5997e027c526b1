"""Leadership of a worker: one replica leads, the others are on standby."""

from collections.abc import Callable
from typing import Protocol

from app.kube.election import electors


class Leadership(Protocol):
    """Decides which replica leads (app.kube.election.electors.Elector)."""

    identity: str
    holder: str
    problem: str
    handover_note: Callable[[], str]

    @property
    def tenure(self) -> electors.Tenure | None:
        """The present tenure, if this process leads."""
        ...

    def start(self) -> None:
        """Take part in the election."""
        ...

    def wait(self, timeout: float) -> electors.Tenure | None:
        """The tenure, as soon as there is one."""
        ...

    def confirm(self) -> bool:
        """Whether this process certainly leads now; records its watermark for the successor."""
        ...

    def resign(self) -> None:
        """Give up the Lease."""
        ...

    def stop(self) -> None:
        """Leave the election."""
        ...


class NoElection:
    """Leadership without an election, for a single process: nothing fences it."""

    identity = "alone"
    holder = "alone"
    problem = ""
    handover_note: Callable[[], str] = str
    tenure: electors.Tenure | None = electors.Tenure("", 0, "")

    def start(self) -> None:
        """See Leadership."""

    def wait(self, timeout: float) -> electors.Tenure | None:
        """See Leadership."""
        return self.tenure

    def confirm(self) -> bool:
        """See Leadership."""
        return True

    def resign(self) -> None:
        """See Leadership."""

    def stop(self) -> None:
        """See Leadership."""


def reason_of_loss(elector: Leadership) -> str:
    """Why a replica that led does not lead any more, for its log line."""
    if elector.problem:
        return elector.problem
    if elector.holder == elector.identity:
        # No attempt failed: the process was paused or starved, or its request has no answer yet.
        return "its Lease was not renewed in time"
    return f"{elector.holder} has the Lease" if elector.holder else "its Lease was released or deleted"


def readiness(elector: Leadership) -> dict[str, str | None]:
    """The readiness checks of a replica that does not lead: it is ready as long as another one leads."""
    election = {"election": elector.problem or None}
    if elector.holder not in ("", elector.identity):
        return {f"standby, {elector.holder} leads": None, **election}
    if elector.problem:
        # Why no replica leads, in place of the fact.
        return election
    return {"leader": "this process is taking over" if elector.holder else "no replica leads", **election}
