"""``topolog migrate``: shows and upgrades the store schema."""

import os

import click

from app import exit_codes, plugins, settings
from app.cli import exits
from app.cli.output import formats, progress, tables


@click.group("migrate")
def migrate_command() -> None:
    """Show or upgrade the store schema. Safe to repeat, also after it was killed."""


@migrate_command.command("status", short_help="Show the store's schema.")
@formats.option()
@click.pass_obj
def status_command(config: str | None, output: str) -> None:
    """Show the store's schema and the one this version needs; exit code 1 if they differ."""
    _report(config, output, upgrade=False)


@migrate_command.command("up", short_help="Upgrade the store to this version's schema.")
@formats.option()
@click.pass_obj
def up_command(config: str | None, output: str) -> None:
    """Upgrade the store to this version's schema; the processes may keep running."""
    _report(config, output, upgrade=True)


def _report(config: str | None, output: str, *, upgrade: bool) -> None:
    from app.store import errors, keys, schemas

    loaded = settings.load(config, os.environ)
    if not loaded.store.url:
        raise exits.Failed(
            exit_codes.SETTINGS, "store.url is not set: migrate needs the store of the cluster"
        )
    schema = plugins.catalog().schema
    names = keys.Keys(loaded.cluster, schema.forms)
    try:
        client = schemas.connect(loaded.store, names)
        if upgrade:
            with progress.shown("upgrading the store") as line:

                def report(stage: str) -> None:
                    line.text = f"upgrading the store: {stage}"

                found = schemas.migrate(client, names, schema, progress=report)
        else:
            found = schemas.status(client, names)
    except errors.StoreError as error:
        raise exits.Failed(exit_codes.STORE, str(error)) from error
    if formats.is_document(output):
        formats.show_document(
            {
                "cluster": loaded.cluster,
                "schema": found.schema,
                "latest": found.latest,
                "library": found.library,
                "counts": found.counts,
                "pending": list(found.pending),
                "ready": found.ready,
                "advice": found.advice,
            },
            output,
        )
    else:
        row = (loaded.cluster, found.schema, found.latest, found.library, found.counts, found.pending)
        tables.show(["CLUSTER", "SCHEMA", "NEEDED", "FUNCTIONS", "COUNTS", "PENDING"], [row])
        if found.advice:
            click.echo(found.advice, err=True)
    if not found.ready:
        click.get_current_context().exit(exit_codes.NEGATIVE)
