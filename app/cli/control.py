"""``topolog control``: wakes pending pods when capacity becomes available."""

import click

from app.cli import processes


@click.command("control")
@click.pass_obj
def control_command(config: str | None) -> None:
    """Wake pending pods when capacity becomes available that kube-scheduler has no event for.

    Run two or more per cluster: one replica is active, elected by a Lease; the others are on standby.
    Requires store.url and access to the API server.
    """
    processes.exec_worker("control", config)
