"""``topolog doctor store`` and ``users``: the server of the store, and the access list that it needs."""

import os
import pathlib
import sys
import typing

import click

from app import exit_codes, plugins, settings
from app.cli import exits
from app.cli.doctor import options, reports
from app.cli.output import formats, tables

if typing.TYPE_CHECKING:
    from app.framework import doctor_checks
    from app.store.log import tail_repair

_LONGEST = 120


@click.command("store", short_help="Check the server of the store.")
@click.option(
    "--repair-tail", is_flag=True, help="Make the log appendable again, as the user topolog-CLUSTER-operator."
)
@click.option("--yes", is_flag=True, help="With --repair-tail: skip the confirmation.")
@options.output
@click.pass_obj
def store_command(
    config: str | None,
    /,
    repair_tail: bool,
    yes: bool,
    shown: options.Shown,
) -> None:
    """Check the server of store.url with the permissions of the user in that URL.

    Checks version, role, persistence, eviction, memory, replicas, sentinels, users and their permissions,
    functions, schema, key types, the end of the log, latency and clock. Run it as the user
    topolog-CLUSTER-doctor, which may read all of this. Changes nothing. The processes do not become ready on
    a store that can lose data.

    With --repair-tail, makes the log appendable again after another client wrote to its stream (XADD).
    Shows the entries after the end of the log: valid Topolog entries are kept and audited; all others are
    removed after confirmation. Run this as the user topolog-CLUSTER-operator. Exit code 1 if a repair was
    needed and not made.
    """
    from app.doctor import store_checks

    if reports.listed(store_checks.CHECKS, shown):
        return
    loaded = settings.load(config, os.environ)
    if not loaded.store.url:
        raise exits.Failed(exit_codes.SETTINGS, _NO_STORE)
    if repair_tail:
        _repair_tail(loaded, yes=yes, output=shown.output)
        return
    reports.show("store", loaded.cluster, examine(loaded), shown)


_NO_STORE = (
    "store.url is not set: set it (TOPOLOG_STORE_URL), or in a cluster check as one of the processes:"
    " kubectl -n topolog-system exec deployment/topolog-auditor -- topolog doctor store"
)


def examine(loaded: settings.Settings) -> "list[doctor_checks.Result]":
    """The results of all checks; a store that does not answer is one of them."""
    from app.doctor import store_checks
    from app.store import errors, keys

    if not loaded.store.url:
        return [
            store_checks.AWAY.unsure("store", "store.url is not set", fix="set store.url (TOPOLOG_STORE_URL)")
        ]
    try:
        return store_checks.examine(loaded.store, keys.Keys(loaded.cluster, plugins.catalog().schema.forms))
    except errors.StoreError as error:
        return [store_checks.unavailable(error)]


def _repair_tail(loaded: settings.Settings, *, yes: bool, output: str) -> None:
    from app.store import errors, keys, schemas
    from app.store.log import tail_repair

    names = keys.Keys(loaded.cluster, plugins.catalog().schema.forms)
    try:
        with schemas.connect(loaded.store, names) as client:
            seen = tail_repair.inspect(client, names)
            if not formats.is_document(output):
                _show_tail(seen)
            confirmed = seen.wrong and (yes or _confirmed(output))
            if confirmed:
                tail_repair.repair(client, names, seen)
    except errors.StoreError as error:
        raise exits.Failed(exit_codes.STORE, str(error)) from error
    if formats.is_document(output):
        formats.show_document(
            {
                "head": seen.head,
                "lastId": seen.generated,
                "kept": [one.identity for one in seen.taken],
                "removed": [one.identity for one in seen.foreign],
                "repaired": confirmed,
            },
            output,
        )
    if seen.wrong and not confirmed:
        raise exits.Failed(exit_codes.NEGATIVE, "nothing was changed; use --yes to apply")
    if confirmed and not formats.is_document(output):
        click.echo(f"the log ends at {seen.end} and is appendable")


def _show_tail(seen: "tail_repair.Tail") -> None:
    if not seen.wrong:
        click.echo(f"the log ends at {seen.head} and is appendable; no repair is needed")
        return
    click.echo(f"the log ends at {seen.head}; the last id of the stream is {seen.generated}")
    rows = [("keep", one) for one in seen.taken] + [("remove", one) for one in seen.foreign]
    tables.show(["", "ID", "ENTRY"], [(what, one.identity, _entry(one)) for what, one in rows])


def _entry(entry: "tail_repair.TailEntry") -> str:
    text = " ".join(
        f"{name.decode(errors='backslashreplace')}={value.decode(errors='backslashreplace')}"
        for name, value in entry.fields.items()
    )
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _confirmed(output: str) -> bool:
    interactive = not formats.is_document(output) and sys.stdin.isatty()
    return interactive and click.confirm("Keep and remove these entries, and reset the last id?")


@click.command("users", short_help="Print the access list of the store's server.")
@click.option(
    "--hashes",
    type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path),
    metavar="DIRECTORY",
    help="Fill in the passwords: a file per role, named as the role, with the SHA-256 of its password; with"
    " replicas and sentinels of your own also the files `replica` and `sentinel`.",
)
@click.option(
    "--store-tls",
    is_flag=True,
    help="With --hashes: the store has TLS, so also add the user by whom `topolog bootstrap` makes it read a"
    " renewed certificate.",
)
@click.option(
    "--to",
    "path",
    type=click.Path(dir_okay=False, path_type=pathlib.Path),
    metavar="FILE",
    help="Write the access list to this file, readable by its owner.",
)
@click.pass_obj
def users_command(
    config: str | None, hashes: pathlib.Path | None, store_tls: bool, path: pathlib.Path | None
) -> None:
    """Print the server's ACL file: one user per role, with the permissions that the role needs.

    The users are named topolog-CLUSTER-ROLE. Clusters that share a server share one file; the users default,
    topolog-replica and topolog-sentinel may be in it only once. Replace each #PASSWORD by the SHA-256 of the
    password (the server does not start with the placeholder): `printf %s "$SECRET" | sha256sum`. Does not
    connect to a server.

    With --hashes, the passwords are filled in, and topolog-replica and topolog-sentinel are in the list only
    if DIRECTORY has files of theirs. The bundled store of deploy/ makes its access list in this way whenever
    it starts.
    """
    from app.store import errors
    from app.store.server import acl

    if store_tls and hashes is None:
        raise click.UsageError("--store-tls needs the passwords of the users: add --hashes")
    loaded = settings.load(config, os.environ)
    try:
        if hashes is None:
            text = acl.access_list(loaded.cluster, loaded.store.placements)
        else:
            names = (*(role.name for role in (*acl.ROLES, acl.CERTIFICATES)), *acl.SERVERS)
            files = [file for name in names if (file := hashes / name).exists()]
            known = {file.name: file.read_text(errors="replace") for file in files}
            text = acl.filled(loaded.cluster, known, loaded.store.placements, tls=store_tls)
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
