"""``topolog version``: shows the version."""

import json
import platform

import click

import app
from app.cli import tables


@click.command("version")
@tables.output_option
def version_command(output: str) -> None:
    """Show the version of Topolog and Python."""
    facts = {"topolog": app.__version__, "python": platform.python_version()}
    if output == tables.JSON:
        click.echo(json.dumps(facts))
    else:
        click.echo(f"topolog {facts['topolog']} (Python {facts['python']})")
