"""``topolog demo``: runs all components on one machine against a simulated cluster."""

import os

import click

from app import exit_codes, settings


@click.command("demo", short_help="Run all components against a simulated cluster.")
@click.option(
    "--keep", is_flag=True, help="Keep running at the end, to try the printed commands; stop with Ctrl-C."
)
@click.pass_obj
def demo_command(config: str | None, keep: bool) -> None:
    """Run an embedded store, a simulated cluster and scheduler, and an extender with real mTLS.

    Takes under two minutes and removes all its files. Exit code 1 if a result differs from the expected
    one.
    """
    from app.simulation import demo

    as_expected = demo.run(settings.load(config, os.environ), keep=keep)
    click.get_current_context().exit(exit_codes.OK if as_expected else exit_codes.NEGATIVE)
