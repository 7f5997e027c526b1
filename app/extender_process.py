"""Builds an extender process from its settings: the composition root.

``serve`` checks the settings and the TLS material in the master, so that a mistake ends the process with one
sentence. ``Service`` opens the store, the API server and the threads in the worker, after the fork.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time
import wsgiref.types
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

import flask
from prometheus_client import registry as prometheus_registry

import app
from app import plugins, settings, telemetry
from app.api import routes
from app.api.extender import mount, verb_handlers
from app.api.introspection import heavy, services
from app.api.v1 import plugins as introspection_plugins
from app.framework import registry
from app.kube.client import clients, cluster_identity, credentials
from app.kube.objects import decoding
from app.kube.writes import binding
from app.serving import introspection, servers
from app.serving.access import authorization, roles
from app.serving.http import conn_metrics, request_counts
from app.serving.tls import keystores, role_names, rotation
from app.store import audit_reports, keys, stores
from app.store.bundles import bundle_restorer
from app.store.health import audit_verdicts, availability, identity, readiness
from app.telemetry import probes
from app.verbs import applied_configuration
from app.verbs import contexts as verb_contexts
from app.verbs.explain import recorded_configurations
from app.verbs.questions.shadows import shadow_comparison

SETTLED_WITHIN = 600.0
VIEWED_WAITING, _VIEWED_PATIENCE = 4, 10.0
"""Heavy questions that may wait in ``topolog view``, and for how many seconds."""
_LAG_LIMIT = 5.0
"""Seconds of lag beyond which the extender is not ready (reliability: stale view)."""


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


_OWN = frozenset(("/apis/v1/lag", "/apis/v1/settings"))
"""Paths about the process that serves the verbs: not forwarded to the introspection process."""


class FollowingProcess:
    """A process that follows the log and answers introspection requests."""

    gather = 0.25
    """Seconds between two reads of the log: each takes time from the verbs, and requests read to the head."""

    def __init__(self, chosen: settings.Settings, *, viewed: bool = False) -> None:
        """``viewed``: also the heavy routes and streams (routes.register)."""
        self._settings = chosen
        self._viewed = viewed
        self._plugins = plugins.configured(chosen.plugins)
        decoding.keep(plugins.catalog().annotations)
        self._store = stores.await_store(
            chosen.store,
            cluster=chosen.cluster,
            schema=plugins.catalog().schema,
            indexed=self._plugins.indexed(),
            archive=chosen.compaction.archive,
            # The master reached the store a second ago; it may be away by now.
            notify=_log_waiting,
        )
        self._reports = audit_reports.Reports(self._store.client, self._store.keys)
        self.introspection = self._introspection()

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

    def _shadowing(self) -> shadow_comparison.ShadowComparison | None:
        """What compares decisions with the shadows: nothing in an extender."""
        return None

    def _introspection(self) -> wsgiref.types.WSGIApplication:
        chosen, store = self._settings, self._store
        bundle = bundle_restorer.opened(store.client, store.keys) if self._viewed else None
        made = flask.Flask("topolog", static_folder=None)
        routes.register(
            made,
            services.Services(
                follower=store.follower,
                histories=store.histories,
                decisions=store.decisions,
                log=store.log,
                reports=self._reports,
                registry=self._plugins,
                configurations=recorded_configurations.RecordedConfigurations(
                    self._plugins, plugins.catalog().classes, lambda: store.follower.snapshot
                ),
                wall=time.time if bundle is None else _stopped_clock(bundle.clock_ms / 1000),
                bundle=bundle,
                shadows=self._shadowing(),
                identity=_caller,
                settings=settings.current(chosen),
                flags=_flags(chosen),
                version=app.__version__,
                durability=store.durability.problem,
                stream_seconds=float(chosen.server.connection_age),
                # One page asks several heavy questions at once, and nothing else waits for them here.
                turns=heavy.OneAtATime(waiting=VIEWED_WAITING, patience=_VIEWED_PATIENCE)
                if self._viewed
                else heavy.OneAtATime(),
            ),
            viewed=self._viewed,
        )
        return made.wsgi_app


class Service(FollowingProcess):
    """An extender process: answers the verbs, and forwards most introspection requests to another process."""

    gather = 0.0

    def __init__(self, chosen: settings.Settings, roster: roles.RoleBindings, view: str) -> None:
        super().__init__(chosen)
        self._acceptance = readiness.AcceptanceCheck(self._store.log)
        self._verdict = audit_verdicts.AuditVerdict(self._reports, self._store.log)
        self._availability = availability.Availability(self._store.client)
        self._client = clients.Client(_access(chosen))
        uid = cluster_identity.Identity(self._client).uid_if_known
        self._identity = identity.IdentityCheck(self._store.log, uid)
        self._applied = applied_configuration.AppliedConfiguration(
            self._plugins.configuration(), lambda: self._store.follower.snapshot, self._store.log, _process()
        )
        self.application = self._application(roster, introspection.ForwardingApplication(view))

    def start(self) -> None:
        """Start following the log, and checking whether the store answers and is this cluster's."""
        super().start()
        self._identity.start()
        self._applied.start()
        self._availability.start()

    def stop(self) -> None:
        """Stop the threads, and close the connections to the API server."""
        self._availability.stop()
        self._applied.stop()
        self._identity.stop()
        super().stop()
        self._client.close()

    def checks(self) -> Mapping[str, str | None]:
        """The checks of readiness: name -> problem, None if it passes."""
        follower = self._store.follower
        snapshot = follower.snapshot
        missing = sorted(snapshot.unlisted)
        return {
            "store": str(follower.error) if follower.error is not None else None,
            "identity": self._identity.problem,
            "durability": self._store.durability.problem(),
            "views": self._verdict.problem(),
            "appends": self._acceptance.problem(),
            "state": None
            if follower.caught_up
            else f"reading the log: {snapshot.offset} of {follower.head_seen}",
            "cluster": f"not recorded yet: {', '.join(missing)}" if missing else None,
            "lag": f"{follower.lag_seconds:.1f} s behind" if follower.lag_seconds > _LAG_LIMIT else None,
        }

    def health(self, registered: prometheus_registry.CollectorRegistry) -> wsgiref.types.WSGIApplication:
        """The application of the plain port."""
        metrics, follower, decisions = telemetry.metrics, self._store.follower, self._store.decisions
        metrics.STORE_UP.set_function(lambda: float(self._availability.up))
        metrics.SNAPSHOT_LAG.set_function(lambda: follower.lag_seconds)
        metrics.SNAPSHOT_OFFSET.set_function(lambda: follower.snapshot.offset)
        metrics.LOG_HEAD.set_function(lambda: follower.head_seen or None)
        metrics.DECISIONS_DROPPED.set_function(lambda: decisions.dropped)
        metrics.DECISIONS_SHORTENED.set_function(lambda: decisions.shortened)
        metrics.CONFIGURATION.labels(self._plugins.digest).set(1)
        metrics.preset(metrics.REFUSALS, [plugin.name for plugin in self._plugins.filters])
        return probes.application(self.checks, registered, alone=self._settings.server.workers == 1)

    def _application(
        self, roster: roles.RoleBindings, view: wsgiref.types.WSGIApplication
    ) -> authorization.Middleware:
        chosen, store = self._settings, self._store

        def introspect(
            environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
        ) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            # Setting a flag or a shadow appends to the log, which only this process does.
            own = path in _OWN or path.startswith("/debug/") or roles.changes_shadow(environ)
            return (self.introspection if own else view)(environ, start)

        verbs = verb_handlers.Extender(self._context(), time.monotonic, store.follower)
        mounted = mount.Mounted(
            request_counts.counted(introspect),
            verbs,
            names_limit=chosen.limits.names_body,
            nodes_limit=chosen.limits.nodes_body,
        )
        return authorization.Middleware(mounted, roster, mounted.limit, mounted.coming)

    def _context(self) -> verb_contexts.Context:
        chosen, store = self._settings, self._store
        return verb_contexts.Context(
            plugins=self._plugins,
            state=store.follower,
            log=store.log,
            decisions=store.decisions,
            binder=binding.ApiBinder(self._client),
            now=telemetry.now,
            monotonic=time.monotonic,
            digest=self._plugins.digest,
            flags=_flags(chosen),
            identity=_process(),
            time_limits=verb_contexts.TimeLimits(
                # The rest of the budget is for the answer itself.
                state=0.9 * chosen.budgets.filter,
                bind=chosen.budgets.bind,
            ),
        )


def serve(chosen: settings.Settings) -> NoReturn:
    """Run the extender until a signal ends it.

    Raises ConfigurationRefused, ServingError, StoreError or KubeError before any port is opened. While the
    store is away it waits, and /readyz of the plain port shows that.
    """
    made, insecure = plugins.configured(chosen.plugins), chosen.server.insecure
    _access(chosen)
    source = None if insecure else keystores.source_from(chosen.tls)
    # A certificate without a SAN still serves clients that ask for none; Go refuses it, so warn only.
    rotating = rotation.RotatingContext(source, hosts_required=False) if source is not None else None
    anonymous = role_names.ROLES if insecure else ()
    roster = roles.RoleBindings(chosen.identities.by_role(), anonymous=anonymous, rules=rules_of(made))
    metrics = telemetry.metrics.registry_of(
        telemetry.metrics.EXTENDER, version=app.__version__, schema=keys.SCHEMA
    )
    with Standby(chosen.server, metrics) as standby:
        store = chosen.store
        stores.await_store(
            store,
            cluster=chosen.cluster,
            schema=plugins.catalog().schema,
            indexed=made.indexed(),
            notify=standby.without_store,
        ).close()
    port, meter = introspection.Endpoint(), conn_metrics.ConnectionMetrics(rotating)
    worker = _Worker(chosen, roster, port.path, metrics)
    metrics.register(meter)
    servers.serve(
        servers.options_from(chosen.server, chosen.limits),
        servers.Parts(
            load=worker.load,
            health=worker.health,
            view=worker.view,
            started=worker.started,
            stopping=worker.stopping,
            port=port,
        ),
        rotating=rotating,
        meter=meter,
    )


def _log_waiting(problem: str) -> None:
    telemetry.log.warning("waiting for the store", error=problem)


class Standby:
    """The plain port while the store is away; closed before the server opens its own port and forks."""

    def __init__(self, server: settings.Server, metrics: prometheus_registry.CollectorRegistry) -> None:
        self._server = server
        self._metrics = metrics
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
            application = probes.application(
                lambda: {"store": self._problem}, self._metrics, alone=self._server.workers == 1
            )
            self._stack.enter_context(servers.serving_probes(servers.options_from(self._server), application))
        _log_waiting(problem)


class _Worker:
    """The hooks of a gunicorn worker, called after its fork."""

    def __init__(
        self,
        chosen: settings.Settings,
        roster: roles.RoleBindings,
        view: str,
        metrics: prometheus_registry.CollectorRegistry,
    ) -> None:
        self._settings = chosen
        self._roster = roster
        self._view = view
        self._metrics = metrics
        self._service: FollowingProcess | None = None

    def load(self) -> authorization.Middleware:
        service = self._service = Service(self._settings, self._roster, self._view)
        return service.application

    def view(self) -> wsgiref.types.WSGIApplication:
        self._service = FollowingProcess(self._settings)
        return self._service.introspection

    def started(self) -> None:
        if self._service is not None:
            self._service.start()

    def health(self) -> wsgiref.types.WSGIApplication:
        if not isinstance(self._service, Service):
            raise RuntimeError("the health port is opened after the application is made")
        return self._service.health(self._metrics)

    def stopping(self) -> None:
        if self._service is not None:
            self._service.stop()


def _process() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"


def _access(chosen: settings.Settings) -> credentials.Access:
    return credentials.find(chosen.kube.kubeconfig or None, chosen.kube.context or None)


def _stopped_clock(seconds: float) -> Callable[[], float]:
    """The clock of a bundle: flags expire and reports age until it was made, and no further."""
    return lambda: seconds


def _caller() -> str:
    identity = flask.request.environ.get(authorization.IDENTITY)
    if not isinstance(identity, roles.Identity):
        return "anonymous"
    return f"{identity.name} (serial {identity.serial})" if identity.serial else identity.name


def _flags(chosen: settings.Settings) -> dict[str, str]:
    given = {"s": str(chosen.debug.scores or ""), "f": "true" if chosen.debug.filters else ""}
    return {letter: value for letter, value in given.items() if value}
