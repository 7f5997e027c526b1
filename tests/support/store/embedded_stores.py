"""A store on a server of its own, which starts and ends with it."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from app import settings
from app.store import schemas, stores
from app.store.server import embedded
from tests.support import declared


class EmbeddedStore(NamedTuple):
    """An open store, and its server."""

    store: stores.Store
    server: embedded.Server


@contextlib.contextmanager
def opened(
    directory: Path | None, cluster: str, options: settings.Store | None = None
) -> Iterator[EmbeddedStore]:
    """A migrated store until the block ends. ``directory``: of the append-only file.

    Without one the directory is temporary, and its server has such a file only if ``options`` require it.
    """
    chosen = options or settings.Store()
    server = embedded.Server(directory, append_only=directory is not None, synced=chosen.synced)
    with contextlib.ExitStack() as ending:
        ending.callback(server.stop)
        chosen, names = dataclasses.replace(chosen, url=server.url), declared.names(cluster)
        with contextlib.closing(schemas.connect(chosen, names)) as client:
            schemas.migrate(client, names, declared.SCHEMA)
        store = stores.open_store(chosen, schema=declared.SCHEMA, cluster=cluster)
        ending.callback(store.close)
        yield EmbeddedStore(store, server)
