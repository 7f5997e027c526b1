"""``topolog migrate``: which schema the store has, and bringing it to this version's."""

import os

import click

from app import settings
from app.cli import exits, tables


@click.group("migrate", short_help="Show or renew the schema of the store.")
def migrate_command() -> None:
    """Show or renew the schema of the store. Safe to run again, also after it was killed."""


@migrate_command.command("status", short_help="Say which schema the store has.")
@tables.output_option
@click.pass_obj
def status_command(config: str | None, output: str) -> None:
    """Say which schema the store has and what this version needs; exit code 1 if they differ."""
    _report(config, output, renew=False)


@migrate_command.command("up", short_help="Bring the store to this version's schema.")
@tables.output_option
@click.pass_obj
def up_command(config: str | None, output: str) -> None:
    """Bring the store to this version's schema; the processes may go on meanwhile."""
    _report(config, output, renew=True)


def _report(config: str | None, output: str, *, renew: bool) -> None:
    from app.store import errors, keys, opening

    loaded = settings.load(config, os.environ)
    if not loaded.store.url:
        raise exits.Failed(exits.SETTINGS, "store.url is not set: there is no store to migrate")
    names = keys.Keys(loaded.cluster)
    try:
        client = opening.connect(loaded.store, names)
        found = opening.migrate(client, names) if renew else opening.status(client, names)
    except errors.StoreError as error:
        raise exits.Failed(exits.STORE, str(error)) from error
    if output == tables.JSON:
        tables.show_json(
            {
                "cluster": loaded.cluster,
                "schema": found.schema,
                "latest": found.latest,
                "library": found.library,
                "counts": found.counts,
                "pending": list(found.pending),
                "ready": found.ready,
                "advice": found.advice,
            }
        )
    else:
        row = (loaded.cluster, found.schema, found.latest, found.library, found.counts, found.pending)
        tables.show(["CLUSTER", "SCHEMA", "NEEDED", "FUNCTIONS", "COUNTS", "PENDING"], [row])
        if found.advice:
            click.echo(found.advice, err=True)
    if not found.ready:
        click.get_current_context().exit(exits.NOT_SO)
