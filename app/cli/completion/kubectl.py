"""The same program as a plugin of kubectl: ``kubectl topolog``, and its completion.

kubectl runs ``kubectl-topolog``, and for a completion ``kubectl_complete-topolog`` with the words so far, the
last of them incomplete. The answer is that of cobra: a line for each word, and a number that ends it.
"""

import sys
from typing import Final

import click
from click import shell_completion

from app import cli
from app.cli import completion, exits

NAME: Final = "kubectl topolog"
_NO_FILES: Final = ":4"
"""ShellCompDirectiveNoFileComp: complete no names of files."""


def main() -> None:
    """Run a command as ``kubectl topolog``, and exit with its code."""
    exits.run(cli.topolog, NAME)


def complete() -> None:
    """Write the words that may follow those of the command line."""
    words = sys.argv[1:] or [""]
    shell = shell_completion.ShellComplete(cli.topolog, {}, NAME, completion.VARIABLE)
    for found in shell.get_completions(words[:-1], words[-1]):
        if found.type == "plain":
            click.echo(f"{found.value}\t{found.help}" if found.help else found.value)
    click.echo(_NO_FILES)
