"""``python -m workers record|control|compact|audit``: runs one worker until a signal ends it.

Exit codes are in app.exit_codes; a process that a signal ends exits with 0. A process waits for a store that
is unavailable, and returns to standby when another one has taken over.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, NoReturn, Protocol

import click
from prometheus_client import registry as prometheus_registry

import app
from app import exit_codes, plugins, settings, telemetry
from app.framework import registry
from app.kube import errors as kube_errors
from app.kube.client import clients, cluster_identity, credentials
from app.kube.election import electors
from app.kube.objects import decoding
from app.kube.watch import kinds
from app.kube.writes import binding
from app.serving import errors as serving_errors
from app.serving import ports, probe_server
from app.store import errors as store_errors
from app.store import keys, stores
from app.store.health import availability, identity
from app.telemetry import probes
from workers import signals
from workers.auditor import auditors
from workers.compactor import compactors
from workers.controller import controllers, object_metrics, pending_metrics
from workers.recorder import recorders


class Worker(Protocol):
    """The loop of a process."""

    def run(self) -> None:
        """Work until stopped."""
        ...

    def stop(self) -> None:
        """Let ``run`` return soon."""
        ...

    def checks(self) -> Mapping[str, str | None]:
        """Readiness checks: name -> problem, or None."""
        ...


class Resources(NamedTuple):
    """Settings and clients from which a worker is built."""

    settings: settings.Settings
    store: stores.Store
    client: clients.Client
    plugins: registry.Registry
    namespace: str
    """Namespace of the Leases."""
    metrics: prometheus_registry.CollectorRegistry

    def elector(self, name: str) -> electors.Elector:
        """A candidate for the Lease of this name."""
        election = self.settings.election
        terms = electors.Durations(lease=election.lease, renew=election.renew, retry=election.retry)
        made = electors.Elector(
            self.client, self.namespace, name, durations=terms, on_problem=_report_election
        )
        telemetry.metrics.LEADER.labels(name).set_function(lambda: float(made.tenure is not None))
        return made


class _Identified:
    """A worker that is ready only if the store holds the log of its own cluster."""

    def __init__(self, worker: Worker, check: identity.IdentityCheck) -> None:
        self.run, self.stop = worker.run, worker.stop
        self._worker = worker
        self._check = check

    def checks(self) -> Mapping[str, str | None]:
        """See Worker."""
        return {**self._worker.checks(), "identity": self._check.problem}


Factory = Callable[[Resources], Worker]


_CONFIG: Final = click.option(
    "--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML)."
)


@click.group()
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML). [TOPOLOG_CONFIG]"
)
@click.pass_context
def main(context: click.Context, config: str | None) -> None:
    """The processes beside the extender."""
    context.obj = config


@main.command("record")
@_CONFIG
@click.pass_obj
def record_command(outer: str | None, config: str | None) -> None:
    """Watch the cluster and append every fact to the log; one replica leads."""
    sys.setswitchinterval(recorders.SWITCH_INTERVAL)
    # An emptied store is opened, too: the recorder may have to record that events were lost.
    _work("recorder", config or outer, _recorder, emptied=True)


@main.command("control")
@_CONFIG
@click.pass_obj
def control_command(outer: str | None, config: str | None) -> None:
    """Wake pending pods, release placements without a Binding, post Events; one replica leads."""
    _work("controller", config or outer, _controller)


def _recorder(given: Resources) -> recorders.Recorder:
    telemetry.metrics.watched(kind.name for kind in kinds.watched(given.store.schema))
    return recorders.Recorder(
        given.store.log,
        given.store.follower,
        given.client,
        elector=given.elector(given.settings.election.recorder),
        # A Binding is under way no longer than a bind and the API server may take.
        settle=given.settings.budgets.bind + binding.UNDER_WAY,
    )


def _controller(given: Resources) -> controllers.Controller:
    follower = given.store.follower
    telemetry.metrics.SNAPSHOT_LAG.set_function(lambda: follower.lag_seconds)
    telemetry.metrics.SNAPSHOT_OFFSET.set_function(lambda: follower.snapshot.offset)
    reconciling = given.plugins.reconciles
    telemetry.metrics.statuses(kind for plugin in reconciling for kind in plugin.statuses)
    measuring = [plugin.name for plugin in given.plugins.measures]
    telemetry.metrics.plugins(
        wake=[plugin.name for plugin in given.plugins.wakes],
        reconcile=[plugin.name for plugin in reconciling],
        exceeded=[plugin.name for plugin in given.plugins.exceeds],
        measured=measuring,
        measure=measuring,
    )
    made = controllers.Controller(
        given.store,
        given.client,
        given.plugins,
        # As for the recorder: by then every bind has ended.
        old=given.settings.budgets.bind + binding.UNDER_WAY,
        elector=given.elector(given.settings.election.controller),
    )
    given.metrics.register(
        object_metrics.ObjectMetrics(
            given.plugins,
            lambda: follower.snapshot,
            lambda: made.leads,
            limit=given.settings.metrics.object_series,
        )
    )
    given.metrics.register(
        pending_metrics.PendingMetrics(given.plugins, lambda: follower.snapshot, lambda: made.leads)
    )
    return made


@main.command("compact")
@_CONFIG
@click.pass_obj
def compact_command(outer: str | None, config: str | None) -> None:
    """Take checkpoints, archive the log and trim it. One per cluster."""
    path = config or outer
    with (
        _settings("compactor", path) as chosen,
        _healthy(chosen, "compactor") as health,
        _opened(chosen, frozenset(), health) as store,
        contextlib.ExitStack() as stack,
    ):
        worker: Worker = compactors.Compactor(store, chosen.compaction)
        try:
            access = credentials.find(chosen.kube.kubeconfig or None, chosen.kube.context or None)
        except kube_errors.Misconfigured as problem:
            # It works without the API server, which it only asks whose log this is.
            telemetry.log.warning("cannot compare the cluster with that of the log", error=str(problem))
        else:
            client = stack.enter_context(contextlib.closing(clients.Client(access)))
            worker = stack.enter_context(_identified(worker, store, client))
        _run(chosen, store, worker, health)


@main.command("audit")
@_CONFIG
@click.pass_obj
def audit_command(outer: str | None, config: str | None) -> None:
    """Verify that counts, log and API server agree. One per cluster."""
    _work("auditor", config or outer, _auditor)


def _auditor(given: Resources) -> auditors.Auditor:
    return auditors.Auditor(given.store, given.client, given.settings.audit)


def _work(process: str, config: str | None, make: Factory, *, emptied: bool = False) -> None:
    """Run a worker that needs the API server and the plugins."""
    with _settings(process, config) as chosen:
        built = plugins.configured(chosen.plugins)
        telemetry.metrics.CONFIGURATION.labels(built.digest).set(1)
        access = credentials.find(chosen.kube.kubeconfig or None, chosen.kube.context or None)
        with (
            contextlib.closing(clients.Client(access)) as client,
            _healthy(chosen, process) as health,
            _opened(chosen, built.indexed(), health, emptied=emptied) as store,
        ):
            namespace = chosen.election.namespace or access.namespace
            worker = make(Resources(chosen, store, client, built, namespace, health.metrics))
            with _identified(worker, store, client) as identified:
                _run(chosen, store, identified, health, server=client.host)


@contextlib.contextmanager
def _identified(worker: Worker, store: stores.Store, client: clients.Client) -> Iterator[Worker]:
    """The worker, while the cluster of the client is compared with that of the log."""
    check = identity.IdentityCheck(store.log, cluster_identity.Identity(client).uid_if_known)
    check.start()
    try:
        yield _Identified(worker, check)
    finally:
        check.stop()


def _report_election(problem: str) -> None:
    if problem:
        telemetry.log.warning("cannot reach the leader-election lease", problem=problem)
    else:
        telemetry.log.info("leader election restored")


@contextlib.contextmanager
def _settings(process: str, config: str | None) -> Iterator[settings.Settings]:
    """The settings of the process; ends it with an exit code if the block raises a known error."""
    try:
        chosen = settings.load(config, os.environ)
        telemetry.configure(level=chosen.logging.level, form=chosen.logging.format, process=process)
        if not chosen.store.url:
            _fail(
                exit_codes.SETTINGS,
                "store.url is not set: name the Redis or Valkey server (TOPOLOG_STORE_URL)",
            )
        yield chosen
    except (settings.SettingsRefused, registry.ConfigurationRefused) as refused:
        _fail(exit_codes.SETTINGS, exit_codes.message(refused))
    except kube_errors.Misconfigured as problem:
        _fail(exit_codes.SETTINGS, str(problem))
    except store_errors.StoreError as problem:
        _fail(exit_codes.STORE, f"{type(problem).__name__}: {problem}")


class _Health:
    """The metrics and the checks of the health port: the problem of the store, then those of the worker."""

    def __init__(self, process: str) -> None:
        self.metrics = telemetry.metrics.registry_of(process, version=app.__version__, schema=keys.SCHEMA)
        self.checks: telemetry.readiness.Checks = lambda: {"store": "not reached yet"}

    def without_store(self, problem: str) -> None:
        """The store cannot be reached."""
        self.checks = lambda: {"store": problem}
        telemetry.log.warning("waiting for the store", error=problem)


@contextlib.contextmanager
def _healthy(chosen: settings.Settings, process: str) -> Iterator[_Health]:
    """Serve the health port and handle signals, before the store is connected."""
    health = _Health(process)
    for number in signals.ENDING:
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        listener = ports.open_port("server.health_port", chosen.server.bind, chosen.server.health_port)
    except serving_errors.PortTaken as taken:
        _fail(exit_codes.PORT_IN_USE, str(taken))
    except serving_errors.BadOptions as refused:
        _fail(exit_codes.SETTINGS, str(refused))
    ready = telemetry.readiness.Readiness(process, lambda: health.checks())
    with probe_server.serving(listener, probes.application(ready.measure, health.metrics)):
        ready.start()
        try:
            yield health
        finally:
            ready.stop()


@contextlib.contextmanager
def _opened(
    chosen: settings.Settings, indexed: frozenset[str], health: _Health, *, emptied: bool = False
) -> Iterator[stores.Store]:
    catalog = plugins.catalog()
    decoding.keep(catalog.annotations)
    store = stores.await_store(
        chosen.store,
        cluster=chosen.cluster,
        schema=catalog.schema,
        indexed=indexed,
        archive=chosen.compaction.archive,
        emptied=emptied,
        notify=health.without_store,
    )
    try:
        yield store
    finally:
        store.close()


def _run(
    chosen: settings.Settings, store: stores.Store, worker: Worker, health: _Health, **more: str
) -> None:
    signals.stopping(worker.stop)
    health.checks = partial(_checks, store, worker)
    available = availability.Availability(store.client)
    telemetry.metrics.STORE_UP.set_function(lambda: float(available.up))
    telemetry.metrics.LOG_HEAD.set_function(lambda: store.follower.head_seen or None)
    telemetry.log.info("started", cluster=chosen.cluster, **more)
    available.start()
    try:
        worker.run()
    finally:
        available.stop()
    telemetry.log.info("ended")


def _checks(store: stores.Store, worker: Worker) -> Mapping[str, str | None]:
    problems = [f"{name}: {problem}" for name, problem in telemetry.loops.problems().items()]
    return {**worker.checks(), "loops": "; ".join(problems) or None, "durability": store.durability.problem()}


def _fail(code: int, text: str) -> NoReturn:
    click.echo(f"topolog: {text}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
