"""Leader election by a Lease, by client-go's rules.

Whoever holds the Lease renews it; the others look at it, and take it once it has not changed for its
duration. Only changes that were seen here count, by this process' monotonic clock: the times in the
Lease are for people, and clocks that are wrong or are set change nothing. A holder that could not
renew gives up before the others may take over.

None of this stops a holder that was paused and does not know it. That is what the epoch is for: the
Lease's resourceVersion at its acquisition, which grows from one holder to the next even if the Lease
is deleted in between, and which the store compares.
"""

import datetime
import os
import random
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app import telemetry
from app.kube import backoffs, clients, errors, leases

NOTE = "topolog.io/known"
"""Annotation in which a holder leaves what its successor should know."""
_JITTER = 1.2
"""Those who wait look again after 1 to 2.2 times the pause, so that they do not come all at once."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds, each well above the next, as checked by the settings."""

    lease: float = 15.0
    """Others wait so long after the last change that they have seen."""
    renew: float = 10.0
    """A holder that has not renewed for so long gives up."""
    retry: float = 2.0
    """Pause between two attempts."""


class Tenure(NamedTuple):
    """One time of holding the Lease without a break."""

    epoch: str
    """The Lease's resourceVersion at acquisition."""
    number: int
    """How often the Lease has changed hands."""
    note: str
    """What the predecessor left."""


def identity() -> str:
    """A name that no other process has, and that people can read."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class Elector:
    """One candidate for one Lease; a thread renews it or waits for it. Safe between threads."""

    def __init__(
        self,
        client: clients.Client,
        namespace: str,
        name: str,
        *,
        terms: Terms | None = None,
        named: str = "",
        note: Callable[[], str] = str,
        tell: Callable[[str], None] = lambda trouble: None,
        clock: backoffs.Clock | None = None,
        die: random.Random | None = None,
    ) -> None:
        """``note`` says, at each renewal, what a successor should know; ``tell`` hears what is wrong with
        the Lease whenever that changes, and an empty text once nothing is.
        """
        self.identity = named or identity()
        self.note = note
        self._tell = tell
        self.holder = ""
        """Who held the Lease when it was last read; empty if nobody."""
        self.trouble = ""
        """Why the Lease cannot be had or renewed, other than that somebody else holds it."""
        self._terms = terms or Terms()
        self._lease = leases.Lease(client, namespace, name, timeout=self._terms.renew / 2)
        self._clock = clock or backoffs.RealClock()
        self._die = die or random.Random()
        self._lock = threading.RLock()
        self._known: leases.Json | None = None
        """The Lease as it was last read or written."""
        self._spec: leases.Json = {}
        self._changed = 0.0
        """When that change was seen (monotonic)."""
        self._tenure: Tenure | None = None
        self._until = 0.0
        """When this tenure ends unless it is renewed (monotonic)."""
        self._won = threading.Condition()
        self._stopped = False
        self._loop = telemetry.loops.Loop("election", self._stand, wait=self._clock.wait)

    # -- for whoever wants to lead -----------------------------------------------------------

    @property
    def tenure(self) -> Tenure | None:
        """The present one, if this process leads as far as it can know."""
        tenure, until = self._tenure, self._until
        return tenure if tenure is not None and self._clock.monotonic() < until else None

    def start(self) -> None:
        """Begin to stand for election in a thread of its own."""
        self._loop.start()

    def wait(self, timeout: float) -> Tenure | None:
        """The tenure as soon as there is one; None if there is none within the timeout (seconds)."""
        with self._won:
            self._won.wait_for(lambda: self.tenure is not None or self._stopped, timeout)
        return self.tenure

    def confirm(self) -> bool:
        """Ask the API server now: true if it agrees that this process holds the Lease."""
        before = self.tenure
        self.turn()
        return before is not None and self.tenure == before and not self.trouble

    def resign(self) -> None:
        """Give the Lease up, so that somebody else need not wait for it; it may be had again."""
        with self._lock:
            tenure, known, note = self._tenure, self._known, self.note()
            self._tenure = None
            if tenure is None or known is None or known["spec"].get("holderIdentity") != self.identity:
                return
            try:
                spec = self._written(known, holder="", number=tenure.number)
                note = note or leases.note(known, NOTE)
                self._take_note(self._lease.write(known, spec, {NOTE: note}))
            except errors.KubeError as problem:
                self.trouble = str(problem)

    def stop(self) -> None:
        """Leave the election, and give the Lease up."""
        self._stopped = True
        if isinstance(self._clock, backoffs.RealClock):
            self._clock.stop()
        with self._won:
            self._won.notify_all()
        self._loop.join(timeout=self._terms.renew)
        self.resign()

    # -- the thread --------------------------------------------------------------------------

    def _stand(self) -> None:
        while not self._stopped:
            if self._clock.wait(self.turn()):
                return

    def turn(self) -> float:
        """Try once to get or to renew the Lease; the seconds until the next attempt."""
        with self._lock:
            if self._stopped:
                return 0.0
            if self._tenure is not None and self.tenure is None:
                self._tenure = None
            before = self.trouble
            try:
                self._attempt()
                self.trouble = ""
            except errors.KubeError as problem:
                self.trouble = f"lease {self._lease.name}: {problem}"
            if self.trouble != before:
                self._tell(self.trouble)
            led = self.tenure is not None
        with self._won:
            self._won.notify_all()
        pause = self._terms.retry
        return pause if led else pause * (1.0 + _JITTER * self._die.random())

    def _attempt(self) -> None:
        begun = self._clock.monotonic()
        tenure = self._tenure
        known = self._known if tenure is not None else None
        # Nobody has touched it since, most of the time: one request.
        if known is not None and self._write(known, begun, tenure):
            return
        found = self._lease.read()
        self._take_note(found)
        if found is None:
            self._tenure = None
        elif tenure is not None and not self._is_mine(found, tenure):
            self._tenure = tenure = None
        if tenure is not None and found is not None:
            self._write(found, begun, tenure)
        elif found is None or self._is_free(found):
            self._write(found, begun, None)

    def _is_mine(self, found: leases.Json, tenure: Tenure) -> bool:
        spec = found.get("spec") or {}
        return bool(spec.get("holderIdentity") == self.identity) and _number(spec) == tenure.number

    def _is_free(self, found: leases.Json) -> bool:
        spec = found.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.identity):
            return True
        # The holder's own idea of its duration, if it is longer: settings may differ between two versions.
        length = max(self._terms.lease, float(spec.get("leaseDurationSeconds") or 0))
        return self._clock.monotonic() >= self._changed + length

    def _write(self, before: leases.Json | None, begun: float, tenure: Tenure | None) -> bool:
        """Renew, or take; true if it was done. Counted from before the request, which may take long."""
        number = tenure.number if tenure is not None else _next(before)
        left = leases.note(before, NOTE) if before is not None else ""
        spec = self._written(before, holder=self.identity, number=number)
        # Before anything is known to this holder, what the last one knew stays.
        note = (self.note() if tenure is not None else "") or left
        after = self._lease.write(before, spec, {NOTE: note})
        if after is None:
            return False
        self._take_note(after)
        self._until = begun + self._terms.renew
        if tenure is None:
            self._tenure = Tenure(epoch=leases.version(after), number=number, note=left)
        return True

    def _written(self, before: leases.Json | None, *, holder: str, number: int) -> leases.Json:
        former = (before or {}).get("spec") or {}
        now = _now()
        renewed = former.get("holderIdentity") == holder and _number(former) == number
        return {
            **former,
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self._terms.lease)) if holder else 1,
            "acquireTime": former.get("acquireTime", now) if renewed else now,
            "renewTime": now,
            "leaseTransitions": number,
        }

    def _take_note(self, found: leases.Json | None) -> None:
        self._known = found
        spec = (found or {}).get("spec") or {}
        if spec != self._spec:
            self._spec, self._changed = spec, self._clock.monotonic()
        self.holder = spec.get("holderIdentity") or ""


def _next(before: leases.Json | None) -> int:
    return _number((before or {}).get("spec") or {}) + 1 if before is not None else 0


def _number(spec: leases.Json) -> int:
    return int(spec.get("leaseTransitions") or 0)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
