"""``topolog control``: acts on the cluster where the log calls for it."""

import click

from app.cli import processes


@click.command("control")
@click.pass_obj
def control_command(config: str | None) -> None:
    """Wake pods, write statuses, and settle placements and evictions.

    Pending pods are woken when capacity becomes available that kube-scheduler has no event for. Bindings
    without an outcome are fenced and their placements released, refusals are posted as Events, the statuses
    of policies, quotas and PodGroups are written, and pods are evicted for quotas if arguments request it.
    Run two or more per cluster: one replica is active, elected by a Lease; the others are on standby.
    Requires store.url and access to the API server.
    """
    processes.exec_worker("control", config)
