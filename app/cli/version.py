"""``topolog version``: shows the version."""

import platform

import click

import app
from app.cli.output import formats


@click.command("version")
@formats.option()
def version_command(output: str) -> None:
    """Show the version of Topolog and Python."""
    facts = {"topolog": app.__version__, "python": platform.python_version()}
    if formats.is_document(output):
        formats.show_document(facts, output)
    else:
        click.echo(f"topolog {facts['topolog']} (Python {facts['python']})")
