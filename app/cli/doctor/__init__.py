"""``topolog doctor``: what is wrong with an installation, why it matters, and what fixes it."""

import click

from app.cli.doctor import all_areas, cluster, policies, run, scheduler, store, tls


@click.group("doctor")
def doctor_command() -> None:
    """Find out what is wrong with an installation: what was seen, why it matters, and what fixes it.

    Changes nothing (but `doctor store --repair-tail`), and prints no secrets: the output can be pasted into a
    bug report. Each check has a stable ID and one of four verdicts. problem: does harm, or cannot work.
    unsure: could not be seen, which is never ok. warning: works, with a risk or a cost. ok.

    Exit code 1 if a verdict is a problem or unsure; --fail-on changes that.
    """


for _command in (
    scheduler.scheduler_command,
    cluster.cluster_command,
    tls.tls_command,
    run.run_command,
    policies.policies_command,
    store.store_command,
    store.users_command,
    all_areas.all_command,
):
    doctor_command.add_command(_command)
