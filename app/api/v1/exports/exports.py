"""A stretch of the log as one file: checkpoint, events, decisions and what is needed to understand them."""

import contextlib
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import flask
from marshmallow import fields, validate

from app import telemetry
from app.api import errors
from app.api.introspection import blueprints, moments, pages, queries, services
from app.api.v1 import processes
from app.api.v1.exports import stretches
from app.store import errors as store_errors
from app.store.bundles import layout, log_stretches

routes = blueprints.create("export", "/apis/v1", "The history as a file.")
TYPE = "application/x-tar"
_PATIENCE = 120.0
"""Seconds that the reading of one member waits for other heavy questions."""
_PAUSE = 0.1
"""Seconds between two attempts while as many of them wait as may."""


class ExportQuery(queries.Empty):
    """Which stretch: a range, or the minutes around a moment or a pod."""

    from_ = queries.at("The oldest moment of the bundle", data_key="from")
    to = queries.at("The latest one, instead of now")
    at = queries.at("The moment in the middle, instead of a range")
    around = queries.pod(
        "The pod whose latest event or decision is the moment in the middle, NAMESPACE/NAME."
    )
    minutes = fields.Integer(
        validate=validate.Range(1, 7 * 24 * 60),
        metadata={
            "description": "Minutes before and after the moment in the middle.",
            "default": stretches.MINUTES,
        },
    )


@blueprints.stream(
    routes,
    "/export",
    query=ExportQuery,
    content_type=TYPE,
    shape={"type": "string", "format": "binary"},
    description="A bundle: a tar whose last member is its manifest, or the reason of a failure.",
)
def export(query: pages.Query) -> flask.Response:
    """The state at the start of a stretch, its events and decisions, and settings without secrets."""
    given = services.current()
    head = moments.take()
    with contextlib.ExitStack() as entered:
        # One at a time: each holds a member in memory until its client has read it.
        entered.enter_context(given.exports.admitted())
        with given.turns.admitted():
            first, last = stretches.asked(query, head)
            stretch = _stretch(first, last)
            about = _about(stretch, head, str(query.get("around", "")))
        writing = _Writing(given, stretch, about, processes.settings_shown(), processes.lag_shown())
        response = flask.Response(writing.pieces(), mimetype=TYPE)
        response.headers["Content-Disposition"] = 'attachment; filename="topolog-bundle.tar"'
        response.call_on_close(entered.pop_all().close)
    return response


def _stretch(first: int, last: int) -> log_stretches.Stretch:
    given = services.current()
    try:
        return log_stretches.Stretch(given.histories, given.log, first, last)
    except log_stretches.TooMany as many:
        raise errors.Problem(400, "TooMuch", str(many)) from many


def _about(stretch: log_stretches.Stretch, head: moments.Moment, around: str) -> layout.About:
    given = services.current()
    return layout.About(
        kind=layout.KIND,
        version=layout.VERSION,
        topolog=given.version,
        cluster=given.log.cluster,
        incarnation=stretch.incarnation,
        first=stretch.first,
        last=stretch.last,
        head=head.snapshot.offset,
        first_ms=stretch.first_ms,
        last_ms=stretch.last_ms,
        created_ms=int(given.wall() * 1000),
        by=given.identity(),
        around=around,
        decisions_from=given.decisions.oldest(),
    )


@dataclass(frozen=True, slots=True)
class _Writing:
    given: services.Services
    stretch: log_stretches.Stretch
    about: layout.About
    settings: pages.Body
    lag: pages.Body

    def pieces(self) -> Iterator[bytes]:
        """The bundle; an empty piece where it takes time."""
        packer = layout.Packer(self.about.last_ms)
        try:
            for name in layout.MEMBERS:
                parts = yield from self._in_turn(self._steps(name))
                yield from packer.member(name, parts)
            yield from packer.manifest()
        except (store_errors.StoreError, errors.Problem, log_stretches.TooMany, layout.TooLarge) as failure:
            telemetry.log.warning("an export failed", error=str(failure))
            yield from packer.failed(str(failure))

    def _steps(self, name: str) -> Iterator[list[bytes]]:
        """The steps to the parts of a member, which the last one yields."""
        match name:
            case layout.ABOUT:
                yield [layout.encoded(self.about)]
            case layout.CHECKPOINT:
                yield self.stretch.checkpoint()
            case layout.EVENTS:
                yield from self.stretch.events()
            case layout.DECISIONS:
                yield from self.stretch.decisions(self.given.decisions)
            case layout.CONSISTENCY:
                yield [layout.encoded(self.given.reports.latest())]
            case layout.SETTINGS:
                yield [layout.encoded(self.settings)]
            case _:
                yield [layout.encoded(self.lag)]

    def _in_turn(self, steps: Iterator[list[bytes]]) -> Generator[bytes, None, list[bytes]]:
        """The result of the last step, each taken in turn with the other heavy questions."""
        found: list[bytes] = []
        ends = time.monotonic() + _PATIENCE
        while True:
            try:
                with self.given.turns.admitted():
                    step = next(steps, None)
            except errors.Problem:
                if time.monotonic() > ends:
                    raise
                time.sleep(_PAUSE)
                step = found
            if step is None:
                return found
            found = step
            yield b""
