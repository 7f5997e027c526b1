"""Ends the command line: each error has its exit code (app.exit_codes).

An error that an operator can fix is one line on standard error, without a traceback.
"""

import contextlib
import errno
import sys
from collections.abc import Iterator
from typing import NoReturn

import click

from app import exit_codes, settings
from app.cli.output import standard_error, standard_output
from app.framework import registry


class Failed(click.ClickException):
    """A command failed; the message is one line.

    ``temporary``: the server was unreachable or busy, and the same request may succeed later.
    """

    def __init__(self, code: int, message: str, *, temporary: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.temporary = temporary

    def show(self, file: object = None) -> None:
        """Write the line."""
        click.echo(f"topolog: {self.message}", err=True)


def not_listening(where: str, error: OSError) -> Failed:
    """The failure to listen, with the exit code of its cause; ``where``: as in ``port 8443``."""
    code = exit_codes.PORT_IN_USE if error.errno == errno.EADDRINUSE else exit_codes.SETTINGS
    return Failed(code, f"cannot listen on {where}: {error.strerror}")


@contextlib.contextmanager
def of_serving() -> Iterator[None]:
    """Raise Failed, with one sentence and its exit code, for a server that cannot start."""
    # They load with what a server needs, which other commands do without.
    from app.kube import errors as kube_errors
    from app.serving import errors as serving_errors
    from app.store import errors as store_errors

    try:
        yield
    except serving_errors.PortTaken as error:
        raise Failed(exit_codes.PORT_IN_USE, str(error)) from error
    except serving_errors.ServingError as error:
        raise Failed(exit_codes.SETTINGS, str(error)) from error
    except store_errors.StoreError as error:
        raise Failed(exit_codes.STORE, str(error)) from error
    except kube_errors.Misconfigured as error:
        raise Failed(exit_codes.SETTINGS, str(error)) from error
    except kube_errors.KubeError as error:
        raise Failed(exit_codes.UNREACHABLE, str(error)) from error


def run(command: click.Command, name: str = "topolog") -> NoReturn:
    """Run the command line; never returns. ``name``: as the help and errors of usage show it."""
    standard_output.guard()
    standard_error.guard()
    try:
        try:
            sys.exit(command.main(prog_name=name, standalone_mode=False) or exit_codes.OK)
        finally:
            sys.stdout.flush()
    except standard_output.Unwritten as unwritten:
        standard_output.discard()
        if unwritten.closed:
            sys.exit(exit_codes.OUTPUT_CLOSED)
        Failed(exit_codes.OUTPUT_LOST, f"cannot write the output: {unwritten}").show()
        sys.exit(exit_codes.OUTPUT_LOST)
    except Failed as error:
        error.show()
        sys.exit(error.code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(exit_codes.INTERRUPTED)
    except (settings.SettingsRefused, registry.ConfigurationRefused) as error:
        Failed(exit_codes.SETTINGS, exit_codes.message(error)).show()
        sys.exit(exit_codes.SETTINGS)
