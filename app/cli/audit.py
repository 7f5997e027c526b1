"""``topolog audit``: checks that counts, log and API server agree."""

import click

from app.cli import processes


@click.command("audit")
@click.pass_obj
def audit_command(config: str | None) -> None:
    """Continuously compare counts, log and API server; report differences and repair them.

    Run one per cluster. Requires store.url and access to the API server; audit.* sets how often it
    compares and whether it repairs. `topolog get consistency` shows its findings.
    """
    processes.exec_worker("audit", config)
