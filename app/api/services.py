"""What the introspection surface reads from: built by bootstrap, found through the Flask app."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

import flask

from app.framework import registry
from app.store import decisions, following, histories, logs, reports

_EXTENSION = "topolog"


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the views use; they hold no state of their own."""

    follower: following.Follower
    histories: histories.Histories
    decisions: decisions.Decisions
    log: logs.Log
    reports: reports.Reports
    registry: registry.Registry
    wall: Callable[[], float]
    """Seconds since 1970: for stamps and ends of flags."""
    identity: Callable[[], str]
    """Who sends the present request, for the audit."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Name -> value, secrets hidden (settings.current)."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Debug flags as set at start: letter -> value."""
    version: str = "0"


def install(app: flask.Flask, services: Services) -> None:
    """Make the services known to the app's views."""
    app.extensions[_EXTENSION] = services


def current() -> Services:
    """The services of the app that handles the present request."""
    return cast(Services, flask.current_app.extensions[_EXTENSION])
