"""The auditor: verifies counts == replay of the log == API server, continuously and at bounded cost.

It replays the log independently and trusts no other component: neither the replies of the append function,
nor followers, nor checkpoints. Each run reads counts, versions and the end of the log at one moment and
compares them with the replay, and verifies a page of the log and a checkpoint; at intervals every object is
compared with the API server. A difference is reported with its key, where it began and who wrote there.
Repairs are events.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from app import settings, telemetry
from app.domain import snapshots
from app.domain.audit import findings
from app.kube.client import clients
from app.kube.watch import kinds
from app.pauses import Pauses
from app.store import audit_reports, errors, raw_access, stores
from app.store.log import consumers
from workers.auditor import cluster_diff, ledger, log_integrity, remedies, repairs

_MAX_DIFFERENCES: Final = 100
_MAX_REPAIRS: Final = 20
_LONGEST_PAUSE: Final = 30.0
_RETRY: Final = 10.0
"""Seconds after which a failed list is tried again."""
_READING_SHARE: Final = 0.5
"""Part of each second, or shorter interval, in which the log is read until it was read whole once."""


class Auditor:
    """Audits one cluster; ``run`` returns after ``stop``."""

    def __init__(
        self,
        store: stores.Store,
        client: clients.Client,
        options: settings.Audit,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._options = options
        self._shortest = min(options.interval, cluster_diff.SECONDS)
        """Seconds between two runs while a list, or the whole log, is read."""
        self._kinds = kinds.watched(store.schema)
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._reader = consumers.Consumer(store.client, store.keys)
        self.identity = self._reader.identity
        self._raw_reader = raw_access.RawReader(store.client, store.keys)
        self._reports = audit_reports.Reports(store.client, store.keys)
        self._repairer = repairs.Repairs(store.log, self.identity)
        self.board = findings.Board()
        self._diff = cluster_diff.ClusterDiff(client, self.board, watched=self._kinds, monotonic=monotonic)
        self._due = dict.fromkeys((kind.name for kind in self._kinds), float("-inf"))
        """Kind -> when it is due for comparison."""
        self._request_after = dict(self._due)
        self._listing = ""
        """The kind that is being compared."""
        self._reading = False
        """The last run has read a part of a list, which has to be read on before it expires."""
        self._verifying = False
        """The last run has read a part of the log, which has not been read whole yet."""
        self._repairs: list[findings.Repair] = []
        self._repaired_at = float("-inf")
        self._requested: dict[str, int] = {}
        """Kind -> offset of the request for a list, until its outcome is compared."""
        self._listed: dict[str, int] = {}
        """Kind -> offset of the requested list, until the kind is compared again."""
        self._compared_ms = 0
        """Time of the last comparison of counts and versions; 0 before the first."""
        self._ledger: ledger.AuditLedger | None = None
        self.report: findings.Report | None = None
        self.problem: dict[str, str] = {}
        """Part -> why it cannot be audited."""

    def checks(self) -> Mapping[str, str | None]:
        """Readiness checks by name: a problem, or None. Differences do not affect readiness."""
        own = self._ledger
        reading = "reading the log" if own is None else f"reading the log: {own.snapshot.offset}"
        return {
            "store": self.problem.get("store"),
            "state": None if self.report is not None else reading,
            "log": self.problem.get("log"),
        }

    def run(self) -> None:
        """Audit until stopped."""
        telemetry.loops.Loop("auditor", self._audit, wait=self._stopped.wait, longest=_LONGEST_PAUSE).run()
        self._reader.deregister()

    def _audit(self) -> None:
        pause, pauses = 0.0, Pauses(2 * self._options.interval, _LONGEST_PAUSE)
        while not self._stopped.wait(pause):
            try:
                pause = self._pause() if self.run_once() else 0.0
                self.problem.pop("store", None)
                pauses.reset()
            except errors.StoreError as away:
                if "store" not in self.problem:
                    telemetry.log.warning("cannot audit", error=str(away))
                self.problem["store"] = str(away)
                pause = pauses.take()

    def _pause(self) -> float:
        """Seconds until the next run: fewer while a list is read, or the log for the first time."""
        if self._verifying:
            return (1 - _READING_SHARE) * self._shortest
        return self._shortest if self._reading else self._options.interval

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()

    # -- one run ---------------------------------------------------------------------------

    def run_once(self) -> bool:
        """Audit what is due once; false if the end of the log was not reached.

        Raises StoreAway, Rewound, OtherCluster, or SchemaMismatch, also for counts of another form.
        """
        self._reading = self._verifying = False
        self._store.log.check_owner()
        own = self._current()
        if own is None:
            return True
        try:
            view = own.follow()
        except errors.Trimmed:
            self._ledger = None  # What it would read next is gone: the replay begins again at a checkpoint.
            raise
        if not own.outdated:
            self.problem.pop("log", None)
        elif self.problem.get("log") != own.broken:
            telemetry.log.warning("cannot audit further", problem=own.broken)
            self.problem["log"] = own.broken
        # Also during a long replay: what a reader has not read is not trimmed. A replay that cannot continue
        # holds back no trim: it begins again at a checkpoint behind what it cannot read.
        if not own.broken:
            self._reader.heartbeat(own.snapshot.offset)
        if view is None:
            return not own.behind
        own.compare(view)
        if self._store.keys.log not in view.mistyped:
            own.checkpoints.run_once(view.head, self._verify(own.integrity, view.head))
            self._compare_facts(own, view)
        self._log_findings()
        self._repair(own)
        self._publish(own, view)
        return True

    def _current(self) -> ledger.AuditLedger | None:
        """The replay of the store's present incarnation; None while it cannot be replayed."""
        log, state = self._store.log, self._store.log.state()
        if state.lost is not None or not state.incarnation:
            self.problem["log"] = "the store lost events; waiting for the recorder to begin a new incarnation"
            self._ledger = None
            return None
        own = self._ledger
        if own is None or own.incarnation != state.incarnation:
            log.follow(state.incarnation)
            self._diff.forget()
            self.board.clear()
            self._requested, self._listed = {}, {}
            former = self._former()
            self._compared_ms = _compared_ms(former)
            own = self._ledger = ledger.AuditLedger(
                self._store, self._raw_reader, self.board, former, page=self._options.page
            )
            if former is not None:
                self._repairs = list(former.repairs)
        if not own.began and not own.begin():
            self.problem["log"] = own.uncovered
            return None
        return own

    def _verify(self, past: log_integrity.LogIntegrity, head: int) -> int:
        """Verify a page of the log; returns the first offset of the log.

        Nothing is repaired before the first pass is complete: it takes as many pages as fit into its share.
        """
        end = self._monotonic() + _READING_SHARE * self._shortest
        oldest = past.run_once(head)
        while not past.passes and self._monotonic() < end and not self._stopped.is_set():
            oldest = past.run_once(head)
        self._verifying = not past.passes
        return oldest

    def _former(self) -> findings.Report | None:
        """The last report, if it is about this incarnation."""
        try:
            report = self._reports.latest()
        except errors.StoreAway:
            raise
        except errors.StoreError as damaged:
            telemetry.log.warning("ignoring an unreadable audit report", error=str(damaged))
            return None
        return report if report is not None and report.incarnation == self._store.log.incarnation else None

    # -- facts -----------------------------------------------------------------------------

    def _compare_facts(self, own: ledger.AuditLedger, view: raw_access.RawView) -> None:
        snapshot = own.snapshot
        if own.broken or snapshot.unlisted:
            return
        now = self._monotonic()
        if self._diff.idle:
            due = [kind for kind in self._kinds if self._due_now(kind, snapshot, now)]
            if not due:
                return
            kind = min(due, key=lambda kind: self._due[kind.name])
            self._listing = kind.name
            self._diff.begin(kind, snapshot)
        complete = self._diff.run_once(snapshot, view.meta)
        self._reading = self._diff.reading
        if complete and self._listed.get(complete):
            self._listed.pop(complete)
            self._requested.pop(complete)
        if self._diff.idle:
            every = self._options.listing
            self._due[self._listing] = now + (every if complete else min(every, _RETRY))

    def _due_now(self, kind: kinds.WatchedKind, snapshot: snapshots.Snapshot, now: float) -> bool:
        asked = self._requested.get(kind.name)
        if asked is not None and kind.name not in self._listed:
            answer = snapshot.version(f"kind:{kind.name}")
            if answer > asked:
                self._listed[kind.name] = answer
                return True
        return now >= self._due[kind.name]

    # -- repairs ---------------------------------------------------------------------------

    def _trusted(self, own: ledger.AuditLedger) -> bool:
        """Whether the log has no findings: then the views that differ from it are wrong.

        Whether the log agrees with the cluster does not matter: views depend on the log alone, and a fact
        that corrects the log can be appended only while they are correct.
        """
        return not own.broken and own.integrity.passes > 0 and not self.board.of(*findings.LOG)

    def _repair(self, own: ledger.AuditLedger) -> None:
        made: list[findings.Repair] = []
        if self._options.relist and not own.broken:
            made += self._request_lists(own.snapshot)
        now = self._monotonic()
        pausing = now - self._repaired_at < self._options.interval
        if (
            (own.count_drift or own.wrong_versions)
            and self._options.repair
            and not pausing
            and self._trusted(own)
        ):
            self._repaired_at = now
            made += self._repairer.views(own.snapshot, own.count_drift, own.wrong_versions, self.board)
        for repair in made:
            telemetry.metrics.CONSISTENCY_REPAIRS.labels(repair.what).inc()
            telemetry.log.warning(
                "drift repaired", what=repair.what, offset=repair.offset, keys=repair.keys[:10]
            )
        self._repairs = [*self._repairs, *made][-_MAX_REPAIRS:]

    def _request_lists(self, snapshot: snapshots.Snapshot) -> list[findings.Repair]:
        """Request the lists that would correct facts: once, and again if that did not help."""
        made, now = [], self._monotonic()
        for kind in self._kinds:
            keys = tuple(cluster_diff.subjects(self.board, kind))
            pending = snapshot.version(f"relist:{kind.name}") > snapshot.version(f"kind:{kind.name}")
            if not keys or pending or kind.name in self._requested or now < self._request_after[kind.name]:
                continue
            asked = self._repairer.ask(snapshot, kind.name, keys)
            if asked is not None:
                self._requested[kind.name] = asked.offset
                self._request_after[kind.name] = now + self._options.listing
                made.append(asked)
        return made

    # -- reporting -------------------------------------------------------------------------

    def _log_findings(self) -> None:
        for one in self.board.found:
            telemetry.metrics.CONSISTENCY_FOUND.labels(one.kind).inc()
            telemetry.log.error(
                "drift detected",
                kind=one.kind,
                key=one.key,
                expected=one.expected,
                found=one.found,
                first=one.first,
                offset=one.offset,
                writer=one.writer,
                blame=one.blame,
                run=remedies.remedy(one, self._store.keys).run,
            )
        self.board.found.clear()
        for kind, count in self.board.counted().items():
            telemetry.metrics.CONSISTENCY_DIFFERENCES.labels(kind).set(count)

    def _publish(self, own: ledger.AuditLedger, view: raw_access.RawView) -> None:
        past = own.integrity
        if not own.broken:
            self._compared_ms = view.now_ms
        differences = [
            remedies.remedy(one, self._store.keys)
            for one in sorted(self.board, key=lambda one: (one.kind, one.key))
        ]
        facts = _unlisted(own.snapshot) or self._diff.waiting
        waiting = {"facts": facts} if facts else {}
        if own.broken:
            waiting["counts"] = own.broken
        if own.checkpoints.skipped:
            offsets = ", ".join(map(str, own.checkpoints.skipped))
            waiting["checkpoints"] = f"a later version of Topolog wrote those at {offsets}; upgrade this one"
        self.report = findings.Report(
            incarnation=own.incarnation,
            offset=own.snapshot.offset,
            at_ms=view.now_ms,
            by=self.identity,
            every=self._options.interval,
            oldest=view.oldest.offset if view.oldest is not None else 0,
            folded=own.base,
            proven=past.proven,
            passes=past.passes,
            versions=own.versions_at,
            checkpoints={str(offset): head for offset, head in sorted(own.checkpoints.checked.items())},
            facts=dict(self._diff.compared),
            listings=self._diff.listings,
            complete=self._diff.complete and past.passes > 0,
            waiting=waiting,
            differences=tuple(differences[:_MAX_DIFFERENCES]),
            total=len(differences),
            repairs=tuple(self._repairs),
            compared_ms=self._compared_ms if own.broken else None,
            problem=remedies.problem(
                differences, repair=self._options.repair and not self.board.of(*findings.LOG)
            ),
        )
        self._reports.write(self.report)
        if not own.broken:
            telemetry.metrics.CONSISTENCY_OFFSET.set(self.report.offset)
        if self._compared_ms:
            telemetry.metrics.CONSISTENCY_AT.set(self._compared_ms / 1000)


def _compared_ms(report: findings.Report | None) -> int:
    if report is None:
        return 0
    return report.at_ms if report.compared_ms is None else report.compared_ms


def _unlisted(snapshot: snapshots.Snapshot) -> str:
    """Why no object is compared with the API server: kinds are not listed. Empty if all are."""
    if not snapshot.unlisted:
        return ""
    missing = ", ".join(sorted(snapshot.unlisted))
    return (
        f"the recorder has not listed {missing}; if it stays so, it lacks the kind: let both have the same"
        " version of Topolog and of the distributions with plugins"
    )
