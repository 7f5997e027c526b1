"""``topolog doctor``: diagnoses the store and prints the commands that fix it."""

import os
import pathlib
import sys
import typing

import click

from app import exit_codes, plugins, settings
from app.cli import exits, tables

if typing.TYPE_CHECKING:
    from app.store.log import tail_repair

_LONGEST = 120
_MARKS = {"good": "ok", "unsure": "?", "poor": "WARN", "bad": "BAD"}


@click.group("doctor", short_help="Diagnose the store and print the commands that fix it.")
def doctor_command() -> None:
    """Diagnose the store: what is wrong, why it matters, and which commands fix it."""


@doctor_command.command("store")
@click.option(
    "--repair-tail", is_flag=True, help="Make the log appendable again, as the user topolog-CLUSTER-operator."
)
@click.option("--yes", is_flag=True, help="With --repair-tail: skip the confirmation.")
@tables.output_option
@click.pass_obj
def store_command(config: str | None, repair_tail: bool, yes: bool, output: str) -> None:
    """Check the server of store.url with the permissions of the user in that URL.

    Checks version, role, persistence, eviction, memory, replicas, sentinels, users and their permissions,
    functions, schema, key types, the end of the log, latency and clock. Run it as the user
    topolog-CLUSTER-doctor, which may read all of this. Changes nothing. Exit code 1 if a check is BAD; the
    processes do not become ready on a store that can lose data.

    With --repair-tail, makes the log appendable again after another client wrote to its stream (XADD).
    Shows the entries after the end of the log: valid Topolog entries are kept and audited; all others are
    removed after confirmation. Run this as the user topolog-CLUSTER-operator. Exit code 1 if a repair was
    needed and not made.
    """
    from app.store import errors, keys
    from app.store.health import doctor

    loaded = settings.load(config, os.environ)
    if not loaded.store.url:
        raise exits.Failed(exit_codes.SETTINGS, "store.url is not set: doctor needs a store to check")
    if repair_tail:
        _repair_tail(loaded, yes=yes, output=output)
        return
    try:
        found = doctor.examine(loaded.store, keys.Keys(loaded.cluster, plugins.catalog().schema.forms))
    except errors.StoreError as error:
        raise exits.Failed(exit_codes.STORE, str(error)) from error
    if output == tables.JSON:
        tables.show_json(
            [
                {
                    "subject": one.subject,
                    "grade": one.grade,
                    "found": one.found,
                    "why": one.why,
                    "run": one.run,
                    "losesData": one.loses,
                }
                for one in found
            ]
        )
    else:
        tables.show(["", "SUBJECT", "FOUND"], [(_MARKS[one.grade], one.subject, one.found) for one in found])
        for one in found:
            if one.why:
                click.echo(f"\n{_MARKS[one.grade]} {one.subject}: {one.found}")
                click.echo(f"  why:  {one.why}{' (the processes do not become ready)' if one.loses else ''}")
                click.echo(f"  run:  {one.run}")
    if any(one.grade == "bad" for one in found):
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _repair_tail(loaded: settings.Settings, *, yes: bool, output: str) -> None:
    from app.store import errors, keys, schemas
    from app.store.log import tail_repair

    names = keys.Keys(loaded.cluster, plugins.catalog().schema.forms)
    try:
        with schemas.connect(loaded.store, names) as client:
            seen = tail_repair.inspect(client, names)
            if output != tables.JSON:
                _show_tail(seen)
            confirmed = seen.wrong and (yes or _confirmed(output))
            if confirmed:
                tail_repair.repair(client, names, seen)
    except errors.StoreError as error:
        raise exits.Failed(exit_codes.STORE, str(error)) from error
    if output == tables.JSON:
        tables.show_json(
            {
                "head": seen.head,
                "lastId": seen.generated,
                "kept": [one.identity for one in seen.taken],
                "removed": [one.identity for one in seen.foreign],
                "repaired": confirmed,
            }
        )
    if seen.wrong and not confirmed:
        raise exits.Failed(exit_codes.NEGATIVE, "nothing was changed; use --yes to apply")
    if confirmed and output != tables.JSON:
        click.echo(f"the log ends at {seen.end} and is appendable")


def _show_tail(seen: "tail_repair.Tail") -> None:
    if not seen.wrong:
        click.echo(f"the log ends at {seen.head} and is appendable; no repair is needed")
        return
    click.echo(f"the log ends at {seen.head}; the last id of the stream is {seen.generated}")
    rows = [("keep", one) for one in seen.taken] + [("remove", one) for one in seen.foreign]
    tables.show(["", "ID", "ENTRY"], [(what, one.identity, _entry(one)) for what, one in rows])


def _entry(entry: "tail_repair.Entry") -> str:
    text = " ".join(
        f"{name.decode(errors='backslashreplace')}={value.decode(errors='backslashreplace')}"
        for name, value in entry.fields.items()
    )
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _confirmed(output: str) -> bool:
    interactive = output != tables.JSON and sys.stdin.isatty()
    return interactive and click.confirm("Keep and remove these entries, and reset the last id?")


@doctor_command.command("users")
@click.option(
    "--hashes",
    type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
    metavar="DIRECTORY",
    help="Fill in the passwords: a file per role, named as the role, with the SHA-256 of its password.",
)
@click.option(
    "--to",
    "path",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    metavar="FILE",
    help="Write the access list to this file, readable by its owner.",
)
@click.pass_obj
def users_command(config: str | None, hashes: pathlib.Path | None, path: pathlib.Path | None) -> None:
    """Print the server's ACL file: one user per role, with the permissions that the role needs.

    The users are named topolog-CLUSTER-ROLE; clusters that share a server share one file. Replace each
    #PASSWORD by the SHA-256 of the password (the server does not start with the placeholder):
    `printf %s "$SECRET" | sha256sum`. Does not connect to a server.

    With --hashes, the passwords are filled in, and the list has no users for replicas and sentinels. The
    bundled store of deploy/ makes its access list in this way whenever it starts.
    """
    from app.store import errors
    from app.store.server import acl

    loaded = settings.load(config, os.environ)
    try:
        if hashes is None:
            text = acl.access_list(loaded.cluster, loaded.store.placements)
        else:
            known = {each.name: _text(hashes / each.name) for each in acl.ROLES}
            text = acl.filled(loaded.cluster, known, loaded.store.placements)
        if path is None:
            click.echo(text, nl=False)
            return
        path.touch(mode=0o600)
        path.write_text(text)
    except errors.BadHashes as error:
        raise exits.Failed(exit_codes.SETTINGS, f"{hashes}: {error}") from error
    except errors.StoreError as error:
        raise exits.Failed(exit_codes.SETTINGS, str(error)) from error
    except OSError as error:
        raise exits.Failed(exit_codes.SETTINGS, f"{error.filename}: {error.strerror}") from error
    click.echo(f"wrote the access list of cluster {loaded.cluster} to {path}")


def _text(path: pathlib.Path) -> str:
    """The text of a file; empty if there is none."""
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
