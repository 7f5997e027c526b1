"""``topolog archive``: what lies in the archive, whether it is whole, and the events in it."""

import os
import pathlib
import sys
from typing import TYPE_CHECKING

import click

from app import settings
from app.cli import exits, tables

if TYPE_CHECKING:
    from app.store import archives


@click.group("archive", short_help="Look into the archive of the log.")
def archive_command() -> None:
    """Look into the archive of the log (compaction.archive); needs neither store nor cluster.

    Its files are JSON lines, compressed with gzip: zcat, jq and sha256sum read and prove them too.
    """


_directory = click.option(
    "--directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=pathlib.Path),
    help="The archive. [compaction.archive]",
)


@archive_command.command("ls")
@_directory
@tables.output_option
@click.pass_obj
def ls_command(config: str | None, directory: pathlib.Path | None, output: str) -> None:
    """List what the archive of the cluster holds, by offset."""
    found = _archive(config, directory)
    rows = [
        {
            "kind": file.kind,
            "incarnation": file.incarnation,
            "first": file.first,
            "last": file.last,
            "bytes": file.path.stat().st_size,
            "file": file.path.name,
        }
        for file in found.files()
    ]
    if output == tables.JSON:
        tables.show_json(rows)
    else:
        heads = ["kind", "incarnation", "first", "last", "bytes", "file"]
        tables.show([head.upper() for head in heads], [[row[head] for head in heads] for row in rows])


@archive_command.command("verify")
@_directory
@tables.output_option
@click.pass_obj
def verify_command(config: str | None, directory: pathlib.Path | None, output: str) -> None:
    """Prove every file by its checksum and that no offset is missing; exit code 1 if something is wrong."""
    from app.store import errors

    found = _archive(config, directory)
    troubles: list[str] = []
    reached: dict[str, int] = {}
    for file in found.files():
        try:
            found.prove(file)
        except (errors.Damaged, OSError) as problem:
            troubles.append(str(problem))
        if file.kind == "segment":
            before = reached.get(file.incarnation)
            if before is not None and file.first > before + 1:
                troubles.append(f"offsets {before + 1} to {file.first - 1} of {file.incarnation} are missing")
            reached[file.incarnation] = max(file.last, before or 0)
    files = len(found.files())
    if output == tables.JSON:
        tables.show_json({"folder": str(found.folder), "files": files, "troubles": troubles})
    else:
        click.echo(f"{found.folder}: {files} files, {len(troubles)} troubles")
        for trouble in troubles:
            click.echo(f"  {trouble}")
    if troubles:
        click.get_current_context().exit(exits.NOT_SO)


@archive_command.command("export")
@_directory
@click.option("--from", "since", type=click.IntRange(1), default=1, metavar="OFFSET", help="The first event.")
@click.option("--to", "until", type=click.IntRange(1), metavar="OFFSET", help="The last event.")
@click.option("--incarnation", metavar="NAME", help="Of which history; the one archived last by default.")
@click.pass_obj
def export_command(
    config: str | None,
    directory: pathlib.Path | None,
    since: int,
    until: int | None,
    incarnation: str | None,
) -> None:
    """Write archived events to standard output as JSON lines, oldest first; every segment is proven."""
    from app.store import archives, errors

    found = _archive(config, directory)
    segments = found.files("segment")
    if not segments:
        raise exits.Failed(exits.NOT_SO, f"{found.folder} holds no segments")
    newest = max(segments, key=lambda file: file.path.stat().st_mtime_ns).incarnation
    chosen = archives.Archive(found.folder.parent, found.folder.name, lambda: incarnation or newest)
    told = since - 1
    try:
        for file in chosen.history("segment"):
            if file.last <= told or (until is not None and file.first > until):
                continue
            for raw in chosen.raws(file.path):
                if raw.offset > told and (until is None or raw.offset <= until):
                    sys.stdout.buffer.write(archives.line(raw))
            told = file.last
    except (errors.Damaged, OSError) as problem:
        raise exits.Failed(exits.NOT_SO, str(problem)) from problem
    sys.stdout.buffer.flush()


def _archive(config: str | None, directory: pathlib.Path | None) -> "archives.Archive":
    from app.store import archives

    loaded = settings.load(config, os.environ)
    if directory is None and not loaded.compaction.archive:
        raise exits.Failed(
            exits.SETTINGS, "compaction.archive is not set: name the archive's directory, or give --directory"
        )
    return archives.Archive(directory or pathlib.Path(loaded.compaction.archive), loaded.cluster)
