"""Builds an extender process from its settings: the composition root.

``serve`` checks the settings and the TLS material in the master, so that a mistake ends the process with one
sentence. ``Service`` opens the store, the API server and the threads in the worker, after the fork.
"""

import os
import socket
import threading
import time
import wsgiref.types
from collections.abc import Iterable, Mapping
from typing import NoReturn

from prometheus_client import registry as prometheus_registry

from app import following_process, settings, telemetry
from app.api.extender import mount, verb_handlers
from app.kube.client import clients, cluster_identity, credentials
from app.kube.writes import binding
from app.serving import introspection, servers
from app.serving.access import authorization, roles
from app.serving.http import conn_metrics, request_counts
from app.store.health import audit_verdicts, availability, identity, readiness
from app.telemetry import probes
from app.verbs import applied_configuration
from app.verbs import contexts as verb_contexts

_LAG_LIMIT = 5.0
"""Seconds of lag beyond which the extender is not ready (reliability: stale view)."""
_OWN = frozenset(("/apis/v1/lag", "/apis/v1/settings"))
"""Paths about the process that serves the verbs: not forwarded to the introspection process."""


class Service(following_process.FollowingProcess):
    """An extender process: answers the verbs, and forwards most introspection requests to another process."""

    gather = 0.0

    def __init__(
        self, chosen: settings.Settings, roster: roles.RoleBindings, introspection_path: str
    ) -> None:
        super().__init__(chosen)
        self._acceptance = readiness.AcceptanceCheck(self._store.log)
        self._verdict = audit_verdicts.AuditVerdict(self._reports, self._store.log)
        self._availability = availability.Availability(self._store.client)
        self._client = clients.Client(_access(chosen))
        uid = cluster_identity.Identity(self._client).uid_if_known
        self._identity = identity.IdentityCheck(self._store.log, uid)
        self._readiness = telemetry.readiness.Readiness(telemetry.metrics.EXTENDER, self.checks)
        self._applied = applied_configuration.AppliedConfiguration(
            self._plugins.configuration(), lambda: self._store.follower.snapshot, self._store.log, _process()
        )
        self.application = self._application(roster, introspection.ForwardingApplication(introspection_path))

    def start(self) -> None:
        """Start following the log, and checking whether the store answers and is this cluster's."""
        super().start()
        self._identity.start()
        self._applied.start()
        self._availability.start()
        self._readiness.start()

    def stop(self) -> None:
        """Stop the threads, and close the connections to the API server."""
        self._readiness.stop()
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
        alone = self._settings.server.workers == 1
        return probes.application(self._readiness.measure, registered, alone=alone)

    def _application(
        self, roster: roles.RoleBindings, forwarding: wsgiref.types.WSGIApplication
    ) -> authorization.Middleware:
        chosen, store = self._settings, self._store
        here = following_process.application(self.dependencies())

        def introspect(
            environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
        ) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            # Setting a flag or a shadow appends to the log, which only this process does.
            own = path in _OWN or path.startswith("/debug/") or roles.changes_shadow(environ)
            return (here if own else forwarding)(environ, start)

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
            flags=following_process.flags(chosen),
            identity=_process(),
            time_limits=verb_contexts.TimeLimits(
                # The rest of the budget is for the answer itself.
                state=0.9 * chosen.budgets.filter,
                bind=chosen.budgets.bind,
            ),
            held_refusals=threading.Semaphore(chosen.server.threads // 2),
        )


def serve(chosen: settings.Settings) -> NoReturn:
    """Run the extender until a signal ends it.

    Raises ConfigurationRefused, ServingError, StoreError or KubeError before any port is opened. While the
    store is away it waits, and /readyz of the plain port shows that.
    """
    _access(chosen)
    rotating, roster, metrics = following_process.prepared(chosen, telemetry.metrics.EXTENDER)
    port, meter = introspection.Endpoint(), conn_metrics.ConnectionMetrics(rotating)
    worker = _Worker(chosen, roster, port.path, metrics)
    metrics.register(meter)
    servers.serve(
        servers.options_from(chosen.server, chosen.limits),
        servers.Parts(
            load=worker.load,
            health=worker.health,
            load_introspection=worker.load_introspection,
            started=worker.started,
            stopping=worker.stopping,
            port=port,
        ),
        rotating=rotating,
        meter=meter,
    )


class _Worker:
    """The hooks of a gunicorn worker, called after its fork."""

    def __init__(
        self,
        chosen: settings.Settings,
        roster: roles.RoleBindings,
        introspection_path: str,
        metrics: prometheus_registry.CollectorRegistry,
    ) -> None:
        self._settings = chosen
        self._roster = roster
        self._introspection_path = introspection_path
        self._metrics = metrics
        self._service: following_process.FollowingProcess | None = None

    def load(self) -> authorization.Middleware:
        service = self._service = Service(self._settings, self._roster, self._introspection_path)
        return service.application

    def load_introspection(self) -> wsgiref.types.WSGIApplication:
        service = self._service = following_process.FollowingProcess(self._settings)
        return following_process.application(service.dependencies())

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
