"""``topolog extender``: serves kube-scheduler and the introspection API from this process."""

from typing import NoReturn

import click

from app import settings, telemetry
from app.cli import exits, processes


@click.command("extender")
@click.option("--debug-scores", type=click.IntRange(0), metavar="N", help="Log the best N nodes of each pod.")
@click.option("--debug-filters", is_flag=True, help="Log why each node was refused.")
@click.pass_obj
def extender_command(config: str | None, debug_scores: int | None, debug_filters: bool) -> None:
    """Serve kube-scheduler's calls and the introspection API.

    Run as many replicas as needed over one store. Requires store.url, tls.* and access to the API server.
    """
    changes = {"TOPOLOG_DEBUG_SCORES": str(debug_scores)} if debug_scores is not None else {}
    if debug_filters:
        changes["TOPOLOG_DEBUG_FILTERS"] = "true"
    _serve(processes.load_settings(processes.environment(config, changes)))


def _serve(loaded: settings.Settings) -> NoReturn:
    """Serve until a signal ends the process; a failure to start becomes one sentence and an exit code."""
    # Flask, Redis and the Kubernetes client load only where they are used.
    from app import extender_process

    telemetry.configure(level=loaded.logging.level, form=loaded.logging.format, process="extender")
    with exits.of_serving():
        extender_process.serve(loaded)
