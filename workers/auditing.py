"""The auditor: counts == fold of the log == API server, all the time and at bounded cost.

It follows the log by itself and believes nobody: not the function's replies, not the followers, not the
checkpoints. At each turn it reads counts, versions and the end of the log at one moment and compares them
with its own fold; proves a page of the past and a checkpoint; and now and then compares every object with
the API server. A difference is told with its key, where it began and who wrote there. Repairs are events.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from app import settings, telemetry
from app.domain import consistency, snapshots
from app.kube import clients, kinds
from app.store import errors, inspecting, opening, readers, reports
from workers import accounting, advising, comparing, repairing

_SHOWN: Final = 100
_REMEMBERED: Final = 20
_LONGEST_PAUSE: Final = 30.0
_RETRY: Final = 10.0
"""Seconds after which a list that failed is tried again."""


class Auditor:
    """Audits one cluster; ``run`` returns after ``stop``."""

    def __init__(
        self,
        store: opening.Store,
        client: clients.Client,
        options: settings.Audit,
        *,
        watched: tuple[kinds.Kind, ...] = kinds.ALL,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._options = options
        self._kinds = watched
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._reader = readers.Reader(store.client, store.keys)
        self.identity = self._reader.identity
        self._inspector = inspecting.Inspector(store.client, store.keys)
        self._reports = reports.Reports(store.client, store.keys)
        self._repairing = repairing.Repairs(store.log, self.identity)
        self.board = consistency.Board()
        self._facts = comparing.Facts(client, self.board, watched=watched)
        self._due = dict.fromkeys((kind.name for kind in watched), float("-inf"))
        """Kind -> when it is to be compared next."""
        self._ask_again = dict(self._due)
        self._listing = ""
        """The kind that is being compared."""
        self._repairs: list[consistency.Repair] = []
        self._repaired_at = float("-inf")
        self._asked: dict[str, int] = {}
        """Kind -> offset of the request for a list whose outcome is not known yet."""
        self._answered: dict[str, int] = {}
        """Kind -> offset of the answer, until the kind is compared again."""
        self._books: accounting.Books | None = None
        self.report: consistency.Report | None = None
        self.trouble: dict[str, str] = {}
        """Part -> what keeps it from being looked at."""

    def checks(self) -> Mapping[str, str | None]:
        """What readiness depends on; differences are no reason to be not ready."""
        books = self._books
        reading = "reading the log" if books is None else f"reading the log: {books.ledger.snapshot.offset}"
        return {
            "store": self.trouble.get("store"),
            "state": None if self.report is not None else reading,
            "log": self.trouble.get("log"),
        }

    def run(self) -> None:
        """Audit until stopped."""
        telemetry.loops.Loop("auditor", self._audit, wait=self._stopped.wait, longest=_LONGEST_PAUSE).run()
        self._reader.leave()

    def _audit(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            try:
                pause = self._options.interval if self.turn() else 0.0
                self.trouble.pop("store", None)
            except errors.StoreError as away:
                if "store" not in self.trouble:
                    telemetry.log.warning("cannot audit", error=str(away))
                self.trouble["store"] = str(away)
                pause = min(max(2 * pause, self._options.interval), _LONGEST_PAUSE)

    def stop(self) -> None:
        """Let ``run`` return soon."""
        self._stopped.set()

    # -- one turn --------------------------------------------------------------------------

    def turn(self) -> bool:
        """Look at everything that is due; false if the end of the log was not reached.

        Raises StoreAway or Rewound.
        """
        books = self._current()
        if books is None:
            return True
        look = books.follow()
        if look is None:
            return not books.behind
        self._reader.attend(books.ledger.snapshot.offset)
        books.compare(look)
        if self._store.keys.log not in look.mistyped:
            books.vouchers.turn(look.head, books.past.turn(look.head))
            self._compare_facts(books, look)
        self._tell()
        self._repair(books)
        self._publish(books, look)
        return True

    def _current(self) -> accounting.Books | None:
        """The books of the store's present incarnation; None while it is not known what the store holds."""
        log, standing = self._store.log, self._store.log.standing()
        if standing.lost is not None or not standing.incarnation:
            self.trouble["log"] = "the store lost events; waiting for the recorder to begin a new incarnation"
            self._books = None
            return None
        books = self._books
        if books is None or books.incarnation != standing.incarnation:
            log.follow(standing.incarnation)
            self._facts.forget()
            self.board.clear()
            self._asked, self._answered = {}, {}
            former = self._former()
            books = self._books = accounting.Books(
                self._store, self._inspector, self.board, former, page=self._options.page
            )
            if former is not None:
                self._repairs = list(former.repairs)
        if not books.began and not books.begin():
            self.trouble["log"] = (
                "the log does not reach its beginning, and no checkpoint holds what is before"
            )
            return None
        self.trouble.pop("log", None)
        return books

    def _former(self) -> consistency.Report | None:
        """The last report, if it is about this incarnation."""
        try:
            report = self._reports.latest()
        except errors.StoreAway:
            raise
        except errors.StoreError as damaged:
            telemetry.log.warning("the former report is passed over", error=str(damaged))
            return None
        return report if report is not None and report.incarnation == self._store.log.incarnation else None

    # -- facts -----------------------------------------------------------------------------

    def _compare_facts(self, books: accounting.Books, look: inspecting.Look) -> None:
        snapshot = books.ledger.snapshot
        if books.broken or snapshot.unlisted:
            return
        now = self._monotonic()
        if self._facts.idle:
            due = [kind for kind in self._kinds if self._due_now(kind, snapshot, now)]
            if not due:
                return
            kind = min(due, key=lambda kind: self._due[kind.name])
            self._listing = kind.name
            self._facts.begin(kind, snapshot)
        complete = self._facts.turn(snapshot, look.meta)
        if complete and self._answered.get(complete):
            self._answered.pop(complete)
            self._asked.pop(complete)
        if self._facts.idle:
            every = self._options.listing
            self._due[self._listing] = now + (every if complete else min(every, _RETRY))

    def _due_now(self, kind: kinds.Kind, snapshot: snapshots.Snapshot, now: float) -> bool:
        asked = self._asked.get(kind.name)
        if asked is not None and kind.name not in self._answered:
            answer = snapshot.version(f"kind:{kind.name}")
            if answer > asked:
                self._answered[kind.name] = answer
                return True
        return now >= self._due[kind.name]

    # -- repairs ---------------------------------------------------------------------------

    def _trusted(self, books: accounting.Books) -> bool:
        """Nothing speaks against the log: then what differs from it is wrong.

        Whether the log is true of the cluster does not matter: views are views of the log, and a fact that
        mends it is only taken where they are right.
        """
        return not books.broken and books.past.passes > 0 and not self.board.of(*consistency.LOG)

    def _repair(self, books: accounting.Books) -> None:
        made: list[consistency.Repair] = []
        if self._options.relist and not books.broken:
            made += self._ask(books.ledger.snapshot)
        now = self._monotonic()
        pausing = now - self._repaired_at < self._options.interval
        if (books.apart or books.wrong) and self._options.repair and not pausing and self._trusted(books):
            self._repaired_at = now
            made += self._repairing.views(books.ledger.snapshot, books.apart, books.wrong, self.board)
        for repair in made:
            telemetry.metrics.CONSISTENCY_REPAIRS.labels(repair.what).inc()
            telemetry.log.warning("repaired", what=repair.what, offset=repair.offset, keys=repair.keys[:10])
        self._repairs = [*self._repairs, *made][-_REMEMBERED:]

    def _ask(self, snapshot: snapshots.Snapshot) -> list[consistency.Repair]:
        """Ask for the lists that would mend facts: once, and again when that was of no use."""
        made, now = [], self._monotonic()
        for kind in self._kinds:
            keys = tuple(comparing.subjects(self.board, kind))
            pending = snapshot.version(f"relist:{kind.name}") > snapshot.version(f"kind:{kind.name}")
            if not keys or pending or kind.name in self._asked or now < self._ask_again[kind.name]:
                continue
            asked = self._repairing.ask(snapshot, kind.name, keys)
            if asked is not None:
                self._asked[kind.name] = asked.offset
                self._ask_again[kind.name] = now + self._options.listing
                made.append(asked)
        return made

    # -- telling ---------------------------------------------------------------------------

    def _tell(self) -> None:
        for one in self.board.found:
            telemetry.metrics.CONSISTENCY_FOUND.labels(one.kind).inc()
            telemetry.log.error(
                "a difference",
                kind=one.kind,
                key=one.key,
                expected=one.expected,
                found=one.found,
                first=one.first,
                offset=one.offset,
                writer=one.writer,
                blame=one.blame,
                run=advising.advised(one, self._store.keys).run,
            )
        self.board.found.clear()
        for kind, count in self.board.counted().items():
            telemetry.metrics.CONSISTENCY_DIFFERENCES.labels(kind).set(count)

    def _publish(self, books: accounting.Books, look: inspecting.Look) -> None:
        past = books.past
        differences = [
            advising.advised(one, self._store.keys)
            for one in sorted(self.board, key=lambda one: (one.kind, one.key))
        ]
        waiting = {"facts": self._facts.waiting} if self._facts.waiting else {}
        if books.broken:
            waiting["counts"] = books.broken
        self.report = consistency.Report(
            incarnation=books.incarnation,
            offset=books.ledger.snapshot.offset,
            at_ms=look.now_ms,
            by=self.identity,
            every=self._options.interval,
            oldest=look.oldest.offset if look.oldest is not None else 0,
            folded=books.base,
            proven=past.proven,
            passes=past.passes,
            versions=books.versions_at,
            checkpoints={str(offset): head for offset, head in sorted(books.vouchers.checked.items())},
            facts=dict(self._facts.compared),
            listings=self._facts.listings,
            complete=self._facts.complete and past.passes > 0,
            waiting=waiting,
            differences=tuple(differences[:_SHOWN]),
            total=len(differences),
            repairs=tuple(self._repairs),
            trouble=advising.trouble(
                differences, repair=self._options.repair and not self.board.of(*consistency.LOG)
            ),
        )
        self._reports.write(self.report)
        telemetry.metrics.CONSISTENCY_OFFSET.set(self.report.offset)
        telemetry.metrics.CONSISTENCY_AT.set(self.report.at_ms / 1000)
