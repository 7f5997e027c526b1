"""``topolog view``: serves the dashboard, streams and heavy questions from this process."""

from typing import NoReturn

import click

from app import exit_codes, settings, telemetry
from app.cli import exits, processes


@click.command("view", short_help="Serve the dashboard, streams and heavy questions.")
@click.pass_obj
def view_command(config: str | None) -> None:
    """Serve the dashboard and the introspection API with its heavy routes and streams.

    It only reads the store, at a low priority, and is not needed for scheduling. Requires store.url and
    tls.*; view.port is its port.
    """
    _serve(processes.load_settings(processes.environment(config, {})))


def _serve(loaded: settings.Settings) -> NoReturn:
    """Serve until a signal ends the process; a failure to start becomes one sentence and an exit code."""
    # Flask, Redis and the Kubernetes client load only where they are used.
    from app import viewing
    from app.serving import errors as serving_errors
    from app.store import errors as store_errors

    telemetry.configure(level=loaded.logging.level, form=loaded.logging.format, process="view")
    try:
        viewing.serve(loaded)
    except serving_errors.PortTaken as error:
        raise exits.Failed(exit_codes.PORT_IN_USE, str(error)) from error
    except serving_errors.ServingError as error:
        raise exits.Failed(exit_codes.SETTINGS, str(error)) from error
    except store_errors.StoreError as error:
        raise exits.Failed(exit_codes.STORE, str(error)) from error
