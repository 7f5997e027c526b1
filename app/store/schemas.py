"""Checks the schema of a store, and migrates it to this version's."""

import dataclasses
import functools
from collections.abc import Callable
from importlib import resources

import redis

from app import settings
from app.domain import schema as kinds
from app.store import count_rebuild, errors, keys, migration_fold
from app.store.log import incarnations
from app.store.server import connections
from migrations import runner

_LIBRARIES = (*runner.USABLE, "outdated", "missing")


def library() -> str:
    """The text of the functions that this version needs in the server."""
    return resources.files("app.store.log").joinpath("functions", "topolog.lua").read_text()


def migrate(
    client: redis.Redis,
    names: keys.Keys,
    schema: kinds.Schema,
    *,
    incarnation: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> runner.Status:
    """Bring the store to this version's schema, and its counts to their present form.

    ``progress`` is called with each stage before it is taken. Raises SchemaMismatch if that is refused.
    """
    context = runner.MigrationContext(
        incarnation=incarnation or incarnations.new(),
        begin=functools.partial(migration_fold.begin, client, names, schema),
        progress=progress,
    )
    with connections.translated():
        try:
            runner.check(client, names.prefix)
            # The slot may move to any node of a Redis Cluster.
            for node in connections.primaries(client):
                runner.load(node, library())
            runner.up(client, names.prefix, context)
            progress("counts")
            count_rebuild.rebuild(client, names, schema, patience=context.patience)
        except runner.MigrationRefused as refused:
            raise errors.SchemaMismatch(str(refused)) from refused
    return status(client, names)


def status(client: redis.Redis, names: keys.Keys) -> runner.Status:
    """The schema of the store and the schema that this version needs.

    Raises SchemaMismatch if another program has overwritten it.
    """
    with connections.translated():
        try:
            found = runner.status(client, names.prefix, library())
        except runner.MigrationRefused as refused:
            raise errors.SchemaMismatch(str(refused)) from refused
        states = [runner.loaded(node, library()) for node in connections.primaries(client)]
    # The worst state of any node: a slot may move to each of them.
    found = dataclasses.replace(found, library=max(states, key=_LIBRARIES.index))
    if found.schema == found.latest and found.counts not in ("", wanted := keys.ending(names, names.counts)):
        pending, why = f"{found.counts} to {wanted}", str(errors.other_counts(found.counts, wanted))
        return dataclasses.replace(found, pending=(*found.pending, pending), other_counts=why)
    return found


def connect(options: settings.Store, names: keys.Keys) -> redis.Redis:
    """A client for the store of the settings. Raises StoreError if the URL is invalid."""
    return connections.connect(options.url, timeout=options.socket_timeout, names=names)


def check(client: redis.Redis, names: keys.Keys, *, emptied: bool = False) -> None:
    """Return if the store has this version's schema, or is empty and ``emptied``. Raises SchemaMismatch."""
    with connections.translated():
        schema, incarnation, live = client.hmget(names.meta, ["schema", "incarnation", "counts"])
    found, needed = keys.number(schema), runner.latest()
    empty = emptied and not incarnation
    if not empty and (found != needed or not incarnation):
        raise errors.mismatch(found, needed)
    if live is not None and connections.text(live) != names.counts:
        raise errors.other_counts(
            keys.ending(names, connections.text(live)), keys.ending(names, names.counts)
        )
