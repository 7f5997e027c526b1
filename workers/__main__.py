"""``python -m workers record|control|compact|audit``: one process each, until a signal ends it.

Exit codes: 0 ended by a signal; 3 wrong settings; 4 the store's schema is another or its history does
not hold; 5 the API server cannot be reached as configured; 6 the health port is taken by another process. A
store that is away is waited for. A process that another one has overtaken does not end: it stands by.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, NoReturn, Protocol

import click

from app import plugins, settings, telemetry
from app.framework import configuring, registry
from app.kube import accessing, clients, decoding, electing
from app.kube import errors as kube_errors
from app.serving import errors as serving_errors
from app.serving import ports
from app.store import errors as store_errors
from app.store import opening
from workers import auditing, compacting, controlling, doubting, probing, recording, signals

SETTINGS: Final = 3
STORE: Final = 4
AWAY: Final = 5
TAKEN: Final = 6


class Worker(Protocol):
    """What a process runs."""

    def run(self) -> None:
        """Work until stopped."""
        ...

    def stop(self) -> None:
        """Let ``run`` return soon."""
        ...

    def checks(self) -> Mapping[str, str | None]:
        """What readiness depends on."""
        ...


class Given(NamedTuple):
    """What a worker is made from."""

    settings: settings.Settings
    store: opening.Store
    client: clients.Client
    plugins: registry.Registry
    namespace: str
    """Of the Leases."""

    def elector(self, name: str) -> electing.Elector:
        """A candidate for the Lease of this name."""
        election = self.settings.election
        terms = electing.Terms(lease=election.lease, renew=election.renew, retry=election.retry)
        return electing.Elector(self.client, self.namespace, name, terms=terms, tell=_tell_of_the_lease)


Make = Callable[[Given], Worker]


@click.group()
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML). [TOPOLOG_CONFIG]"
)
@click.pass_context
def main(context: click.Context, config: str | None) -> None:
    """The processes beside the extender."""
    context.obj = config


@main.command("record")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML).")
@click.pass_obj
def record_command(outer: str | None, config: str | None) -> None:
    """Watch the cluster and append every fact to the log; one does, others stand by."""
    sys.setswitchinterval(recording.HANDOVER)
    # It may be the one that knows the store to have held more than it does.
    _work("recorder", config or outer, _recorder, emptied=True)


@main.command("control")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML).")
@click.pass_obj
def control_command(outer: str | None, config: str | None) -> None:
    """Wake pending pods, take back promises that nobody kept, tell people; one does, others stand by."""
    _work("controller", config or outer, _controller)


def _recorder(given: Given) -> recording.Recorder:
    return recording.Recorder(
        given.store.log,
        given.store.follower,
        given.client,
        elector=given.elector(given.settings.election.recorder),
        # No Binding is under way longer than the time for a bind and what the API server may take.
        settle=given.settings.budgets.bind + doubting.UNDER_WAY,
    )


def _controller(given: Given) -> controlling.Controller:
    elector = given.elector(given.settings.election.controller)
    return controlling.Controller(given.store, given.client, given.plugins, elector=elector)


@main.command("compact")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML).")
@click.pass_obj
def compact_command(outer: str | None, config: str | None) -> None:
    """Make checkpoints, archive the log and trim it. One per cluster."""
    path = config or outer
    with (
        _told("compactor", path) as chosen,
        _healthy(chosen) as health,
        _opened(chosen, frozenset(), health) as store,
    ):
        _run(chosen, store, compacting.Compactor(store, chosen.compaction), health)


@main.command("audit")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML).")
@click.pass_obj
def audit_command(outer: str | None, config: str | None) -> None:
    """See that counts, log and API server agree. One per cluster."""
    _work("auditor", config or outer, _auditor)


def _auditor(given: Given) -> auditing.Auditor:
    return auditing.Auditor(given.store, given.client, given.settings.audit)


def _work(process: str, config: str | None, make: Make, *, emptied: bool = False) -> None:
    """Run a worker that needs the API server and the plugins."""
    with _told(process, config) as chosen:
        built = configuring.build(
            plugins.IN_TREE,
            enabled=chosen.plugins.enabled,
            weights=chosen.plugins.weights,
            score_max=chosen.plugins.score_max,
            args=chosen.plugins.args,
        )
        decoding.keep(built.annotations())
        access = accessing.find(chosen.kube.kubeconfig or None, chosen.kube.context or None)
        with (
            contextlib.closing(clients.Client(access)) as client,
            _healthy(chosen) as health,
            _opened(chosen, built.indexed(), health, emptied=emptied) as store,
        ):
            namespace = chosen.election.namespace or access.namespace
            worker = make(Given(chosen, store, client, built, namespace))
            _run(chosen, store, worker, health, server=client.host)


def _tell_of_the_lease(trouble: str) -> None:
    if trouble:
        telemetry.log.warning("no part in the election", trouble=trouble)
    else:
        telemetry.log.info("takes part in the election again")


@contextlib.contextmanager
def _told(process: str, config: str | None) -> Iterator[settings.Settings]:
    """The settings, and an exit code for everything that may go wrong under them."""
    try:
        chosen = settings.load(config, os.environ)
        telemetry.configure(level=chosen.logging.level, form=chosen.logging.format, process=process)
        if not chosen.store.url:
            _fail(SETTINGS, "store.url is not set: name the Redis or Valkey server (TOPOLOG_STORE_URL)")
        yield chosen
    except settings.SettingsRefused as refused:
        _fail(SETTINGS, "these settings cannot be followed: " + "; ".join(map(str, refused.problems)))
    except registry.ConfigurationRefused as refused:
        _fail(SETTINGS, f"these plugins cannot be followed: {refused}")
    except kube_errors.Misconfigured as problem:
        _fail(AWAY, str(problem))
    except store_errors.StoreError as problem:
        _fail(STORE, f"{type(problem).__name__}: {problem}")


class _Health:
    """What the health port says: why there is no store yet, then what the worker says."""

    def __init__(self) -> None:
        self.checks: probing.Checks = lambda: {"store": "not reached yet"}

    def without_store(self, trouble: str) -> None:
        """The store cannot be reached."""
        self.checks = lambda: {"store": trouble}
        telemetry.log.warning("waits for the store", error=trouble)


@contextlib.contextmanager
def _healthy(chosen: settings.Settings) -> Iterator[_Health]:
    """Serve the health port, and end by a signal, from before there is anything that could work."""
    health = _Health()
    for number in signals.ENDING:
        signal.signal(number, lambda *_: sys.exit(0))
    host, port = chosen.server.bind, chosen.server.health_port
    with contextlib.ExitStack() as stack:
        place = f"server.health_port {host}:{port}"
        try:
            ports.opened(
                lambda: stack.enter_context(probing.serving(host, port, lambda: health.checks())), place
            )
        except serving_errors.PortTaken as taken:
            _fail(TAKEN, str(taken))
        except OSError as problem:
            _fail(SETTINGS, f"cannot listen on {place}: {problem}")
        yield health


@contextlib.contextmanager
def _opened(
    chosen: settings.Settings, indexed: frozenset[str], health: _Health, *, emptied: bool = False
) -> Iterator[opening.Store]:
    store = opening.await_store(
        chosen.store,
        cluster=chosen.cluster,
        indexed=indexed,
        archive=chosen.compaction.archive,
        emptied=emptied,
        tell=health.without_store,
    )
    try:
        yield store
    finally:
        store.close()


def _run(
    chosen: settings.Settings, store: opening.Store, worker: Worker, health: _Health, **more: str
) -> None:
    signals.stopping(worker.stop)
    health.checks = partial(_checks, store, worker)
    telemetry.log.info("started", cluster=chosen.cluster, **more)
    worker.run()
    telemetry.log.info("ended")


def _checks(store: opening.Store, worker: Worker) -> Mapping[str, str | None]:
    troubles = [f"{name}: {trouble}" for name, trouble in telemetry.loops.troubles().items()]
    return {**worker.checks(), "loops": "; ".join(troubles) or None, "keeping": store.vetting.trouble()}


def _fail(code: int, text: str) -> NoReturn:
    click.echo(f"topolog: {text}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
