"""Leader election by a Lease, by client-go's rules.

The holder renews the Lease. The other candidates poll it, and take it once it has not changed for its
duration. Only changes observed by this process count, by its monotonic clock: the times in the Lease
are for people, so wrong or adjusted clocks do not matter. A holder that cannot renew gives up before
the others may take over.

None of this stops a holder that resumes after an unnoticed pause. The epoch does: it is the Lease's
resourceVersion at acquisition, which grows from one holder to the next even if the Lease is deleted in
between, and the store compares it.
"""

import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app import clocks, telemetry
from app.kube import errors
from app.kube.client import clients
from app.kube.election import leases

HANDOVER_ANNOTATION = "topolog.io/known"
"""Annotation that carries the holder's note for its successor."""
_JITTER = 1.2
"""Candidates poll again after 1 to 2.2 times the pause, so that they do not all poll at once."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds; each is well above the next, which the settings check."""

    lease: float = 15.0
    """A candidate takes the Lease when it has observed no change for this long."""
    renew: float = 10.0
    """A holder gives up when it has not renewed for this long."""
    retry: float = 2.0
    """Pause between two attempts."""


class Tenure(NamedTuple):
    """One uninterrupted time of holding the Lease."""

    epoch: str
    """The Lease's resourceVersion at acquisition."""
    transitions: int
    """How often the Lease has changed hands (leaseTransitions)."""
    handover_note: str
    """The predecessor's note."""


def unique_identity() -> str:
    """A unique, readable name for this process: host, pid, random suffix."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class Elector:
    """One candidate for one Lease. A thread renews the Lease or polls it. Thread-safe."""

    def __init__(
        self,
        client: clients.Client,
        namespace: str,
        name: str,
        *,
        durations: Durations | None = None,
        identity: str = "",
        on_problem: Callable[[str], None] = lambda problem: None,
        clock: clocks.Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """``identity``: unique among the candidates, by default unique_identity();
        ``on_problem(message)`` is called whenever the problem changes; an empty string means it is resolved.
        """
        self.identity = identity or unique_identity()
        self.handover_note: Callable[[], str] = str
        """Returns the note for the successor; called at each renewal. Set it before ``start``."""
        self._on_problem = on_problem
        self.holder = ""
        """Holder of the Lease when it was last read; empty if it was free."""
        self.problem = ""
        """Why the Lease cannot be acquired or renewed; empty if it can, or another candidate holds it."""
        self._durations = durations or Durations()
        self._lease = leases.Lease(client, namespace, name, timeout=self._durations.renew / 2)
        self._clock = clock or clocks.RealClock()
        self._rng = rng or random.Random()
        self._lock = threading.RLock()
        self._known: leases.Json | None = None
        """The Lease as last read or written."""
        self._spec: leases.Json = {}
        self._changed = 0.0
        """When its last change was observed (monotonic)."""
        self._tenure: Tenure | None = None
        self._until = 0.0
        """When this tenure ends unless the Lease is renewed (monotonic)."""
        self._extending = threading.RLock()
        """Never held during a request. A tenure that was read as ended must not go on: who read that has
        given it up."""
        self._won = threading.Condition()
        self._stopped = False
        self._loop = telemetry.loops.Loop("election", self._run, wait=self._clock.wait)

    # -- for the process that wants to lead --------------------------------------------------

    @property
    def tenure(self) -> Tenure | None:
        """The current tenure; None unless this process leads by its own clock."""
        with self._extending:
            return self._tenure if self._clock.monotonic() < self._until else None

    def start(self) -> None:
        """Take part in the election, in a separate thread."""
        self._loop.start()

    def wait(self, timeout: float) -> Tenure | None:
        """Wait for a tenure; None if the timeout (seconds) passes first."""
        with self._won:
            self._won.wait_for(lambda: self.tenure is not None or self._stopped, timeout)
        return self.tenure

    def confirm(self) -> bool:
        """Renew the Lease now; true if the API server confirms that this process has held it throughout."""
        before = self.tenure
        self.run_once()
        return before is not None and self.tenure == before and not self.problem

    def resign(self) -> None:
        """Release the Lease, so that others need not wait for it to expire; it may be acquired again."""
        with self._lock:
            tenure, known, note = self._tenure, self._known, self.handover_note()
            self._tenure = None
            if tenure is None or known is None or known["spec"].get("holderIdentity") != self.identity:
                return
            try:
                spec = self._spec_for(known, holder="", transitions=tenure.transitions)
                note = note or leases.note(known, HANDOVER_ANNOTATION)
                self._observe(self._lease.write(known, spec, {HANDOVER_ANNOTATION: note}))
            except errors.KubeError as problem:
                self.problem = str(problem)

    def stop(self) -> None:
        """Leave the election and release the Lease."""
        self._stopped = True
        if isinstance(self._clock, clocks.RealClock):
            self._clock.stop()
        with self._won:
            self._won.notify_all()
        self._loop.join(timeout=self._durations.renew)
        self.resign()

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped:
            if self._clock.wait(self.run_once()):
                return

    def run_once(self) -> float:
        """Try once to acquire or renew the Lease; returns the seconds until the next attempt."""
        with self._lock:
            if self._stopped:
                return 0.0
            if self._tenure is not None and self.tenure is None:
                self._tenure = None
            before = self.problem
            try:
                self._attempt()
                self.problem = ""
            except errors.KubeError as problem:
                self.problem = f"lease {self._lease.name}: {problem}"
            if self.problem != before:
                self._on_problem(self.problem)
            led = self.tenure is not None
        with self._won:
            self._won.notify_all()
        pause = self._durations.retry
        return pause if led else pause * (1.0 + _JITTER * self._rng.random())

    def _attempt(self) -> None:
        begun = self._clock.monotonic()
        tenure = self._tenure
        known = self._known if tenure is not None else None
        # Usually the Lease has not changed since the last write: one request is enough.
        if known is not None and self._write(known, begun, tenure):
            return
        found = self._lease.read()
        self._observe(found)
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
        return bool(spec.get("holderIdentity") == self.identity) and _transitions(spec) == tenure.transitions

    def _is_free(self, found: leases.Json) -> bool:
        spec = found.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self.identity):
            return True
        # The duration that the holder wrote, if it is longer: settings may differ between versions.
        length = max(self._durations.lease, float(spec.get("leaseDurationSeconds") or 0))
        return self._clock.monotonic() >= self._changed + length

    def _write(self, before: leases.Json | None, begun: float, tenure: Tenure | None) -> bool:
        """Renew or acquire the Lease; true on success.

        ``begun``: when the attempt began. The tenure counts from then, because the request may take long.
        """
        transitions = tenure.transitions if tenure is not None else _next(before)
        inherited = leases.note(before, HANDOVER_ANNOTATION) if before is not None else ""
        spec = self._spec_for(before, holder=self.identity, transitions=transitions)
        # Until this holder has a note, the predecessor's note stays.
        note = (self.handover_note() if tenure is not None else "") or inherited
        after = self._lease.write(before, spec, {HANDOVER_ANNOTATION: note})
        if after is None:
            return False
        self._observe(after)
        with self._extending:
            if tenure is None or self.tenure is None:
                # One that ended while the request was under way is another one: its holder has given it up.
                self._tenure = Tenure(leases.version(after), transitions, inherited)
            self._until = begun + self._durations.renew
        return True

    def _spec_for(self, before: leases.Json | None, *, holder: str, transitions: int) -> leases.Json:
        former = (before or {}).get("spec") or {}
        now = _now()
        renewed = former.get("holderIdentity") == holder and _transitions(former) == transitions
        return {
            **former,
            "holderIdentity": holder,
            "leaseDurationSeconds": max(1, round(self._durations.lease)) if holder else 1,
            "acquireTime": former.get("acquireTime", now) if renewed else now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _observe(self, found: leases.Json | None) -> None:
        self._known = found
        spec = (found or {}).get("spec") or {}
        if spec != self._spec:
            self._spec, self._changed = spec, self._clock.monotonic()
        self.holder = spec.get("holderIdentity") or ""


def _next(before: leases.Json | None) -> int:
    return _transitions((before or {}).get("spec") or {}) + 1 if before is not None else 0


def _transitions(spec: leases.Json) -> int:
    return int(spec.get("leaseTransitions") or 0)


def _now() -> str:
    return clocks.rfc3339(time.time(), "microseconds")
