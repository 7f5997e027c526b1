"""``topolog doctor``: what is wrong around Topolog, why it matters, and what to run."""

import os
import sys
import typing

import click

from app import settings
from app.cli import exits, tables

if typing.TYPE_CHECKING:
    from app.store import mending

_LONGEST = 120
_MARKS = {"good": "ok", "unsure": "?", "poor": "WARN", "bad": "BAD"}


@click.group("doctor", short_help="Say what is wrong with the store, and what to run.")
def doctor_command() -> None:
    """Say what is wrong around Topolog, why it matters, and what to run."""


@doctor_command.command("store")
@click.option("--repair-tail", is_flag=True, help="Make the log appendable again, as the operator.")
@click.option("--yes", is_flag=True, help="With --repair-tail: do not ask.")
@tables.output_option
@click.pass_obj
def store_command(config: str | None, repair_tail: bool, yes: bool, output: str) -> None:
    """Examine the server of store.url, with the rights of the user that is named there.

    Version, role, persistence, eviction, memory, replicas, sentinels, users and their rights, functions,
    schema, the types of its keys, the end of the log, latency, clock. Run it as the user
    topolog-CLUSTER-doctor, who may see all of it. Exit code 1 if something is BAD: the processes do not get
    ready on a store that loses data. Changes nothing.

    With --repair-tail it makes a log appendable again that somebody else wrote to (XADD). It shows what lies
    behind the end of the log: entries that follow there as those of Topolog do are kept, and counted by the
    auditor; all others are removed, once you agree. Run that as the user topolog-CLUSTER-operator. Exit
    code 1 if something was to be done and was not.
    """
    from app.store import errors, examining, keys

    chosen = settings.load(config, os.environ)
    if not chosen.store.url:
        raise exits.Failed(exits.SETTINGS, "store.url is not set: there is no store to examine")
    if repair_tail:
        _repair_tail(chosen, yes=yes, output=output)
        return
    try:
        found = examining.examine(chosen.store, keys.Keys(chosen.cluster))
    except errors.StoreError as error:
        raise exits.Failed(exits.STORE, str(error)) from error
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
                click.echo(f"  why:  {one.why}{' (the processes do not get ready)' if one.loses else ''}")
                click.echo(f"  run:  {one.run}")
    if any(one.grade == "bad" for one in found):
        click.get_current_context().exit(exits.NOT_SO)


def _repair_tail(chosen: settings.Settings, *, yes: bool, output: str) -> None:
    from app.store import errors, keys, mending, opening

    names = keys.Keys(chosen.cluster)
    try:
        with opening.connect(chosen.store, names) as client:
            seen = mending.look(client, names)
            if output != tables.JSON:
                _show_tail(seen)
            agreed = seen.wrong and (yes or _agrees(output))
            if agreed:
                mending.mend(client, names, seen)
    except errors.StoreError as error:
        raise exits.Failed(exits.STORE, str(error)) from error
    if output == tables.JSON:
        tables.show_json(
            {
                "head": seen.head,
                "lastId": seen.generated,
                "kept": [one.identity for one in seen.taken],
                "removed": [one.identity for one in seen.foreign],
                "repaired": agreed,
            }
        )
    if seen.wrong and not agreed:
        raise exits.Failed(exits.NOT_SO, "nothing was changed; --yes does it")
    if agreed and output != tables.JSON:
        click.echo(f"the log ends at {seen.end} and can be appended to")


def _show_tail(seen: "mending.Tail") -> None:
    if not seen.wrong:
        click.echo(f"the log ends at {seen.head} and can be appended to; nothing is to be done")
        return
    click.echo(f"the log ends at {seen.head}; the last id of the stream is {seen.generated}")
    rows = [("keep", one) for one in seen.taken] + [("remove", one) for one in seen.foreign]
    tables.show(["", "ID", "ENTRY"], [(what, one.identity, _entry(one)) for what, one in rows])


def _entry(entry: "mending.Entry") -> str:
    text = " ".join(
        f"{name.decode(errors='backslashreplace')}={value.decode(errors='backslashreplace')}"
        for name, value in entry.fields.items()
    )
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _agrees(output: str) -> bool:
    asked = output != tables.JSON and sys.stdin.isatty()
    return asked and click.confirm("Keep and remove these, and set the last id back?")


@doctor_command.command("users")
@click.pass_obj
def users_command(config: str | None) -> None:
    """Print the access list for the server: a user for each role, with the rights that it needs.

    The users are named topolog-CLUSTER-ROLE; those of several clusters on one server go into one file.
    Put the SHA-256 of each password in the place of its #PASSWORD, which the server refuses to start with:
    `printf %s "$SECRET" | sha256sum`. Asks no server.
    """
    from app.store import errors, permissions

    try:
        chosen = settings.load(config, os.environ)
        click.echo(permissions.access_list(chosen.cluster, chosen.store.placements), nl=False)
    except errors.StoreError as error:
        raise exits.Failed(exits.SETTINGS, str(error)) from error
