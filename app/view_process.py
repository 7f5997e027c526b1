"""Builds the process of ``topolog view`` from its settings: it reads the log, and decides nothing.

It follows the log, serves the introspection API with the heavy routes and the streams, and the dashboard, at
a low priority. It appends nothing: its store user cannot (role ``viewer``).
"""

import dataclasses
import time
import wsgiref.types
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from prometheus_client import registry as prometheus_registry

from app import following_process, plugins, settings, telemetry
from app.api import errors
from app.api.introspection import heavy, services, times
from app.serving import servers
from app.serving.access import authorization, roles
from app.serving.http import bodies, conn_metrics, request_counts
from app.store.bundles import bundle_restorer
from app.store.health import availability
from app.telemetry import probes
from app.verbs.explain import recorded_configurations
from app.verbs.questions.shadows import shadow_comparison, shadow_metrics

_LAG_LIMIT = 30.0
"""Seconds of lag beyond which the process is not ready."""
_THREADS = 8
WAITING, _PATIENCE = 4, 10.0
"""Heavy questions that may wait, and for how many seconds."""
_OTHER_QUESTIONS = 3
"""Concurrent questions while heavy ones take all their places."""
_GRACE = 2
"""Seconds that a question may take after SIGTERM: a browser asks again, and the next process answers."""


class ViewProcess(following_process.FollowingProcess):
    """The process after its fork."""

    gather = 0.05
    """Seconds: the streams show each event as soon as it was read."""

    def __init__(self, chosen: settings.Settings, roster: roles.RoleBindings) -> None:
        super().__init__(chosen)
        self._shadows = self._shadowing()
        self._availability = availability.Availability(self._store.client)
        self.readiness = telemetry.readiness.Readiness(telemetry.metrics.VIEW, self.checks)
        self.introspection = following_process.application(self.dependencies(), viewed=True)
        self.application = authorization.Middleware(
            request_counts.counted(self._answer), roster, lambda _: bodies.SMALL
        )

    def dependencies(self) -> services.Services:
        """The dependencies of the routes, also of those that only this process has."""
        bundle = bundle_restorer.opened(self._store.client, self._store.keys)
        return dataclasses.replace(
            super().dependencies(),
            bundle=bundle,
            wall=time.time if bundle is None else _stopped_clock(bundle.clock_ms / 1000),
            shadows=self._shadows,
            # One page asks several heavy questions at once, and nothing else waits for them here.
            turns=heavy.OneAtATime(waiting=WAITING, patience=_PATIENCE),
        )

    def start(self) -> None:
        """Start following the log, checking whether the store answers, and comparing with the shadows."""
        super().start()
        self._availability.start()
        telemetry.metrics.STORE_UP.set_function(lambda: float(self._availability.up))
        self._shadows.start()
        self.readiness.start()

    def settle(self) -> None:
        """Also compute of the first state what the first map would wait for."""
        follower = self._store.follower
        if follower.wait_until_caught_up(timeout=following_process.SETTLED_WITHIN):
            follower.snapshot.add_up()
        super().settle()

    def reports(self) -> dict[str, shadow_comparison.ComparisonReport]:
        """The differences of every shadow, by its name."""
        return self._shadows.reports()

    def stop(self) -> None:
        """Stop the threads."""
        self.readiness.stop()
        self._shadows.stop()
        self._availability.stop()
        super().stop()

    def _shadowing(self) -> shadow_comparison.ShadowComparison:
        store, known = self._store, plugins.catalog().classes
        return shadow_comparison.ShadowComparison(
            follower=store.follower,
            past=store.histories,
            decisions=store.decisions,
            recorded=recorded_configurations.RecordedConfigurations(
                self._plugins, known, lambda: store.follower.snapshot
            ),
            known=known,
            milliseconds=times.milliseconds,
            wall=time.time,
        )

    def _answer(
        self, environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
    ) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path in roles.VERB_PATHS or path.startswith("/debug/") or roles.changes_shadow(environ):
            body = errors.encoded(errors.elsewhere(path))
            headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
            start("404 Not Found", headers)
            return [body]
        return self.introspection(environ, start)

    def checks(self) -> Mapping[str, str | None]:
        """The checks of readiness: name -> problem, None if it passes."""
        follower = self._store.follower
        return {
            "store": str(follower.error) if follower.error is not None else None,
            "state": None
            if follower.caught_up
            else f"reading the log: {follower.snapshot.offset} of {follower.head_seen}",
            "lag": f"{follower.lag_seconds:.1f} s behind" if follower.lag_seconds > _LAG_LIMIT else None,
        }


def serve(chosen: settings.Settings) -> NoReturn:
    """Serve until a signal ends the process.

    Raises ConfigurationRefused, ServingError or StoreError before any port is opened. While the store is away
    it waits, and /readyz of the plain port shows that.
    """
    rotating, roster, metrics = following_process.prepared(chosen, telemetry.metrics.VIEW)
    meter = conn_metrics.ConnectionMetrics(rotating, view=True)
    worker = _Worker(chosen, roster, metrics)
    metrics.register(meter)
    servers.serve(
        options(chosen),
        servers.Parts(
            load=worker.load, health=worker.health, started=worker.started, stopping=worker.stopping
        ),
        rotating=rotating,
        meter=meter,
    )


def options(chosen: settings.Settings) -> servers.Options:
    """Those of an extender, but nothing is lost when this process ends early."""
    made = servers.options_from(
        chosen.server, chosen.limits, port=chosen.view_port, workers=1, threads=_THREADS
    )
    return dataclasses.replace(
        made,
        setting="view.port",
        introspection_threads=1 + WAITING + _OTHER_QUESTIONS,
        graceful_seconds=min(_GRACE, chosen.server.grace),
        limits=dataclasses.replace(made.limits, stopping=0.0),
    )


class _Worker:
    """The hooks of the gunicorn worker, called after its fork."""

    def __init__(
        self,
        chosen: settings.Settings,
        roster: roles.RoleBindings,
        metrics: prometheus_registry.CollectorRegistry,
    ) -> None:
        self._settings = chosen
        self._roster = roster
        self._metrics = metrics
        self._process: ViewProcess | None = None

    def load(self) -> authorization.Middleware:
        self._process = ViewProcess(self._settings, self._roster)
        self._metrics.register(shadow_metrics.ShadowMetrics(self._process.reports))
        return self._process.application

    def started(self) -> None:
        if self._process is not None:
            self._process.start()

    def health(self) -> wsgiref.types.WSGIApplication:
        if self._process is None:
            raise RuntimeError("the health port is opened after the application is made")
        return probes.application(self._process.readiness.measure, self._metrics)

    def stopping(self) -> None:
        if self._process is not None:
            self._process.stop()


def _stopped_clock(seconds: float) -> Callable[[], float]:
    """The clock of a bundle: flags expire and reports age until it was made, and no further."""
    return lambda: seconds
