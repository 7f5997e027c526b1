"""The command line: one module per command, named as the command.

A command's module is imported when the command is called, so that ``topolog version``, the list of commands
and their completion do not wait for Redis, Flask and the Kubernetes client to load. The exit codes are
defined in ``app.exit_codes``.
"""

import importlib
import types

import click
from click import shell_completion

from app import __version__, exit_codes
from app.cli import exits
from app.cli.output import colours

_COMMANDS = types.MappingProxyType(
    {
        "up": "Run all processes on this machine, for an existing cluster.",
        "demo": "Run all components against a simulated cluster.",
        "record": "Record the cluster's changes in the log.",
        "control": "Wake pods, write statuses, and settle placements and evictions.",
        "compact": "Create checkpoints, archive the log and trim it.",
        "audit": "Check that counts, log and API server agree.",
        "extender": "Serve kube-scheduler and the introspection API.",
        "view": "Serve the dashboard, streams and heavy questions.",
        "certs": "Create a CA and the server and client certificates.",
        "bootstrap": "Create the certificates and passwords of a cluster, as Secrets.",
        "migrate": "Show or upgrade the store schema.",
        "adopt": "Let recorders write again after a restore of etcd.",
        "archive": "List, verify and export the archive of the log.",
        "status": "Show an installation on one screen.",
        "doctor": "Find out what is wrong, and print what fixes it.",
        "explain": "Explain why a pod was placed on its node, or why it is pending.",
        "get": "Show cluster state known to an extender.",
        "flags": "Set the debug flags: what is logged, never what is decided.",
        "simulate": "Show where pods would be placed in another situation.",
        "fit": "Show the smallest changes that would let a pod fit.",
        "diff": "Show what differs between two moments or situations.",
        "replay": "Show which recorded decisions would have been others.",
        "bisect": "Show since when a pod does not fit, a count is reached, or pods wait.",
        "shadow": "Compare every decision with an edit that is not enforced.",
        "watch": "Print the events of the log as they are appended.",
        "dashboard": "Open the dashboard in a browser.",
        "bundle": "Carry a stretch of the log away in one file, and show it elsewhere.",
        "score": "Filter and score the nodes of a JSON file.",
        "settings": "Show the settings, their values and meaning.",
        "completion": "Print the completion script of a shell.",
        "version": "Show the version of Topolog and Python.",
    }
)
"""Command -> what it does, in the order of first use. Module COMMAND defines ``COMMAND_command``."""
_FOLDERS = types.MappingProxyType(
    {
        **dict.fromkeys(("simulate", "fit", "diff", "replay", "bisect", "shadow"), "questions"),
        **dict.fromkeys(("view", "watch", "dashboard"), "viewer"),
        "bundle": "bundles",
        "get": "get",
    }
)
"""Command -> the folder of its module, if it is not beside this one."""


class Commands(click.Group):
    """A group that imports its commands on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of first use."""
        return list(_COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[shell_completion.CompletionItem]:
        """Return the commands, and options if it looks like one, that begin like this."""
        found = [
            shell_completion.CompletionItem(name, help=about)
            for name, about in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first argument. Raises UsageError, with a name that is like it."""
        if args[0] not in _COMMANDS and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            if near:
                raise click.UsageError(f"No such command {args[0]!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

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
@colours.option
@click.version_option(__version__, message="topolog %(version)s")
@click.pass_context
def topolog(context: click.Context, config: str | None) -> None:
    """State store and extender for kube-scheduler.

    \b
    Try it out:      topolog demo, or topolog score FILE
    On one machine:  topolog up, for the cluster of your kubeconfig
    In a cluster:    topolog record, control, compact, audit, extender
                     and view, as separate processes
    Inspect:         topolog status, dashboard, get, explain, diff, bisect
    What if:         topolog simulate, fit, replay, shadow
    Find a mistake:  topolog doctor all
    Report a bug:    topolog bundle create
    """
    context.obj = config


def main() -> None:
    """Run a command and exit with its code."""
    exits.run(topolog)
