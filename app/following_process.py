"""The process that the extender and ``topolog view`` extend: it follows the log and answers questions.

``prepared`` checks in the master what both need before they fork; ``FollowingProcess`` opens the store after
the fork.
"""

import contextlib
import gc
import signal
import sys
import threading
import time
import wsgiref.types
from typing import NamedTuple

import flask
from prometheus_client import registry as prometheus_registry

import app
from app import plugins, settings, telemetry
from app.api import routes
from app.api.introspection import services
from app.api.v1 import plugins as introspection_plugins
from app.framework import registry
from app.kube.objects import decoding
from app.serving import servers
from app.serving.access import authorization, roles
from app.serving.tls import keystores, role_names, rotation
from app.store import audit_reports, keys, stores
from app.telemetry import metrics, probes
from app.verbs.explain import recorded_configurations

SETTLED_WITHIN = 600.0
"""Seconds to wait for the head of the log, after which nothing is exempted from garbage collection."""


class Prepared(NamedTuple):
    """What is made before the fork."""

    rotating: rotation.RotatingContext | None
    """None if the server is insecure."""
    roster: roles.RoleBindings
    metrics: prometheus_registry.CollectorRegistry


def prepared(chosen: settings.Settings, process: str) -> Prepared:
    """The parts of a process, once its store answers; ``process``: its name in the metrics.

    Raises ConfigurationRefused, ServingError or StoreError. While the store is away it waits, and /readyz of
    the plain port shows that.
    """
    made, insecure = plugins.configured(chosen.plugins), chosen.server.insecure
    source = None if insecure else keystores.source_from(chosen.tls)
    # A certificate without a SAN still serves clients that ask for none; Go refuses it, so warn only.
    rotating = rotation.RotatingContext(source, hosts_required=False) if source is not None else None
    anonymous = role_names.ROLES if insecure else ()
    roster = roles.RoleBindings(chosen.identities.by_role(), anonymous=anonymous, rules=rules_of(made))
    registered = metrics.registry_of(process, version=app.__version__, schema=keys.SCHEMA)
    with Standby(process, chosen.server, registered) as standby:
        stores.await_store(
            chosen.store,
            cluster=chosen.cluster,
            schema=plugins.catalog().schema,
            indexed=made.indexed(),
            notify=standby.without_store,
        ).close()
    return Prepared(rotating, roster, registered)


def rules_of(made: registry.Registry) -> tuple[roles.Rule, ...]:
    """The roles that the plugins' routes require, where they require more than a viewer."""
    return tuple(
        rule
        for name, shown in made.shown.items()
        for rule in roles.rules_of(
            f"{introspection_plugins.PREFIX}/{name}",
            {endpoint.path: endpoint.role for endpoint in shown.endpoints},
        )
    )


class FollowingProcess:
    """A process that follows the log and answers introspection requests."""

    gather = 0.25
    """Seconds between two reads of the log: each takes time from the verbs, and requests read to the head."""

    def __init__(self, chosen: settings.Settings) -> None:
        self._settings = chosen
        self._plugins = plugins.configured(chosen.plugins)
        decoding.keep(plugins.catalog().annotations)
        self._store = stores.await_store(
            chosen.store,
            cluster=chosen.cluster,
            schema=plugins.catalog().schema,
            indexed=self._plugins.indexed(),
            archive=chosen.compaction.archive,
            # The master reached the store a second ago; it may be away by now.
            notify=log_waiting,
        )
        self._reports = audit_reports.Reports(self._store.client, self._store.keys)

    def start(self) -> None:
        """Start following the log."""
        self._store.start(gather=self.gather)
        threading.Thread(target=self.settle, name="settling", daemon=True).start()

    def settle(self) -> None:
        """Exempt the objects of the first state from garbage collection.

        None of the millions of them is garbage, and scanning them would stop the answers for 100 ms.
        """
        if self._store.follower.wait_until_caught_up(timeout=SETTLED_WITHIN):
            gc.freeze()

    def stop(self) -> None:
        """Stop the threads, after the queued decision records are written."""
        self._store.close()

    def dependencies(self) -> services.Services:
        """The dependencies of the routes."""
        chosen, store = self._settings, self._store
        return services.Services(
            follower=store.follower,
            histories=store.histories,
            decisions=store.decisions,
            log=store.log,
            reports=self._reports,
            registry=self._plugins,
            configurations=recorded_configurations.RecordedConfigurations(
                self._plugins, plugins.catalog().classes, lambda: store.follower.snapshot
            ),
            wall=time.time,
            identity=_caller,
            settings=settings.current(chosen),
            flags=flags(chosen),
            version=app.__version__,
            durability=store.durability.problem,
            stream_seconds=float(chosen.server.connection_age),
        )


def application(made: services.Services, *, viewed: bool = False) -> wsgiref.types.WSGIApplication:
    """The introspection application; ``viewed``: with the heavy routes and streams."""
    found = flask.Flask("topolog", static_folder=None)
    routes.register(found, made, viewed=viewed)
    return found.wsgi_app


class Standby:
    """The plain port while the store is away; closed before the server opens its own port and forks."""

    def __init__(
        self, process: str, server: settings.Server, metrics: prometheus_registry.CollectorRegistry
    ) -> None:
        """``process``: its name in the metrics."""
        self._server = server
        self._metrics = metrics
        self._readiness = telemetry.readiness.Readiness(process, lambda: {"store": self._problem})
        self._stack = contextlib.ExitStack()
        self._problem = ""

    def __enter__(self) -> "Standby":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def without_store(self, problem: str) -> None:
        """Report that the store cannot be reached."""
        first, self._problem = not self._problem, problem
        if first:
            self._readiness.start()
            self._stack.callback(self._readiness.stop)
            application = probes.application(self._readiness.measure, self._metrics)
            self._stack.enter_context(servers.serving_probes(servers.options_from(self._server), application))
        log_waiting(problem)


def log_waiting(problem: str) -> None:
    """Write to the log that the process waits."""
    telemetry.log.warning("waiting for the store", error=problem)


def flags(chosen: settings.Settings) -> dict[str, str]:
    """The debug flags of the settings: letter -> value."""
    given = {"s": str(chosen.debug.scores or ""), "f": "true" if chosen.debug.filters else ""}
    return {letter: value for letter, value in given.items() if value}


def _caller() -> str:
    identity = flask.request.environ.get(authorization.IDENTITY)
    if not isinstance(identity, roles.Identity):
        return "anonymous"
    return f"{identity.name} (serial {identity.serial})" if identity.serial else identity.name
