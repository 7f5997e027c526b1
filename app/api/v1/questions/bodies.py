"""Reads questions from request bodies, resolves their situations, and renders both."""

import contextlib
import dataclasses
from collections.abc import Iterator
from time import monotonic
from typing import TypeVar

import flask
from marshmallow import Schema

from app.api import errors
from app.api.extender import strict_json
from app.api.introspection import heavy as turns
from app.api.introspection import moments, pages, schemas, services
from app.framework import registry, supposed_operations
from app.store import errors as store_errors
from app.verbs.questions import errors as question_errors
from app.verbs.questions import question_schema, situations

Q = TypeVar("Q", bound=question_schema.Question)
_VALUES = 100_000
"""Commas and opening brackets in a question, which may name 20,000 pods. Its body has at most 1 MiB."""
NOT_MODELLED = (
    "With candidates: roomy, the rules of kube-scheduler that apply to the pods and are not evaluated, such"
    " as volumes; it may then offer fewer nodes."
)


class SituationShown(Schema):
    """The situation as it was resolved."""

    at = schemas.text("The exact position, INCARNATION/OFFSET.")
    events = schemas.counts("Type of event -> how many of them the overrides became.")
    idle = schemas.anything("The indexes of overrides that changed nothing.")
    configuration = schemas.text("The digest of the configuration that decided.")


def read(kind: type[Q]) -> Q:
    """The question in the body. Raises Problem 400 or 415."""
    request = flask.request
    if request.mimetype != "application/json" or request.content_encoding:
        raise errors.Problem(415, "UnsupportedMediaType", "Content-Type must be application/json")
    try:
        return question_schema.read(strict_json.named(request.get_data(), _VALUES), kind)
    except (strict_json.BadRequest, question_errors.Mistake) as error:
        raise errors.bad(str(error)) from error


@contextlib.contextmanager
def answering(*, heavy: bool = True) -> Iterator[None]:
    """Turn errors of questions into problems; a heavy question waits for its turn. Raises Problem."""
    turn = services.current().turns.admitted() if heavy else contextlib.nullcontext()
    try:
        with turn:
            yield
    except question_errors.TooMuch as error:
        raise errors.Problem(400, "TooMuch", str(error)) from error
    except (question_errors.Mistake, supposed_operations.Impossible) as error:
        raise errors.bad(str(error)) from error
    except question_errors.Missing as error:
        raise errors.Problem(404, "NotFound", str(error)) from error


def moment(asked: question_schema.Situation, path: str = "situation") -> moments.Moment:
    """The moment of a situation. Raises Problem 400 or 410, or a StoreError."""
    path = f"{path}.at"
    return moments.take(at(asked.at, path), path)


def at(text: str, path: str) -> moments.At:
    """A moment in a question; empty for now. Raises Problem 400."""
    try:
        return moments.parse(text) if text else moments.NOW
    except ValueError as error:
        raise errors.bad(f"{path}: {error}") from error


def span(asked: question_schema.Bisect) -> tuple[int | None, moments.Moment]:
    """The offset of ``from``, None if it is not given, and the moment of ``to``.

    Raises Problem 400 or 410, or a StoreError.
    """
    return moments.span(at(asked.from_, "from") if asked.from_ else None, at(asked.to, "to"))


def kept_span(asked: question_schema.Replay) -> tuple[int | None, moments.Moment, list[str]]:
    """As ``span``, but from the oldest state if the events at the time ``from`` are no longer kept.

    The sentences name where it begins then; the rest of a range has none.
    """
    begin, limits = at(asked.from_, "from") if asked.from_ else None, list[str]()
    if begin is not None and begin.time_ms is not None:
        try:
            begin = moments.At(offset=moments.offset(begin, "from"))
        except store_errors.Trimmed:
            begin = moments.At(offset=oldest())
            if not asked.continue_:
                limits.append(f"events before offset {begin.offset} are no longer kept")
    return (*moments.span(begin, at(asked.to, "to")), limits)


def oldest() -> int:
    """Where a range without ``from`` begins: at the oldest state that can be made. Raises ArchiveAway."""
    return services.current().histories.readable()


def hypothesis(
    asked: question_schema.Situation, path: str = "situation", configured: registry.Registry | None = None
) -> situations.Supposition:
    """What a situation changes, of ``configured`` if not of the present plugins. Raises Mistake."""
    given = services.current()
    made = situations.hypothesis(asked, configured or given.registry, given.configurations.known, path)
    return dataclasses.replace(made, attended=turns.attended())


def shown(resolved: situations.Resolved) -> pages.Body:
    """The situation, resolved."""
    counts: dict[str, int] = {}
    for event in resolved.happened:
        name = type(event).__name__
        counts[name] = counts.get(name, 0) + 1
    return {
        "at": str(resolved.snapshot.position),
        "events": counts,
        "idle": list(resolved.idle),
        "configuration": resolved.plugins.digest,
    }


class Budget:
    """The time that an answer to the present request may take."""

    def __init__(self, seconds: float) -> None:
        self._start = monotonic()
        self._seconds = seconds
        self._attended = turns.attended()

    def running(self, part: float = 1.0) -> bool:
        """Whether there is time left of this part of it. Raises Problem 499 if the client has hung up."""
        self._attended()
        return monotonic() - self._start < part * self._seconds

    def limited(self, supposed: situations.Supposition) -> situations.Supposition:
        """The hypothesis, of which no override is applied once the time is over."""
        return dataclasses.replace(supposed, running=self.running)

    @property
    def spent(self) -> int:
        """Milliseconds since the start."""
        return round(1000 * (monotonic() - self._start))
