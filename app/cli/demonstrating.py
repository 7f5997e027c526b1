"""``topolog demo``: everything at work on one machine, without a cluster."""

import os

import click

from app import settings
from app.cli import exits


@click.command("demo", short_help="Show it all at work, without a cluster.")
@click.option(
    "--keep", is_flag=True, help="Leave it running at the end, to try the printed commands; Ctrl-C ends it."
)
@click.pass_obj
def demo_command(config: str | None, keep: bool) -> None:
    """Show it all at work: an embedded store, a simulated cluster and scheduler, real mTLS.

    Takes under two minutes and leaves nothing behind. Exit code 1 if an outcome is not what the
    scene says.
    """
    from app.simulation import demo

    as_it_should_be = demo.run(settings.load(config, os.environ), keep=keep)
    click.get_current_context().exit(exits.OK if as_it_should_be else exits.NOT_SO)
