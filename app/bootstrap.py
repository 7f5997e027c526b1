"""The composition root of the extender: everything is built here, once, in the worker process.

``serve`` checks the settings and the TLS material in the master, so that a mistake ends the process
with one sentence; the store, the cluster and the threads are opened after the fork, by ``Service``.
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
from collections.abc import Iterable, Mapping
from typing import NoReturn

import flask
import prometheus_client

import app
from app import plugins, settings, telemetry
from app.api import extender, health, introspecting, mounting, services
from app.framework import configuring, registry
from app.kube import accessing, binding, clients, decoding
from app.serving import contexts, gates, identities, keystores, metering, running, viewing
from app.store import opening, reports, verdicts, vetting
from app.verbs import contexts as verb_contexts

_SETTLED_WITHIN = 600.0
_LAG_LIMIT = 5.0
"""Seconds that the state may be behind before the extender is not ready (reliability: stale view)."""


def plugins_of(chosen: settings.Settings) -> registry.Registry:
    """The plugins that the settings name. Raises ConfigurationRefused."""
    return configuring.build(
        plugins.IN_TREE,
        enabled=chosen.plugins.enabled,
        weights=chosen.plugins.weights,
        score_max=chosen.plugins.score_max,
        args=chosen.plugins.args,
    )


_OWN = frozenset(("/apis/v1/lag", "/apis/v1/settings"))
"""Questions about the process that serves the verbs, which it answers itself."""


class Following:
    """A process that follows the log, and what can be asked of it."""

    def __init__(self, chosen: settings.Settings) -> None:
        self._settings = chosen
        self._plugins = plugins_of(chosen)
        decoding.keep(self._plugins.annotations())
        self._store = opening.await_store(
            chosen.store,
            cluster=chosen.cluster,
            indexed=self._plugins.indexed(),
            archive=chosen.compaction.archive,
            # It was there when the master looked, but that is a second ago.
            tell=_waits,
        )
        self._reports = reports.Reports(self._store.client, self._store.keys)
        self.introspection = self._introspection()

    def start(self) -> None:
        """Start following the log."""
        self._store.start()
        threading.Thread(target=self._settle, name="settling", daemon=True).start()

    def _settle(self) -> None:
        """Once the state is there: the collector need not go through its millions of objects again.

        They are no garbage, and looking would stop the answers for a tenth of a second.
        """
        if self._store.follower.wait_until_caught_up(timeout=_SETTLED_WITHIN):
            gc.freeze()

    def stop(self) -> None:
        """Stop the threads; decisions that wait are written first."""
        self._store.close()

    def _introspection(self) -> wsgiref.types.WSGIApplication:
        chosen, store = self._settings, self._store
        made = flask.Flask("topolog", static_folder=None)
        introspecting.register(
            made,
            services.Services(
                follower=store.follower,
                histories=store.histories,
                decisions=store.decisions,
                log=store.log,
                reports=self._reports,
                registry=self._plugins,
                wall=time.time,
                identity=_caller,
                settings=settings.current(chosen),
                flags=_flags(chosen),
                version=app.__version__,
            ),
        )
        return made.wsgi_app


class Service(Following):
    """One extender process: it answers the verbs, and has another process answer most questions."""

    def __init__(self, chosen: settings.Settings, roster: identities.Roster, view: str) -> None:
        super().__init__(chosen)
        self._acceptance = vetting.Acceptance(self._store.log)
        self._verdict = verdicts.Verdict(self._reports, self._store.log)
        self._client = clients.Client(_access(chosen))
        self.application = self._application(roster, viewing.Remote(view))

    def stop(self) -> None:
        """Stop the threads, and close the connections to the API server."""
        super().stop()
        self._client.close()

    def checks(self) -> Mapping[str, str | None]:
        """What readiness depends on, and what is wrong with it."""
        follower = self._store.follower
        snapshot = follower.snapshot
        missing = sorted(snapshot.unlisted)
        return {
            "store": str(follower.error) if follower.error is not None else None,
            "keeping": self._store.vetting.trouble(),
            "views": self._verdict.trouble(),
            "appends": self._acceptance.trouble(),
            "state": None
            if follower.caught_up
            else f"reading the log: {snapshot.offset} of {follower.head_seen}",
            "cluster": f"not recorded yet: {', '.join(missing)}" if missing else None,
            "lag": f"{follower.lag_seconds:.1f} s behind" if follower.lag_seconds > _LAG_LIMIT else None,
        }

    def health(self) -> wsgiref.types.WSGIApplication:
        """The application of the plain port."""
        follower, decisions = self._store.follower, self._store.decisions
        telemetry.metrics.LAG.set_function(lambda: follower.lag_seconds)
        telemetry.metrics.OFFSET.set_function(lambda: follower.snapshot.offset)
        telemetry.metrics.STORE_UP.set_function(lambda: float(follower.error is None))
        telemetry.metrics.DECISIONS_DROPPED.set_function(lambda: float(decisions.dropped))
        telemetry.metrics.DECISIONS_SHORTENED.set_function(lambda: float(decisions.shortened))
        return health.application(self.checks, alone=self._settings.server.workers == 1)

    def _application(self, roster: identities.Roster, view: wsgiref.types.WSGIApplication) -> gates.Gate:
        chosen, store = self._settings, self._store

        def asked(
            environ: wsgiref.types.WSGIEnvironment, start: wsgiref.types.StartResponse
        ) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            # Setting a flag appends, which the other process may not.
            own = path in _OWN or path.startswith("/debug/")
            return (self.introspection if own else view)(environ, start)

        verbs = extender.Extender(self._context(), time.monotonic, store.follower)
        mounted = mounting.Mounted(
            asked,
            verbs,
            names_limit=chosen.limits.names_body,
            nodes_limit=chosen.limits.nodes_body,
        )
        return gates.Gate(mounted, roster, mounted.limit, mounted.coming)

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
            identity=f"{socket.gethostname()}/{os.getpid()}",
            budgets=verb_contexts.Budgets(
                # The answer itself takes its part of what the settings allow.
                state=0.9 * chosen.budgets.filter,
                bind=chosen.budgets.bind,
            ),
        )


def serve(chosen: settings.Settings) -> NoReturn:
    """Run the extender until a signal ends it.

    Raises, before anything listens, ConfigurationRefused, ServingError, StoreError or KubeError with one
    clear sentence. A store that is away is waited for, and the plain port says so.
    """
    made, insecure = plugins_of(chosen), chosen.server.insecure
    _access(chosen)
    source = None if insecure else keystores.source_of(chosen.tls)
    # Without a SAN the certificate of seed 000 still serves clients that ask for none; Go refuses it: warn.
    rotating = contexts.Rotating(source, hosts_required=False) if source is not None else None
    roster = identities.Roster(chosen.identities.by_role(), anonymous=identities.ROLES if insecure else ())
    with _Standby(chosen.server) as standby:
        store = chosen.store
        opening.await_store(
            store, cluster=chosen.cluster, indexed=made.indexed(), tell=standby.without_store
        ).close()
    port, meter = viewing.Port(), metering.Meter(rotating)
    worker = _Worker(chosen, roster, port.path)
    prometheus_client.REGISTRY.register(meter)
    running.serve(
        running.options_of(chosen.server, chosen.limits),
        running.Parts(
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


def _waits(trouble: str) -> None:
    telemetry.log.warning("waits for the store", error=trouble)


class _Standby:
    """The plain port while there is no store yet. It is closed before the server opens its own, and forks."""

    def __init__(self, server: settings.Server) -> None:
        self._server = server
        self._stack = contextlib.ExitStack()
        self._trouble = ""

    def __enter__(self) -> "_Standby":
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def without_store(self, trouble: str) -> None:
        """The store cannot be reached."""
        first, self._trouble = not self._trouble, trouble
        if first:
            application = health.application(lambda: {"store": self._trouble})
            self._stack.enter_context(running.probed(running.options_of(self._server), application))
        _waits(trouble)


class _Worker:
    """What a gunicorn worker calls, each after its fork."""

    def __init__(self, chosen: settings.Settings, roster: identities.Roster, view: str) -> None:
        self._settings = chosen
        self._roster = roster
        self._view = view
        self._service: Following | None = None

    def load(self) -> gates.Gate:
        service = self._service = Service(self._settings, self._roster, self._view)
        return service.application

    def view(self) -> wsgiref.types.WSGIApplication:
        self._service = Following(self._settings)
        return self._service.introspection

    def started(self) -> None:
        if self._service is not None:
            self._service.start()

    def health(self) -> wsgiref.types.WSGIApplication:
        if not isinstance(self._service, Service):
            raise RuntimeError("the health port is opened after the application is made")
        return self._service.health()

    def stopping(self) -> None:
        if self._service is not None:
            self._service.stop()


def _access(chosen: settings.Settings) -> accessing.Access:
    return accessing.find(chosen.kube.kubeconfig or None, chosen.kube.context or None)


def _caller() -> str:
    identity = flask.request.environ.get(gates.IDENTITY)
    if not isinstance(identity, identities.Identity):
        return "anonymous"
    return f"{identity.name} (serial {identity.serial})" if identity.serial else identity.name


def _flags(chosen: settings.Settings) -> dict[str, str]:
    flags = {}
    if chosen.debug.scores:
        flags["s"] = str(chosen.debug.scores)
    if chosen.debug.filters:
        flags["f"] = "true"
    return flags
