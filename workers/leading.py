"""Who may record: elected by a Lease, fenced by its version, and responsible for the log being whole.

A recorder stands by until it holds the Lease. Then it finds out whether the store still holds what is
known to have been in it (by this process, by its predecessor, who left word in the Lease, or by
any reader, who left word in the store). If not, it begins a new incarnation and has everything
listed anew. Then it says in the log that it leads, under its epoch. A recorder that was overtaken, or is not
sure that it leads, goes back to standing by.
"""

import functools
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from app import telemetry
from app.domain import events, snapshots
from app.kube import electing
from app.kube import errors as kube_errors
from app.store import errors, following, incarnations, logs
from workers import doubting

_LISTEN = 0.5
"""Seconds in which whoever follows the log has heard that events are lost: they ask more often."""
_LOOK = 1.0
_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_FIRST_LIST = "first list"


class Leadership(Protocol):
    """What decides who leads (kube.electing.Elector)."""

    identity: str
    holder: str
    trouble: str
    note: Callable[[], str]

    @property
    def tenure(self) -> electing.Tenure | None:
        """The present tenure, if this process leads."""
        ...

    def start(self) -> None:
        """Stand for election."""
        ...

    def wait(self, timeout: float) -> electing.Tenure | None:
        """The tenure, as soon as there is one."""
        ...

    def confirm(self) -> bool:
        """Whether it is certain at this moment that this process leads; leaves word for the successor."""
        ...

    def resign(self) -> None:
        """Give it up."""
        ...

    def stop(self) -> None:
        """Leave the election."""
        ...


class Alone:
    """The leadership of a recorder that has no rival, as in tests: nothing fences it."""

    identity = "alone"
    holder = "alone"
    trouble = ""
    note: Callable[[], str] = str
    tenure: electing.Tenure | None = electing.Tenure("", 0, "")

    def start(self) -> None:
        """See Leadership."""

    def wait(self, timeout: float) -> electing.Tenure | None:
        """See Leadership."""
        return self.tenure

    def confirm(self) -> bool:
        """See Leadership."""
        return True

    def resign(self) -> None:
        """See Leadership."""

    def stop(self) -> None:
        """See Leadership."""


class Term(NamedTuple):
    """What a recorder needs to know to record."""

    guard: logs.Guard
    """Epoch and writer, which every append carries."""
    marks: dict[str, str]
    """Checkpoints to resume from."""
    reason: str
    """Why kinds without a checkpoint are listed."""


def standing(elector: Leadership) -> dict[str, str | None]:
    """The line of readiness that says who leads: to stand by is to be ready, as long as somebody does."""
    if elector.holder not in ("", elector.identity):
        return {f"standing by, {elector.holder} leads": None}
    return {"leader": "this process is taking over" if elector.holder else "nobody leads"}


class Office:
    """The post of the one recorder. Used by its loop; ``stop`` and what it shows by any thread."""

    def __init__(
        self,
        elector: Leadership,
        log: logs.Log,
        follower: following.Follower,
        kinds: Iterable[str],
        *,
        settle: float = doubting.SETTLE,
        uid: Callable[[], str] = str,
    ) -> None:
        """``uid``: that of the Kubernetes cluster, empty if nobody can tell (kube.identifying).

        ``kinds``: names of what is listed; ``settle``: see doubting.SETTLE."""
        self._elector = elector
        elector.note = self.known
        self._log = log
        self._follower = follower
        self._kinds = tuple(kinds)
        self._settle = settle
        self._uid = uid
        self._listen = min(_LISTEN, settle)
        self._stopped = threading.Event()
        self._tenure: electing.Tenure | None = None
        self._pause = _PAUSE
        self._reason = _FIRST_LIST
        self._entered: electing.Tenure | None = None
        """The tenure that this process has entered in the log."""
        self.trouble = ""
        """What keeps this process from taking or keeping the post."""

    @property
    def held(self) -> bool:
        """Whether this process may go on to record, as far as it can know."""
        return (
            not self._stopped.is_set() and self._tenure is not None and self._elector.tenure == self._tenure
        )

    def checks(self) -> dict[str, str | None]:
        """What readiness depends on while this process is not in office."""
        return {
            **standing(self._elector),
            "election": self._elector.trouble or None,
            "store": self.trouble or None,
        }

    def known(self) -> str:
        """What a successor should know: the last entry that was in the log.

        Empty before this process has entered its election in the log: until then the predecessor's stands.
        """
        seen = self._log.seen
        # After a pause the Lease may be held for another tenure already: what its last holder noted is newer.
        entered = self._entered is not None and self._entered == self._elector.tenure
        return str(seen) if entered and seen.offset else ""

    def take(self) -> Term | None:
        """Stand by until this process leads and the log is whole; None once stopped."""
        while not self._stopped.is_set():
            self._tenure = self._entered = None
            telemetry.metrics.LEADER.set(0)
            tenure = self._elector.wait(_LOOK)
            try:
                if tenure is None:
                    self._watch()
                    continue
                term = self._enter(tenure)
                if term is None:
                    continue
                self._tenure, self._pause, self.trouble = tenure, _PAUSE, ""
                telemetry.metrics.LEADER.set(1)
                telemetry.log.info("leads", epoch=term.guard.epoch, incarnation=self._log.incarnation)
                return term
            except errors.StoreAway as away:
                self._wait(f"the store is away: {away}")
            except errors.OtherCluster as other:
                self._wait(str(other))
            except kube_errors.KubeError as problem:
                self._wait(f"it cannot be seen which cluster this is: {problem}")
            except (errors.Fenced, errors.Rewound) as problem:
                self.heal(problem)
        return None

    def heal(self, problem: errors.Fenced | errors.Rewound) -> None:
        """Find out what an append that was refused means, and do what this process may do about it."""
        self._tenure = self._entered = None
        try:
            if isinstance(problem, errors.Fenced):
                self._fenced(problem)
            else:
                self._rewound()
        except errors.StoreAway as away:
            self._wait(f"the store is away: {away}")
        except errors.Fenced as fenced:
            self._fenced(fenced)
        except errors.Rewound as again:
            # What was begun is lost as well: whoever takes the post next finds that out from the start.
            self._wait(f"events were lost again at once: {again}")

    def begin(self) -> None:
        """Stand for election."""
        self._elector.start()

    def stop(self) -> None:
        """Let ``take`` return; the Lease is given up by ``leave``."""
        self._stopped.set()

    def leave(self) -> None:
        """Give the post up for good."""
        self._stopped.set()
        telemetry.metrics.LEADER.set(0)
        self._elector.stop()

    # -- taking the post ---------------------------------------------------------------------

    def _watch(self) -> None:
        """Stand by: read along, so that taking over takes no time."""
        try:
            self._follower.catch_up()
            self.trouble = ""
        except errors.Rewound:
            pass  # Whoever leads has to see to that; if it is us, soon enough.

    def _enter(self, tenure: electing.Tenure) -> Term | None:
        """Take office; None if it is not certain any more that this process leads."""
        standing = self._log.standing()
        # The era of the epochs was read: only who holds the Lease after that may use it.
        if not self._elector.confirm():
            return None
        uid = self._uid()
        if uid and standing.kubernetes not in ("", uid):
            raise errors.OtherCluster(self._log.cluster, standing.kubernetes, uid)
        lost = self._lost(tenure, standing)
        if lost is not None:
            self._begin(tenure, lost, f"it should hold {lost.incarnation}/{lost.offset}")
            return None
        snapshot = self._follower.catch_up(timeout=60.0)
        guard = self._guard(tenure, standing)
        if guard.epoch:
            elected = events.RecorderElected(guard.writer, guard.epoch, incarnation=self._log.incarnation)
            doubts = doubting.restarted(standing, self._elector.identity)
            batch = logs.Batch(events=(*doubts, elected), run=standing.run, kubernetes=uid)
            self._log.append(batch, guard)
            if doubts:
                self._reason = "the store was restarted"
            snapshot = self._follower.catch_up(timeout=60.0)
            # Nothing is decided before the successor would miss this if it were lost.
            self._entered = tenure
            if not self._elector.confirm():
                return None
        if not self._settled(tenure, snapshot):
            return None
        # A kind that is to be listed again has no version to go on from.
        marks = {
            name: version
            for name, version in self._log.marks().items()
            if name.removeprefix("rv:") not in snapshot.unlisted
        }
        reason, self._reason = self._reason, _FIRST_LIST
        return Term(guard, marks, reason)

    def _settled(self, tenure: electing.Tenure, snapshot: snapshots.Snapshot) -> bool:
        """Wait until no Binding of a placement that may be lost is under way; false if leadership is over."""
        if (rest := doubting.remaining(self._log, snapshot, self._settle)) > 0:
            self._stopped.wait(rest)
        return not self._stopped.is_set() and self._elector.tenure == tenure

    def _guard(self, tenure: electing.Tenure, standing: incarnations.Standing) -> logs.Guard:
        if not tenure.epoch:
            return logs.Guard()
        epoch = incarnations.epoch(tenure.epoch, standing.epoch)
        return logs.Guard(epoch=epoch, writer=self._elector.identity)

    def _lost(self, tenure: electing.Tenure, standing: incarnations.Standing) -> incarnations.Known | None:
        """What was in the log by the word of the last recorder, or as read here, and is not any more."""
        known = self._words(tenure)
        if not (known or standing.incarnation or self._log.seen.offset):
            raise errors.SchemaMismatch("the store is empty: run `topolog migrate up`")
        return self._missed(known, standing)

    def _words(self, tenure: electing.Tenure) -> list[incarnations.Known]:
        told = (incarnations.read_known(tenure.note), self._log.left)
        return [one for one in told if one is not None and one.offset]

    def _missed(
        self, known: Iterable[incarnations.Known], standing: incarnations.Standing
    ) -> incarnations.Known | None:
        """The first of what is known that the store does not hold, and of which it does not tell."""
        for one in known:
            if one.incarnation == standing.former or incarnations.later(standing.former, one.incarnation):
                continue  # Told when the present one began, or one before it.
            later = incarnations.later(standing.incarnation, one.incarnation)
            if not standing.incarnation or later or not self._log.doubt(one):
                return one
        return None

    # -- healing -----------------------------------------------------------------------------

    def _fenced(self, fenced: errors.Fenced) -> None:
        if not self._elector.confirm():
            telemetry.log.warning("another recorder has taken over; standing by", error=str(fenced))
            return
        self._wait(
            f"the store holds epoch {fenced.epoch} of {fenced.writer or 'somebody'}, and this recorder leads"
            " by a Lease of a lower version: if etcd was restored, run `topolog adopt`"
        )

    def _rewound(self) -> None:
        try:
            # Perhaps another recorder has seen to it; what it did is checked when the post is taken again.
            self._follower.catch_up(timeout=60.0)
            return
        except errors.Rewound as problem:
            reason = str(problem)
        tenure = self._elector.tenure
        if tenure is not None:
            self._begin(tenure, self._log.seen, reason)

    def _begin(self, tenure: electing.Tenure, lost: incarnations.Known, reason: str) -> None:
        """Begin a new incarnation."""
        # Nobody reads on any more: meanwhile each leaves word of what it has read and is lost.
        self._stopped.wait(self._listen)
        if not self._elector.confirm():
            return
        standing, kept = self._log.standing(), self._follower.divergence()
        if standing.lost is None:
            if self._log.doubt(lost):
                # Another store by now, which holds it: what the former one had noted went with that.
                return
            standing = self._log.standing()  # With what has been noted meanwhile.
        # The word too: a beginning that told of it may be what is lost now.
        word = self._missed(self._words(tenure), standing)
        mine = [one for one in (lost, word, self._log.seen) if one is not None]
        known = [one for one in mine if not self._holds(one, standing)]
        if standing.lost is not None:
            known.append(standing.lost)
        if not known:
            return
        lost = max(known, key=functools.cmp_to_key(_wider))
        # What is known and lost is lost for certain; how much before it, only who has read it can tell.
        told = [one.kept for one in known if one.incarnation == lost.incarnation]
        held = max(0, min(standing.head, lost.offset - 1, *(at for at in (kept, *told) if at is not None)))
        begun = incarnations.new((standing.incarnation, lost.incarnation, self._log.incarnation))
        event = events.StoreRewound(
            from_incarnation=lost.incarnation,
            lost_from=held + 1,
            # Of an incarnation that nobody has read, only that it was begun is certain.
            lost_to=lost.offset or standing.head + 1,
            reason=f"the store is at {standing.incarnation or 'nothing'}/{standing.head}: {reason}",
            by=self._elector.identity,
            relisting=self._kinds,
            incarnation=begun,
        )
        guard = self._guard(tenure, standing)
        if not self._log.rewind(event, begun, found=standing.incarnation, guard=guard):
            return
        self._reason = "the store lost events"
        telemetry.metrics.REWINDS.inc()
        telemetry.log.error(
            "events were lost; a new incarnation begins",
            incarnation=begun,
            former=lost.incarnation,
            lost_from=event.lost_from,
            lost_to=event.lost_to,
            reason=event.reason,
        )
        self._follower.catch_up(timeout=60.0)

    def _holds(self, known: incarnations.Known, standing: incarnations.Standing) -> bool:
        """Whether the log still has the entry, be it that others know of one that it has not."""
        if known.incarnation != standing.incarnation or known.offset > standing.head:
            return False
        return known.at_ms is None or self._log.time_of(known.offset) in (None, known.at_ms)

    def _wait(self, trouble: str) -> None:
        """Try again later, and say meanwhile what is wrong."""
        if trouble != self.trouble:
            telemetry.log.warning("cannot record", trouble=trouble)
        self.trouble = trouble
        self._stopped.wait(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)


def _wider(one: incarnations.Known, other: incarnations.Known) -> int:
    """Whether what is known to be lost by the one goes further than by the other: positive, or negative."""
    if one.incarnation == other.incarnation:
        return one.offset - other.offset
    return 1 if incarnations.later(one.incarnation, other.incarnation) else -1
