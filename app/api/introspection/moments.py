"""The moment that a request is about: now, an offset of the log, or a time.

Without ``at`` a view shows the head of the log (one cheap round trip), so that a client sees its own changes
whichever process answers. Every response carries the position that it shows, and its age.
"""

from dataclasses import dataclass

import flask

from app.api import errors
from app.api.introspection import heavy, services, times
from app.domain import model, snapshots

_LONGEST = 64
"""Characters of a wrong value that its error shows."""
_SKEW = 60.0
"""Seconds that the clock of a caller may be ahead; a later time is a mistake."""
_TIMEOUT = 1.0
"""Seconds that a request waits for the store before it is refused."""


@dataclass(frozen=True, slots=True)
class At:
    """The value of ``?at=``: an offset, with or without its incarnation, or a time."""

    offset: int | None = None
    time_ms: int | None = None
    incarnation: str = ""


NOW = At()


@dataclass(frozen=True, slots=True)
class Moment:
    """A snapshot, and the time at which it was current."""

    snapshot: snapshots.Snapshot
    as_of: str
    """RFC 3339: the time of its latest event, or of the request if it is the head."""
    age: float
    """Seconds since then; for the head, since this process last read it as the head."""
    clock: float
    """Seconds since 1970: the requested time, that of the latest event, or now if it is the head. What ends
    without an event has ended by it, or not."""

    @property
    def position(self) -> model.Position:
        """The position in the log."""
        return self.snapshot.position


def parse(text: str) -> At:
    """``42``, ``INCARNATION/42`` as in X-Topolog-Position, or an RFC 3339 time; raises ValueError."""
    incarnation, _, offset = text.rpartition("/")
    if offset.isascii() and offset.isdigit() and len(offset) <= 18:
        return At(offset=int(offset), incarnation=incarnation)
    try:
        return At(time_ms=times.milliseconds(text))
    except ValueError as error:
        raise ValueError(
            "must be an offset of the log, or an RFC 3339 time with its zone, such as 2026-07-01T12:00:00Z;"
            f" it is {text[:_LONGEST]!r}"
        ) from error


def take(at: At = NOW, path: str = "at") -> Moment:
    """The requested moment, which ``stamp`` shows too; ``path`` is where it was asked for.

    Raises Problem 400, 410 or 499, or a StoreError.
    """
    given = services.current()
    head = given.follower.catch_up(timeout=_TIMEOUT)
    if at.incarnation:
        given.histories.check(at.incarnation)
    if at.offset is not None and at.offset > head.offset:
        raise beyond(path, at.offset, head.offset)
    if at.offset == head.offset or (at.offset is None and _is_present(given, at.time_ms, path)):
        moment = _present(given, head)
    else:
        past = given.histories.at(at.offset, at.time_ms, attended=heavy.attended())
        moment = _past(given, past, at.time_ms)
    flask.g.moment = moment
    return moment


def span(begin: At | None, end: At = NOW) -> tuple[int | None, Moment]:
    """The offset of ``from``, None if it is not given, and the moment of ``to``, which ``stamp`` shows too.

    Raises Problem 400 if ``from`` is in the future, beyond the head or after ``to``; else as ``take``.
    """
    # First, so that what is appended meanwhile lies behind it.
    first = None if begin is None else offset(begin, "from")
    shown = take(end, "to")
    last = shown.position.offset
    if first is not None and first > last:
        head = services.current().follower.snapshot.offset
        if first > head:
            raise beyond("from", first, head)
        raise errors.bad(f"from: offset {first} is after to, which is offset {last}")
    return first, shown


def offset(at: At, path: str) -> int:
    """The offset of the moment, which may be beyond the head; ``path`` is where it was asked for.

    Raises Problem 400 for a time in the future, 410, or a StoreError.
    """
    given = services.current()
    if at.incarnation:
        given.histories.check(at.incarnation)
    if at.time_ms is None:
        return at.offset or 0
    return given.histories.offset_at(reached(at.time_ms, path))


def beyond(path: str, asked: int, head: int) -> errors.Problem:
    """The refusal of an offset that the log has not reached."""
    return errors.bad(f"{path}: offset {asked} is beyond the head of the log, which is {head}")


def reached(time_ms: int, path: str) -> int:
    """The time, milliseconds since 1970; ``path`` is where it was asked for.

    Raises Problem 400 if it is in the future.
    """
    now = _now(services.current())
    if time_ms > (now + _SKEW) * 1000:
        raise errors.bad(
            f"{path}: {times.rfc3339(time_ms / 1000)} is in the future; it is {times.rfc3339(now)}"
        )
    return time_ms


def _is_present(given: services.Services, time_ms: int | None, path: str) -> bool:
    """Whether nothing happened since the time, if one is given. Raises Problem 400 for one in the future."""
    return time_ms is None or reached(time_ms, path) >= _now(given) * 1000


def _now(given: services.Services) -> float:
    _, appended_ms = given.follower.dated()
    return max(given.wall(), (appended_ms or 0) / 1000)  # The clock of the store may be ahead.


def stamp(response: flask.Response) -> flask.Response:
    """Add the headers with the position that the response shows and its age in seconds."""
    given = services.current()
    shown: Moment | None = flask.g.get("moment")
    if shown is None:
        shown = _present(given, given.follower.snapshot)
    response.headers["X-Topolog-Position"] = str(shown.position)
    response.headers["X-Topolog-Age"] = f"{max(0.0, shown.age):.3f}"
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def _present(given: services.Services, snapshot: snapshots.Snapshot) -> Moment:
    age, now = given.follower.lag_seconds, given.wall()
    return Moment(snapshot, times.rfc3339(now - age), age, now)


def _past(given: services.Services, snapshot: snapshots.Snapshot, time_ms: int | None) -> Moment:
    """``time_ms``: the requested time, if it is one."""
    now = given.wall()
    at_ms = given.histories.appended_ms(snapshot.offset) if snapshot.offset > 0 else None
    asked = time_ms if time_ms is not None else at_ms
    clock = now if asked is None else asked / 1000
    if at_ms is None:
        return Moment(snapshot, "", 0.0, clock)
    since = at_ms / 1000
    return Moment(snapshot, times.rfc3339(since), now - since, clock)
