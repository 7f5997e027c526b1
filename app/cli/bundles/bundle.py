"""``topolog bundle``: makes, verifies, describes and opens bundles."""

import os
import pathlib
import signal
import sys
import urllib.parse
import webbrowser
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from app import exit_codes, telemetry
from app.cli import exits
from app.cli.bundles import name_tables
from app.cli.client import api_client, moment_option
from app.cli.completion import items
from app.cli.output import formats, progress, tables

if TYPE_CHECKING:
    from app.cli.viewer import proxies
    from app.store.bundles import bundle_reader

_SILENCE: Final = 180.0
"""Seconds without a byte: reading a member of a large cluster takes some, and may have to wait its turn."""
_MIB: Final = 1024 * 1024

_output = click.option(
    "-o",
    "--output",
    "file",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="The file to write; it must not exist.",
)


@click.group("bundle")
def bundle_command() -> None:
    """Make, verify, describe and open bundles.

    A bundle holds the state at the start of a stretch of the log, its events and decisions, the
    auditor's report, and the settings without secrets.
    """


@bundle_command.command("create", short_help="Write a bundle of a stretch of the log.")
@click.option(
    "--around", type=items.POD, metavar="NS/POD", help="The minutes around what last happened to this pod."
)
@click.option("--at", type=moment_option.STRETCH, help="The minutes around this moment.")
@click.option(
    "--minutes", type=click.IntRange(1), metavar="N", help="Minutes before and after it.  [default: 10]"
)
@click.option("--from", "first", type=moment_option.STRETCH, help="The oldest moment, instead of minutes.")
@click.option("--to", "last", type=moment_option.STRETCH, help="The latest moment.  [default: now]")
@_output
@click.option(
    "--pseudonyms",
    is_flag=True,
    help="Put pseudonyms in place of all names, and write the names beside it: to a.names.json for a.tar.",
)
@api_client.server_options
@click.pass_obj
def create_command(
    config: str | None,
    /,
    around: str | None,
    at: str | None,
    minutes: int | None,
    first: str | None,
    last: str | None,
    file: pathlib.Path,
    pseudonyms: bool,
    **options: str | None,
) -> None:
    """Write a bundle of a stretch of the log, by default of the last ten minutes.

    Asks `topolog view` (client.view_url), role viewer. The file is verified before it gets its name; on an
    error nothing is left.
    """
    given = {"around": around, "at": at, "minutes": minutes, "from": first, "to": last}
    query = urllib.parse.urlencode({name: value for name, value in given.items() if value is not None})
    client = api_client.view(config, options)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    if file.exists():
        raise exits.Failed(exit_codes.USAGE, f"{file} exists: choose another name")
    try:
        _receive(client, query, partial)
        contents = _verified(partial)
        if pseudonyms:
            name_tables.replaced(partial, file)
            contents = _verified(file)
        else:
            partial.rename(file)
    except OSError as error:
        raise exits.Failed(exit_codes.USAGE, f"cannot write {file}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    names = f"; names in {name_tables.beside(file)}" if pseudonyms else ""
    click.echo(f"{file}: {_sentence(contents)}, {file.stat().st_size / _MIB:.1f} MiB{names}")


@bundle_command.command("pseudonymize")
@click.argument("source", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@_output
def pseudonymize_command(source: pathlib.Path, file: pathlib.Path) -> None:
    """Write a bundle again with pseudonyms in place of all names.

    The names are written beside it, to a.names.json for a.tar, which only this user can read. Keep that
    file: it puts the names back into what is written about the bundle.
    """
    name_tables.replaced(source, file)
    click.echo(f"{file}: {_sentence(_verified(file))}; names in {name_tables.beside(file)}")


@bundle_command.command("translate", short_help="Put names in place of pseudonyms.")
@click.option(
    "--names",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    help="The names that were written beside the bundle.",
)
def translate_command(names: pathlib.Path) -> None:
    """Copy the standard input, with the names in place of their pseudonyms.

    Exit code 1 if the text has pseudonyms of another bundle; they stay.
    """
    name_tables.translate(names, sys.stdin, sys.stdout)


@bundle_command.command("verify")
@click.argument("file", type=click.Path(dir_okay=False, path_type=pathlib.Path))
def verify_command(file: pathlib.Path) -> None:
    """Verify that a bundle is complete and as it was made.

    Reads all of it and writes nothing. Exit code 1 if it is damaged, with the name of the member.
    """
    click.echo(f"{file}: {_sentence(_verified(file))}; complete and undamaged")


@bundle_command.command("inspect")
@click.argument("file", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@formats.option()
def inspect_command(file: pathlib.Path, output: str) -> None:
    """Show what a bundle holds; it is verified first."""
    from app.api.introspection import times

    contents = _verified(file)
    about = contents.about

    def when(at_ms: int) -> str:
        return times.rfc3339(at_ms / 1000) if at_ms else ""

    shown = {
        "cluster": about.cluster,
        "topolog": about.topolog,
        "incarnation": about.incarnation,
        "first": about.first,
        "last": about.last,
        "from": when(about.first_ms),
        "to": when(about.last_ms),
        "created": when(about.created_ms),
        "by": about.by,
        "around": about.around,
        "pseudonyms": about.pseudonyms,
        "events": contents.events,
        "decisions": contents.decisions,
    }
    members = [{"name": one.name, "bytes": one.size, "sha256": one.sha256} for one in contents.members]
    if formats.is_document(output):
        formats.show_document({**shown, "members": members}, output)
        return
    tables.show(["FIELD", "VALUE"], [[name, value] for name, value in shown.items()])
    tables.show(["MEMBER", "BYTES", "SHA256"], [list(member.values()) for member in members])


@bundle_command.command("open", short_help="Show a bundle as `topolog view` shows a cluster.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port of the page; 0: any free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def open_command(file: pathlib.Path, port: int, no_browser: bool) -> None:
    """Show a bundle as `topolog view` shows a cluster; stop with Ctrl-C.

    It is verified, and loaded into a server of its own on this machine. Nothing of the settings of this
    machine is used, and no cluster is reached.
    """
    from app.cli.bundles import bundle_viewer

    telemetry.configure(level="warning", form="auto", process="bundle")
    # A shell ignores SIGINT for what it starts in the background, and Python keeps that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with (
            _read(file) as bundle,
            bundle_viewer.opened(bundle, note=_note) as shown,
            _listening(shown.client, port) as proxy,
        ):
            address = proxy.address("/dashboard/")
            click.echo(f"{file}: {_sentence(shown.contents)}")
            click.echo(f"  dashboard:  {address}")
            click.echo(f"  commands:   . {shown.environment}; topolog get nodes")
            click.echo("Press Ctrl-C to stop.")
            sys.stdout.flush()
            if not no_browser:
                webbrowser.open(address)
            proxy.serve_forever()
    except KeyboardInterrupt:
        return


def _listening(client: api_client.ExtenderClient, port: int) -> "proxies.Proxy":
    from app.cli.viewer import proxies

    try:
        return proxies.Proxy(client, port)
    except OSError as error:
        raise exits.not_listening(f"port {port}", error) from error


def _receive(client: api_client.ExtenderClient, query: str, file: pathlib.Path) -> None:
    from app.store.bundles import layout

    size, path = 0, "/apis/v1/export"
    headers = {"Accept": "application/x-tar"}
    with (
        progress.shown("waiting for the bundle") as line,
        file.open("xb") as out,
        client.stream("GET", f"{path}?{query}", headers=headers, silence=_SILENCE) as reply,
    ):
        if reply.status != 200:
            raise client.failure(reply.status, reply.data, path)
        while piece := reply.read1():
            size += len(piece)
            if size > layout.MOST_BYTES + _MIB:
                raise exits.Failed(exit_codes.UNREACHABLE, f"{client.client.url} sends too much")
            _write(out, piece)
            line.text = f"received {size / _MIB:.1f} MiB"


def _write(out: BinaryIO, piece: bytes) -> None:
    try:
        out.write(piece)
        out.flush()
    except OSError as error:
        # Inside of the connection it would count as an error of that.
        raise exits.Failed(exit_codes.USAGE, f"cannot write {out.name}: {error.strerror}") from error


def _read(file: pathlib.Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise exits.Failed(exit_codes.USAGE, f"cannot read {file}: {error.strerror}") from error


def _verified(file: pathlib.Path) -> "bundle_reader.Contents":
    from app.store.bundles import bundle_reader

    with _read(file) as opened:
        try:
            return bundle_reader.read(opened)
        except bundle_reader.Damaged as damaged:
            raise exits.Failed(exit_codes.NEGATIVE, f"{file}: {damaged}") from damaged
        except OSError as error:
            raise exits.Failed(exit_codes.USAGE, f"cannot read {file}: {error.strerror}") from error


def _sentence(contents: "bundle_reader.Contents") -> str:
    about = contents.about
    return (
        f"cluster {about.cluster}, offsets {about.first} to {about.last}, {contents.events} events,"
        f" {contents.decisions} decisions"
    )


def _note(line: str) -> None:
    click.echo(f"topolog: {line}", err=True)
