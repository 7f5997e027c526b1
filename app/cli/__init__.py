"""The command ``topolog``: one command for each thing that people do, one for each process.

Commands are imported when they are called, so that ``topolog version`` does not wait for Redis,
Flask and the Kubernetes client to load. Exit codes mean something: see exits.
"""

import importlib

import click

from app.cli import exits

_COMMANDS = {
    "up": "supervising",
    "demo": "demonstrating",
    "record": "processes",
    "control": "processes",
    "compact": "processes",
    "audit": "processes",
    "extender": "processes",
    "certs": "certificates",
    "migrate": "migrating",
    "adopt": "adopting",
    "archive": "archiving",
    "doctor": "doctoring",
    "explain": "explaining",
    "get": "getting",
    "score": "scoring",
    "settings": "choosing",
    "version": "versions",
}
"""Command -> the module of this package that has a function ``COMMAND_command``."""


class Commands(click.Group):
    """The commands, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table, which is the order of first use."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if there is no such."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{_COMMANDS[cmd_name]}")
        found = getattr(module, f"{cmd_name}_command")
        return found if isinstance(found, click.Command) else None


@click.group(cls=Commands, epilog=exits.EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    metavar="FILE",
    envvar="TOPOLOG_CONFIG",
    type=click.Path(dir_okay=False),
    help="Settings file (YAML). TOPOLOG_* variables win over it; `topolog settings` lists them.",
)
@click.pass_context
def topolog(context: click.Context, config: str | None) -> None:
    """State store and extender for kube-scheduler.

    Try it:       topolog demo, or topolog score FILE

    One machine:  topolog up, beside a cluster that your kubeconfig reaches

    A cluster:    topolog record, control, compact, audit and extender, one process each

    Ask it:       topolog get, topolog explain
    """
    context.obj = config


def main() -> None:
    """Run a command and exit with its code."""
    exits.run(topolog)
