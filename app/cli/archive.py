"""``topolog archive``: lists, verifies and exports the archive of the log."""

import os
import pathlib
import sys
from typing import TYPE_CHECKING

import click

from app import exit_codes, settings
from app.cli import exits, formats, tables

if TYPE_CHECKING:
    from app.store.checkpoints import archives


@click.group("archive")
def archive_command() -> None:
    """List, verify and export the archive of the log (compaction.archive).

    Needs neither store nor cluster. The files are gzip-compressed JSON lines, which zcat, jq and sha256sum
    can also read and verify.
    """


_directory = click.option(
    "--directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="Archive directory. [compaction.archive]",
)


@archive_command.command("ls")
@_directory
@formats.option()
@click.pass_obj
def ls_command(config: str | None, directory: pathlib.Path | None, output: str) -> None:
    """List the files in the cluster's archive by offset."""
    archive = _archive(config, directory)
    rows = [
        {
            "kind": file.kind,
            "incarnation": file.incarnation,
            "first": file.first,
            "last": file.last,
            "bytes": file.path.stat().st_size,
            "file": file.path.name,
        }
        for file in archive.files()
    ]
    if formats.is_document(output):
        formats.show_document(rows, output)
    else:
        heads = ["kind", "incarnation", "first", "last", "bytes", "file"]
        tables.show([head.upper() for head in heads], [[row[head] for head in heads] for row in rows])


@archive_command.command("verify")
@_directory
@formats.option()
@click.pass_obj
def verify_command(config: str | None, directory: pathlib.Path | None, output: str) -> None:
    """Verify the checksum of every file and that no offset is missing.

    Exit code 1 if a problem is found.
    """
    from app.store import errors

    archive = _archive(config, directory)
    problems: list[str] = []
    reached: dict[str, int] = {}
    for file in archive.files():
        try:
            archive.prove(file)
        except (errors.Damaged, OSError) as error:
            problems.append(str(error))
        if file.kind == "segment":
            before = reached.get(file.incarnation)
            if before is not None and file.first > before + 1:
                problems.append(f"offsets {before + 1} to {file.first - 1} of {file.incarnation} are missing")
            reached[file.incarnation] = max(file.last, before or 0)
    files = len(archive.files())
    if formats.is_document(output):
        report = {"folder": str(archive.folder), "files": files, "problems": problems}
        formats.show_document(report, output)
    else:
        click.echo(f"{archive.folder}: {files} files, {len(problems)} problems")
        for problem in problems:
            click.echo(f"  {problem}")
    if problems:
        click.get_current_context().exit(exit_codes.NEGATIVE)


@archive_command.command("export")
@_directory
@click.option("--from", "since", type=click.IntRange(1), default=1, metavar="OFFSET", help="First event.")
@click.option("--to", "until", type=click.IntRange(1), metavar="OFFSET", help="Last event.")
@click.option(
    "--incarnation", metavar="NAME", help="Incarnation of the log.  [default: the most recently archived]"
)
@click.pass_obj
def export_command(
    config: str | None,
    directory: pathlib.Path | None,
    since: int,
    until: int | None,
    incarnation: str | None,
) -> None:
    """Export archived events as JSON lines, oldest first.

    Writes to standard output and verifies every segment.
    """
    from app.store import errors
    from app.store.checkpoints import archives

    archive = _archive(config, directory)
    segments = archive.files("segment")
    if not segments:
        raise exits.Failed(exit_codes.NEGATIVE, f"{archive.folder} contains no segments")
    newest = max(segments, key=lambda file: file.path.stat().st_mtime_ns).incarnation
    selected = archives.Archive(archive.folder.parent, archive.folder.name, lambda: incarnation or newest)
    exported = since - 1
    try:
        for file in selected.history("segment"):
            if file.last <= exported or (until is not None and file.first > until):
                continue
            for raw in selected.raws(file.path):
                if raw.offset > exported and (until is None or raw.offset <= until):
                    sys.stdout.buffer.write(archives.line(raw))
            exported = file.last
    except (errors.Damaged, OSError) as error:
        raise exits.Failed(exit_codes.NEGATIVE, str(error)) from error
    sys.stdout.buffer.flush()


def _archive(config: str | None, directory: pathlib.Path | None) -> "archives.Archive":
    from app.store.checkpoints import archives

    loaded = settings.load(config, os.environ)
    if directory is None and not loaded.compaction.archive:
        raise exits.Failed(
            exit_codes.SETTINGS,
            "compaction.archive is not set: set it to the archive's directory, or use --directory",
        )
    return archives.Archive(directory or pathlib.Path(loaded.compaction.archive), loaded.cluster)
