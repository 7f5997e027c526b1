"""``python -m workers record|control``: one process each, until a signal ends it.

Exit codes: 0 ended by a signal; 3 wrong settings; 4 the store is away or its history does not hold;
5 the API server cannot be reached as configured; 6 another recorder has taken over.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NoReturn, Protocol

import click

from app import plugins, settings, telemetry
from app.framework import configuring, registry
from app.kube import accessing, clients
from app.kube import errors as kube_errors
from app.store import errors as store_errors
from app.store import opening
from workers import controlling, probing, recording

SETTINGS: Final = 3
STORE: Final = 4
AWAY: Final = 5
FENCED: Final = 6


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


Make = Callable[[opening.Store, clients.Client, registry.Registry], Worker]


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
    """Watch the cluster and append every fact to the log. One per cluster."""
    _work(
        "recorder",
        config or outer,
        lambda store, client, _: recording.Recorder(store.log, store.follower, client),
    )


@main.command("control")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="Settings file (YAML).")
@click.pass_obj
def control_command(outer: str | None, config: str | None) -> None:
    """Wake pending pods, take back promises that nobody kept, tell people. One per cluster."""
    _work("controller", config or outer, controlling.Controller)


def _work(process: str, config: str | None, make: Make) -> NoReturn:
    try:
        chosen = settings.load(config, os.environ)
        telemetry.configure(level=chosen.logging.level, form=chosen.logging.format, process=process)
        _serve(chosen, make)
    except settings.SettingsRefused as refused:
        _fail(SETTINGS, "these settings cannot be followed: " + "; ".join(map(str, refused.problems)))
    except registry.ConfigurationRefused as refused:
        _fail(SETTINGS, f"these plugins cannot be followed: {refused}")
    except kube_errors.Misconfigured as problem:
        _fail(AWAY, str(problem))
    except store_errors.Fenced as fenced:
        _fail(FENCED, f"another recorder has taken over, this one stops: {fenced}")
    except store_errors.StoreError as problem:
        _fail(STORE, f"{type(problem).__name__}: {problem}")
    sys.exit(0)


def _serve(chosen: settings.Settings, make: Make) -> None:
    if not chosen.store.url:
        _fail(SETTINGS, "store.url is not set: name the Redis or Valkey server (TOPOLOG_STORE_URL)")
    built = configuring.build(
        plugins.IN_TREE,
        enabled=chosen.plugins.enabled,
        weights=chosen.plugins.weights,
        score_max=chosen.plugins.score_max,
        args=chosen.plugins.args,
    )
    client = clients.Client(accessing.find(chosen.kube.kubeconfig or None, chosen.kube.context or None))
    store = opening.open_store(chosen.store, cluster=chosen.cluster, indexed=built.indexed())
    try:
        worker = make(store, client, built)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: worker.stop())
        with contextlib.ExitStack() as health:
            try:
                host, port = chosen.server.bind, chosen.server.health_port
                health.enter_context(probing.serving(host, port, partial(_checks, store, worker)))
            except OSError as problem:
                _fail(SETTINGS, f"cannot listen on server.health_port {host}:{port}: {problem}")
            telemetry.log.info("started", cluster=chosen.cluster, server=client.host)
            worker.run()
        telemetry.log.info("ended")
    finally:
        store.close()
        client.close()


def _checks(store: opening.Store, worker: Worker) -> Mapping[str, str | None]:
    return {**worker.checks(), "keeping": store.vetting.trouble()}


def _fail(code: int, text: str) -> NoReturn:
    click.echo(f"topolog: {text}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
