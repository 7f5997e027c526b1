"""Shadows: configurations that are compared with every decision, and enforced for none.

A shadow is an event in the log, so that setting one is audited and reaches every process. Only an extender
appends it, and evaluates nothing; `topolog view` compares the recorded decisions.
"""

from collections.abc import Callable

from marshmallow import Schema

from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, schemas, services, times
from app.api.v1.questions import bodies, differences
from app.domain import events, model, snapshots
from app.store import errors as store_errors
from app.store.log import batches
from app.verbs.questions import errors as question_errors
from app.verbs.questions.shadows import shadowed

routes = blueprints.create("shadows", "/apis/v1/shadows", "What other settings would have decided.")
_ATTEMPTS = 5
"""Times that a change is tried while other changes of shadows come first."""


_LIMITS = (
    "each decision is compared on its own snapshot: what an earlier one would have changed is not carried on",
    "a record that was trimmed before it was read is in no number (store.decisions_kept)",
)


class ShadowNumbers(differences.Numbers):
    """The differences so far, as numbers."""

    behindSeconds = schemas.real("The age of the last record that was read while others are left; else 0.")
    gap = schemas.truth("Whether records may have been trimmed before they were read.")
    problem = schemas.optional("Why decisions cannot be compared, or null.")


class ShadowDifferences(differences.Differences, ShadowNumbers):
    """The differences so far."""

    limits = schemas.texts("What the comparison does not model.")


class Shadow(Schema):
    """A shadow."""

    name = schemas.text("Its name.")
    note = schemas.text("What it is for.")
    overrides = schemas.anything("Operations on objects, as they were sent.")
    configuration = schemas.anything("Plugin settings other than those in force; null for those in force.")
    until = schemas.text("When it ends (RFC 3339); empty for no end.")
    ended = schemas.truth("Whether it has ended; it is kept with its differences until it is deleted.")
    by = schemas.text("Who set it.")
    since = schemas.number("The offset of the event that set it: decisions from there on are compared.")
    numbers = schemas.nested(
        ShadowNumbers, "The differences so far; null at an extender, which compares nothing.", null=True
    )


class ShadowReport(Shadow):
    """A shadow and its differences."""

    differences = schemas.nested(
        ShadowDifferences, "The differences so far; null at an extender, which compares nothing.", null=True
    )


@blueprints.get(routes, "", schemas.page_of(Shadow), query=queries.Page)
def shadows(query: pages.Query) -> pages.Body:
    """All shadows."""
    shown = pages.moment(query)
    held = shown.snapshot.shadows
    return pages.listed(held, query, shown, lambda name: _shown(held[name], shown.snapshot, shown.clock))


@blueprints.get(routes, "/<name>", ShadowReport)
def one(query: pages.Query, name: str) -> pages.Body:
    """One shadow, and how the decisions since it was set would have differed.

    The differences are those of a replay of the same range, scores included.
    """
    moment = moments.take(query.get("at") or moments.NOW)
    shown = _shown(_held(moment.snapshot, name), moment.snapshot, moment.clock)
    return {**shown, "differences": shown["numbers"]}


@blueprints.ask(routes, "/<name>", Shadow, question="SetShadow", method="PUT")
def put(_: pages.Query, name: str) -> pages.Body:
    """Set a shadow, or replace it; at an extender. Nothing that is decided depends on it.

    The operations must apply to the present state. One that does not apply at a later decision changes
    nothing there. A shadow that is sent again as it is, with the same end, stays as it is, with its
    differences. With another end, which ``ttl`` sets each time, its comparison begins again.
    """
    question = bodies.read(shadowed.SetShadow)
    given = services.current()
    with bodies.answering(heavy=False):
        made = shadowed.shadow(name, question, until=_until(question), by=given.identity())

        def event(snapshot: snapshots.Snapshot) -> events.AnyEvent | None:
            shadowed.check(made, snapshot, given.registry, given.configurations.known)
            before = snapshot.shadows.get(name)
            if before is None and len(snapshot.shadows) >= shadowed.MOST:
                raise question_errors.TooMuch(
                    "shadow", f"there are {shadowed.MOST} shadows, which is the limit: delete one first"
                )
            return None if before is not None and _alike(before, made) else events.ShadowSet(made)

        _changed(event)
    moment = moments.take()
    return _shown(moment.snapshot.shadows.get(name, made), moment.snapshot, moment.clock)


@blueprints.remove(routes, "/<name>", Shadow)
def delete(_: pages.Query, name: str) -> pages.Body:
    """Delete a shadow; at an extender."""
    deleted: list[pages.Body] = []

    def event(snapshot: snapshots.Snapshot) -> events.AnyEvent:
        deleted.append(_shown(_held(snapshot, name), snapshot, services.current().wall()))
        return events.ShadowGone(name, by=services.current().identity())

    _changed(event)
    moments.take()
    return deleted[-1]


def _changed(decide: Callable[[snapshots.Snapshot], events.AnyEvent | None]) -> None:
    """Append the event for the present snapshot, unless there is none. Raises StoreError."""
    for attempt in range(1, _ATTEMPTS + 1):
        snapshot = moments.take().snapshot
        event = decide(snapshot)
        if event is None:
            return
        try:
            services.current().log.append(batches.Batch(events=(event,)), shadowed.guard(snapshot))
        except store_errors.Conflict:
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _alike(before: model.Shadow, after: model.Shadow) -> bool:
    """Whether the two compare the same, until the same moment; who set them does not matter."""
    parts = ("overrides", "configuration", "until", "note")
    return all(getattr(before, part) == getattr(after, part) for part in parts)


def _held(snapshot: snapshots.Snapshot, name: str) -> model.Shadow:
    found = snapshot.shadows.get(name)
    if found is None:
        names = ", ".join(sorted(snapshot.shadows)) or "none"
        raise errors.Problem(404, "NotFound", f"cannot find shadow {name[:63]}; set are: {names}")
    return found


def _shown(shadow: model.Shadow, snapshot: snapshots.Snapshot, clock: float) -> pages.Body:
    """``clock``: the time by which it may have ended, seconds since 1970."""
    now = times.rfc3339(clock)
    since = snapshot.version(f"shadow:{shadow.name}")
    return {
        "name": shadow.name,
        "note": shadow.note,
        "overrides": list(shadow.overrides),
        "configuration": shadow.configuration,
        "until": shadow.until,
        "ended": bool(shadow.until) and shadow.until <= now,
        "by": shadow.by,
        "since": since,
        "numbers": _numbers(shadow.name, model.Position(snapshot.position.incarnation, since)),
    }


def _numbers(name: str, since: model.Position) -> pages.Body | None:
    """The differences so far; None if this process has not compared."""
    compared = services.current().shadows
    report = compared.report(name, since) if compared is not None else None
    if report is None:
        return None
    return {
        **differences.counted(report),
        "behindSeconds": round(report.behind, 3),
        "gap": report.gap,
        "problem": report.problem or None,
        "limits": list(_LIMITS),
    }


def _until(asked: shadowed.SetShadow) -> str:
    """The end in UTC; empty for none. Raises Mistake."""
    if asked.until and asked.ttl:
        raise question_errors.Mistake("ttl", "until and ttl exclude each other")
    now = services.current().wall()
    try:
        if asked.until:
            end = times.milliseconds(asked.until) / 1000
        elif asked.ttl:
            end = now + times.seconds(asked.ttl)
        else:
            return ""
    except (ValueError, OverflowError) as error:
        raise question_errors.Mistake("until" if asked.until else "ttl", str(error)) from error
    if end <= now:
        if asked.ttl:
            raise question_errors.Mistake("ttl", "must be longer than 0s")
        raise question_errors.Mistake("until", f"must be in the future; it is now {times.rfc3339(now)}")
    return times.rfc3339(end)
