"""``topolog archive``: lists, verifies and exports the archive of the log."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from app import exit_codes, settings
from app.cli import exits
from app.cli.output import formats, progress, tables

if TYPE_CHECKING:
    from app.store.checkpoints import archive_files, archives


@click.group("archive")
def archive_command() -> None:
    """List, verify and export the archive of the log (compaction.archive).

    Needs neither store nor cluster. The files are gzip-compressed JSON lines, which zcat, jq and sha256sum
    can also read and verify.
    """


@contextlib.contextmanager
def _reachable() -> Iterator[None]:
    from app.store import errors

    try:
        yield
    except errors.ArchiveAway as away:
        raise exits.Failed(exit_codes.UNREACHABLE, str(away)) from away


_directory = click.option(
    "--directory",
    metavar="DIR",
    help="Directory of the archive, or its URL (s3://, gs://, az://). [compaction.archive]",
)


@archive_command.command("ls")
@_directory
@formats.option()
@click.pass_obj
@_reachable()
def ls_command(config: str | None, directory: str | None, output: str) -> None:
    """List the files in the cluster's archive by offset."""
    archive = _archive(config, directory)
    rows = [
        {
            "kind": file.kind,
            "incarnation": file.incarnation,
            "first": file.first,
            "last": file.last,
            "bytes": archive.size(file),
            "file": file.name,
        }
        for file in archive.files()
    ]
    if formats.is_document(output):
        formats.show_document(rows, output)
    else:
        heads = ["kind", "incarnation", "first", "last", "bytes", "file"]
        cells = [[row[head] for head in heads] for row in rows]
        tables.show([head.upper() for head in heads], cells, empty=_empty(archive))


@archive_command.command("verify")
@_directory
@formats.option()
@click.pass_obj
@_reachable()
def verify_command(config: str | None, directory: str | None, output: str) -> None:
    """Verify the checksum of every file and that no offset is missing.

    Exit code 1 if a problem is found, or no file.
    """
    from app.store import errors

    archive = _archive(config, directory)
    problems: list[str] = []
    files = archive.files()
    with progress.shown(f"verifying {archive.storage}") as line:
        for number, file in enumerate(files, 1):
            line.text = f"verifying {archive.storage}: {number} of {len(files)} files"
            try:
                archive.prove(file)
            except errors.Damaged as error:
                problems.append(str(error))
    problems += _missing(files)
    if formats.is_document(output):
        report = {"folder": str(archive.storage), "files": len(files), "problems": problems}
        formats.show_document(report, output)
    else:
        click.echo(f"{archive.storage}: {len(files)} files, {len(problems)} problems")
        for problem in problems:
            click.echo(f"  {problem}")
    if not files:
        # A job that verifies a mistyped place must not pass.
        raise exits.Failed(exit_codes.NEGATIVE, _empty(archive))
    if problems:
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _missing(files: Sequence["archive_files.File"]) -> list[str]:
    """The offsets that no segment has: of each incarnation, and of what the newest one continues."""
    from app.store.checkpoints import archive_files

    segments = [file for file in files if file.kind == "segment"]
    incarnations = sorted({file.incarnation for file in segments})
    runs = [[file for file in segments if file.incarnation == own] for own in incarnations]
    runs += [archive_files.history(files, own, "segment") for own in incarnations[-1:]]
    gaps = dict.fromkeys(gap for run in runs for gap in archive_files.missing(run))
    return [f"offsets {first} to {last} of {own} are missing" for first, last, own in gaps]


@archive_command.command("export")
@_directory
@click.option(
    "--from",
    "since",
    type=click.IntRange(1),
    metavar="OFFSET",
    help="First event.  [default: the oldest archived]",
)
@click.option(
    "--to",
    "until",
    type=click.IntRange(1),
    metavar="OFFSET",
    help="Last event.  [default: the newest archived]",
)
@click.option(
    "--incarnation", metavar="NAME", help="Incarnation of the log.  [default: the latest that is archived]"
)
@click.pass_obj
@_reachable()
def export_command(
    config: str | None,
    directory: str | None,
    since: int | None,
    until: int | None,
    incarnation: str | None,
) -> None:
    """Export archived events as JSON lines, oldest first.

    Writes to standard output and verifies every segment. Ends with exit code 1 at the first offset that is
    not in the archive.
    """
    from app.store import errors
    from app.store.checkpoints import archive_files, archives

    archive = _archive(config, directory)
    files = archive.files()
    segments = [file for file in files if file.kind == "segment"]
    if not segments:
        raise exits.Failed(exit_codes.NEGATIVE, _empty(archive))
    known = sorted({file.incarnation for file in segments})
    if incarnation is not None and incarnation not in known:
        names = ", ".join(known)
        raise exits.Failed(
            exit_codes.NEGATIVE, f"{archive.storage} has no incarnation {incarnation}; it has {names}"
        )
    # Ids sort by their start time, which a restored archive keeps, unlike the times of its files.
    history = archive_files.history(files, incarnation or known[-1], "segment")
    exported = (since or min(file.first for file in history)) - 1
    last = until or max(history[-1].last, exported + 1)
    try:
        for file in history:
            if file.last <= exported or file.first > min(last, exported + 1):
                continue
            for raw in archive.raws(file.name):
                if exported < raw.offset <= min(file.last, last):
                    sys.stdout.buffer.write(archives.line(raw))
            exported = min(file.last, last)
    except errors.Damaged as error:
        raise exits.Failed(exit_codes.NEGATIVE, str(error)) from error
    sys.stdout.buffer.flush()
    if exported < last:
        raise exits.Failed(exit_codes.NEGATIVE, f"offset {exported + 1} is not in {archive.storage}")


def _empty(archive: "archives.Archive") -> str:
    return f"{archive.storage} has no files: check compaction.archive or --directory, and the setting cluster"


def _archive(config: str | None, directory: str | None) -> "archives.Archive":
    from app.store import errors
    from app.store.checkpoints import archive_storage, archives

    loaded = settings.load(config, os.environ)
    place = directory or loaded.compaction.archive
    if not place:
        raise exits.Failed(
            exit_codes.SETTINGS,
            "compaction.archive is not set: set it to the archive's directory, or use --directory",
        )
    try:
        storage = archive_storage.opened(place, loaded.cluster)
    except errors.StoreError as unusable:
        raise exits.Failed(exit_codes.SETTINGS, str(unusable)) from unusable
    return archives.Archive(storage, loaded.cluster)
