"""The dependencies of the REST API: built by the process that serves it, found through the Flask app."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

import flask

from app.api.introspection import arrivals, heavy, kept_answers
from app.framework import registry
from app.store import audit_reports
from app.store.bundles import layout
from app.store.decisions import decision_log
from app.store.log import logs
from app.store.state import followers, histories
from app.verbs.explain import recorded_configurations
from app.verbs.questions.shadows import shadow_comparison

_EXTENSION = "topolog"


@dataclass(frozen=True, slots=True)
class Services:
    """The dependencies of the views, which hold no state."""

    follower: followers.Follower
    histories: histories.Histories
    decisions: decision_log.DecisionLog
    log: logs.Log
    reports: audit_reports.Reports
    registry: registry.Registry
    configurations: recorded_configurations.RecordedConfigurations
    wall: Callable[[], float]
    """Seconds since 1970: for timestamps and the expiry of flags."""
    identity: Callable[[], str]
    """The sender of the present request, for the audit."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Name -> value, secrets hidden (settings.current)."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Debug flags as set at start: letter -> value."""
    version: str = "0"
    durability: Callable[[], str | None] = lambda: None
    """Why the store may lose what it acknowledged; None without a finding."""
    bundle: layout.About | None = None
    """The bundle whose store this is; None for the store of a cluster."""
    exports: heavy.OneAtATime = field(default_factory=lambda: heavy.OneAtATime(waiting=0, pausing=False))
    """Bundles that are made: one, and the next is refused."""
    turns: heavy.OneAtATime = field(default_factory=heavy.OneAtATime)
    answers: kept_answers.KeptAnswers = field(default_factory=kept_answers.KeptAnswers)
    shadows: shadow_comparison.ShadowComparison | None = None
    """What compares decisions with the shadows; None in a process that does not."""
    stream_seconds: float = 3600.0
    """After this time a stream ends as soon as it has caught up."""
    streams: arrivals.Arrivals = field(init=False)

    def __post_init__(self) -> None:
        made = arrivals.Arrivals(self.follower, self.histories)
        object.__setattr__(self, "streams", made)


def install(app: flask.Flask, services: Services) -> None:
    """Make the services available to the views of the app."""
    app.extensions[_EXTENSION] = services


def current() -> Services:
    """The services of the app that handles the present request."""
    return cast(Services, flask.current_app.extensions[_EXTENSION])
