"""``topolog view``: serves the dashboard, streams and heavy questions from this process."""

from typing import NoReturn

import click

from app import settings, telemetry
from app.cli import exits, processes
from app.serving import priority


@click.command("view")
@click.pass_obj
def view_command(config: str | None) -> None:
    """Serve the dashboard and the introspection API with its heavy routes and streams.

    It only reads the store, at a low priority, and is not needed for scheduling. Requires store.url and
    tls.*; view.port is its port.
    """
    loaded = processes.load_settings(processes.environment(config, {}))
    # Before the server is imported, which takes longer than many calls of the verbs beside it.
    priority.lower(loaded.view.nice, idle=loaded.view.idle)
    _serve(loaded)


def _serve(loaded: settings.Settings) -> NoReturn:
    """Serve until a signal ends the process; a failure to start becomes one sentence and an exit code."""
    # Flask, Redis and the Kubernetes client load only where they are used.
    from app import view_process

    telemetry.configure(level=loaded.logging.level, form=loaded.logging.format, process="view")
    with exits.of_serving():
        view_process.serve(loaded)
