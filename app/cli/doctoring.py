"""``topolog doctor``: what is wrong around Topolog, why it matters, and what to run."""

import os

import click

from app import settings
from app.cli import exits, tables

_MARKS = {"good": "ok", "unsure": "?", "poor": "WARN", "bad": "BAD"}


@click.group("doctor", short_help="Say what is wrong with the store, and what to run.")
def doctor_command() -> None:
    """Say what is wrong around Topolog, why it matters, and what to run. Changes nothing."""


@doctor_command.command("store")
@tables.output_option
@click.pass_obj
def store_command(config: str | None, output: str) -> None:
    """Examine the server of store.url, with the rights of the user that is named there.

    Version, role, persistence, eviction, memory, replicas, sentinels, users and their rights, functions,
    schema, latency, clock. Run it as the user topolog-CLUSTER-doctor, who may see all of it. Exit code 1
    if something is BAD: the processes do not get ready on a store that loses data.
    """
    from app.store import errors, examining, keys

    chosen = settings.load(config, os.environ)
    if not chosen.store.url:
        raise exits.Failed(exits.SETTINGS, "store.url is not set: there is no store to examine")
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
