"""``topolog compact``: bounds the log's size and keeps its history readable."""

import click

from app.cli import processes


@click.command("compact")
@click.pass_obj
def compact_command(config: str | None) -> None:
    """Create checkpoints, archive the log and trim it.

    Run one per cluster. Requires store.url; compaction.* sets how much of the log is kept and where the
    archive is. With credentials of the API server (kube.*) it leaves the log of another cluster alone.
    """
    processes.exec_worker("compact", config)
