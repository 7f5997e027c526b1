"""The command line: one module per command, named as the command.

A command's module is imported when the command is called, so that ``topolog version`` does not wait for
Redis, Flask and the Kubernetes client to load. The exit codes are defined in ``exits``.
"""

import importlib
import types

import click

from app import __version__, exit_codes
from app.cli import exits

_COMMANDS = (
    "up",
    "demo",
    "record",
    "control",
    "compact",
    "audit",
    "extender",
    "view",
    "certs",
    "bootstrap",
    "migrate",
    "adopt",
    "archive",
    "status",
    "doctor",
    "explain",
    "get",
    "flags",
    "simulate",
    "fit",
    "diff",
    "replay",
    "bisect",
    "shadow",
    "watch",
    "dashboard",
    "bundle",
    "score",
    "settings",
    "completion",
    "version",
)
"""In the order of first use. Module COMMAND defines ``COMMAND_command``."""
_FOLDERS = types.MappingProxyType(
    {
        **dict.fromkeys(("simulate", "fit", "diff", "replay", "bisect", "shadow"), "questions"),
        **dict.fromkeys(("view", "watch", "dashboard"), "viewing"),
        "bundle": "bundles",
        "get": "getting",
    }
)
"""Command -> the folder of its module, if it is not beside this one."""


class Commands(click.Group):
    """A group that imports its commands on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of first use."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if it does not exist."""
        if cmd_name not in _COMMANDS:
            return None
        folder = f"{__name__}.{_FOLDERS[cmd_name]}" if cmd_name in _FOLDERS else __name__
        command = getattr(importlib.import_module(f"{folder}.{cmd_name}"), f"{cmd_name}_command")
        return command if isinstance(command, click.Command) else None


@click.group(cls=Commands, epilog=exit_codes.EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    metavar="FILE",
    envvar="TOPOLOG_CONFIG",
    type=click.Path(dir_okay=False),
    help="Settings file (YAML). TOPOLOG_* variables override it; `topolog settings` lists them.",
)
@click.version_option(__version__, message="topolog %(version)s")
@click.pass_context
def topolog(context: click.Context, config: str | None) -> None:
    """State store and extender for kube-scheduler.

    Try it out:       topolog demo, or topolog score FILE

    On one machine:   topolog up, for the cluster of your kubeconfig

    In a cluster:     topolog record, control, compact, audit, extender and view, as separate processes

    Inspect:          topolog status, topolog dashboard, topolog get, topolog explain
                      topolog diff, topolog bisect

    What if:          topolog simulate, topolog fit, topolog replay, topolog shadow

    Report a bug:     topolog bundle
    """
    context.obj = config


def main() -> None:
    """Run a command and exit with its code."""
    exits.run(topolog)
