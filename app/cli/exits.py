"""What an exit code of ``topolog`` means, and which error has which.

An error that a person can do something about is one line on standard error, without a traceback.
"""

import sys
from typing import Final, NoReturn

import click

from app import settings
from app.framework import registry

OK: Final = 0
NOT_SO: Final = 1
"""The command worked; the outcome is not the one asked for, or the object is not there."""
USAGE: Final = 2
SETTINGS: Final = 3
STORE: Final = 4
AWAY: Final = 5
"""The API server, or the extender that was asked, cannot be reached or refuses."""
TAKEN: Final = 6
"""A port is taken by another process."""
INTERRUPTED: Final = 130

EPILOG = """\b
Exit codes:
  0  done
  1  not so: an outcome is not as it should be, or the object does not exist
  2  wrong usage
  3  wrong settings or certificates
  4  the store is away (record, control, compact, audit and extender wait), or its schema is another
  5  the API server or the extender cannot be reached, or refuses
  6  the health port is taken by another process
"""


class Failed(click.ClickException):
    """A command cannot do its work; one line says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def show(self, file: object = None) -> None:
        """Write the line."""
        click.echo(f"topolog: {self.message}", err=True)


def run(command: click.Command) -> NoReturn:
    """Run the command line; never returns."""
    try:
        sys.exit(command.main(prog_name="topolog", standalone_mode=False) or OK)
    except Failed as error:
        error.show()
        sys.exit(error.code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except settings.SettingsRefused as error:
        _say("these settings cannot be followed:", *(f"  {problem}" for problem in error.problems))
        sys.exit(SETTINGS)
    except registry.ConfigurationRefused as error:
        _say(f"these plugins cannot be followed: {error}")
        sys.exit(SETTINGS)


def _say(*lines: str) -> None:
    click.echo(f"topolog: {lines[0]}", err=True)
    for line in lines[1:]:
        click.echo(line, err=True)
