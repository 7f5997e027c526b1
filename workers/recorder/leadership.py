"""Leadership of the recorder: elected by a Lease, fenced in the log by the Lease's version.

A recorder is on standby until it holds the Lease. Then it checks that the store still holds what is known
to have been in it (loss_recovery), records its election in the log under its epoch, and waits until no
Binding of a placement that may be lost is under way (settle_time). A recorder that was overtaken, or is not
certain that it leads, returns to standby.
"""

import threading
from collections.abc import Callable, Sequence

import msgspec

from app import telemetry
from app.domain import events, snapshots
from app.kube import errors as kube_errors
from app.kube.election import electors
from app.kube.watch import kinds
from app.pauses import Pauses
from app.store import errors
from app.store.log import batches, logs
from app.store.state import followers
from workers import election
from workers.recorder import leader_terms, loss_recovery, settle_time

_POLL = 1.0
_CATCH_UP_TIMEOUT = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class RecorderLeadership:
    """Acquires and keeps leadership. Used by the recorder's loop; ``stop`` and the state by any thread."""

    def __init__(
        self,
        elector: election.Leadership,
        log: logs.Log,
        follower: followers.Follower,
        watched: Sequence[kinds.WatchedKind],
        *,
        settle: float,
        uid: Callable[[], str] = str,
    ) -> None:
        """``watched``: the kinds that are recorded; ``settle``: see settle_time.remaining.

        ``uid`` returns the UID of the Kubernetes cluster, empty if unknown; raises KubeError.
        """
        self._elector = elector
        elector.handover_note = self.handover_note
        self._log = log
        self._follower = follower
        self._kinds = watched
        self._settle = settle
        self._uid = uid
        self._stopped = threading.Event()
        self._recovery = loss_recovery.LossRecovery(
            elector,
            log,
            follower,
            [kind.name for kind in watched],
            settle=settle,
            wait=lambda seconds: self._stopped.wait(seconds),
        )
        self._tenure: electors.Tenure | None = None
        self._pauses = Pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._recorded: electors.Tenure | None = None
        """The tenure whose election this process has recorded in the log."""
        self.problem = ""
        """Why this process cannot become or stay the leader; empty if nothing prevents it."""

    @property
    def held(self) -> bool:
        """Whether this process may still append, by its own clock."""
        return (
            not self._stopped.is_set() and self._tenure is not None and self._elector.tenure == self._tenure
        )

    def checks(self) -> dict[str, str | None]:
        """Readiness checks of a process that does not lead."""
        return {
            **election.readiness(self._elector),
            "store": self.problem or None,
        }

    def handover_note(self) -> str:
        """The last entry known to be in the log, for the Lease and so for the next leader.

        Empty until this process has recorded its election in the log: until then its predecessor's note
        is kept.
        """
        seen = self._log.seen
        # After a pause the Lease may belong to another tenure already, whose holder has a newer note.
        recorded = self._recorded is not None and self._recorded == self._elector.tenure
        return str(seen) if recorded and seen.offset else ""

    def acquire(self) -> leader_terms.LeaderTerm | None:
        """Wait on standby until this process leads and the log is whole; None once stopped."""
        if self._tenure is not None and not self._stopped.is_set():
            telemetry.log.warning("recorder no longer leads", problem=election.reason_of_loss(self._elector))
        while not self._stopped.is_set():
            self._tenure = self._recorded = None
            tenure = self._elector.wait(_POLL)
            try:
                if tenure is None:
                    self._follow()
                    continue
                term = self._enter(tenure)
                if term is None:
                    if self._elector.problem:
                        self._wait(self._elector.problem)
                    continue
                self._tenure, self.problem = tenure, ""
                self._pauses.reset()
                telemetry.log.info(
                    "recorder leads", epoch=term.guard.epoch, incarnation=self._log.incarnation
                )
                return term
            except errors.StoreAway as away:
                self._wait(f"the store is away: {errors.cause(away)}")
            except kube_errors.KubeError as problem:
                self._wait(f"cannot read the identity of the Kubernetes cluster: {problem}")
            except (errors.Fenced, errors.Rewound, errors.OtherCluster) as problem:
                self.recover(problem)
        return None

    def abandon(self, problem: Exception) -> None:
        """End the term because recording failed; the recorder's loop enters another one."""
        if self.held:
            self._tenure = None
            telemetry.log.warning("recorder no longer leads", problem=str(problem) or type(problem).__name__)

    def recover(self, problem: errors.Fenced | errors.Rewound | errors.OtherCluster) -> None:
        """Give up the term after a refused append, and repair what this process may repair."""
        self._tenure = self._recorded = None
        try:
            match problem:
                case errors.Fenced():
                    self._fenced(problem)
                case errors.OtherCluster():
                    self._wait(str(problem))
                case errors.Rewound():
                    self._recovery.recover()
        except errors.StoreAway as away:
            self._wait(f"the store is away: {errors.cause(away)}")
        except errors.Fenced as fenced:
            self._fenced(fenced)
        except errors.OtherCluster as other:
            self._wait(str(other))
        except errors.Rewound as again:
            # The new incarnation is lost as well; the next leader finds that out from the start.
            self._wait(f"the store lost events again: {again}")

    def start(self) -> None:
        """Take part in the election."""
        self._elector.start()

    def stop(self) -> None:
        """Let ``acquire`` return; ``close`` gives up the Lease."""
        self._stopped.set()

    def close(self) -> None:
        """Leave the election and give up the Lease."""
        self._stopped.set()
        self._elector.stop()

    # -- becoming the leader -----------------------------------------------------------------

    def _follow(self) -> None:
        """Read the log on standby, so that a takeover is fast."""
        try:
            self._follower.catch_up()
            self.problem = ""
        except errors.Rewound:
            pass  # The leader recovers from it.

    def _enter(self, tenure: electors.Tenure) -> leader_terms.LeaderTerm | None:
        """Record the election in the log; None if it is no longer certain that this process leads."""
        state = self._log.state()
        # The generation of the epochs was read: only the holder of the Lease after that may use it.
        if not self._elector.confirm():
            return None
        uid = self._uid()
        if uid and state.kubernetes not in ("", uid):
            raise self._log.other_cluster(state.kubernetes, uid)
        lost = self._recovery.lost(tenure, state)
        if lost is not None:
            self._recovery.begin_incarnation(tenure, lost, f"it should hold {lost.incarnation}/{lost.offset}")
            return None
        if state.incarnation != self._log.incarnation:
            # The end of the log that this state describes is compared once its incarnation is followed.
            self._follower.catch_up(timeout=_CATCH_UP_TIMEOUT)
            return None
        # The state is out of date once the store is one that lacks this entry, even in the same run: a
        # primary that was demoted may be promoted again, with the data of the other server.
        self._log.note(state.end)
        snapshot = self._follower.catch_up(timeout=_CATCH_UP_TIMEOUT)
        guard = leader_terms.guard(tenure, state, self._elector.identity)
        if guard.epoch:
            unwatched = set(snapshot.listed).difference(kind.name for kind in self._kinds)
            elected = events.RecorderElected(
                guard.writer, guard.epoch, self._log.incarnation, tuple(sorted(unwatched))
            )
            restarted = settle_time.restarted(state, self._elector.identity)
            # A recorder of a version that does not read ``unwatched`` lists these kinds again, too.
            marks = {f"{kinds.MARKS}{name}": "" for name in unwatched}
            batch = batches.Batch(events=(*restarted, elected), marks=marks, run=state.run, kubernetes=uid)
            self._log.append(batch, msgspec.structs.replace(guard, incarnation=state.incarnation))
            if restarted:
                self._recovery.relist_reason = "the store was restarted"
            snapshot = self._follower.catch_up(timeout=_CATCH_UP_TIMEOUT)
            if not set(snapshot.listed).issubset(kind.name for kind in self._kinds):
                return None  # The former leader has listed one since: the next election names it.
            # Nothing is decided before the next leader would notice the loss of this entry.
            self._recorded = tenure
            if not self._elector.confirm():
                return None
        if not self._settled(tenure, snapshot):
            return None
        marks = self._log.resume_versions()
        reason, self._recovery.relist_reason = self._recovery.relist_reason, loss_recovery.FIRST_LIST
        return leader_terms.LeaderTerm(
            guard,
            leader_terms.resumed(marks, snapshot, self._kinds),
            leader_terms.reasons(marks, snapshot, self._kinds, reason),
            uid,
        )

    def _settled(self, tenure: electors.Tenure, snapshot: snapshots.Snapshot) -> bool:
        """Wait until no Binding of a placement that may be lost is under way; false if leadership is over."""
        if (rest := settle_time.remaining(self._log, snapshot, self._settle)) > 0:
            telemetry.log.info(
                "everything is listed again once the Bindings under way have ended", seconds=round(rest, 1)
            )
            self._stopped.wait(rest)
        return not self._stopped.is_set() and self._elector.tenure == tenure

    # -- problems ----------------------------------------------------------------------------

    def _fenced(self, fenced: errors.Fenced) -> None:
        if not self._elector.confirm():
            telemetry.log.warning("another recorder has taken over; returning to standby", error=str(fenced))
            return
        self._wait(
            f"the store holds epoch {fenced.epoch} of {fenced.writer or 'an unknown writer'}, and this"
            " recorder leads by a Lease of a lower version: if etcd was restored, run `topolog adopt`"
        )

    def _wait(self, problem: str) -> None:
        """Pause before the next attempt; meanwhile readiness shows the problem."""
        if problem != self.problem:
            telemetry.log.warning("cannot record", problem=problem)
        self.problem = problem
        self._stopped.wait(self._pauses.take())
