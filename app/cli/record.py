"""``topolog record``: appends the cluster's changes to the log."""

import click

from app.cli import processes


@click.command("record")
@click.pass_obj
def record_command(config: str | None) -> None:
    """Watch the cluster and append every change to the log.

    Run two or more per cluster: one replica is active, elected by a Lease; the others are on standby.
    Requires store.url and access to the API server.
    """
    processes.exec_worker("record", config)
