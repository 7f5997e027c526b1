"""Migrations in the crash matrix: a store of each earlier schema, brought to the present one.

The run dies before or after any of its writes, or the answer to one is lost; then it is run again, as
an operator would. What comes of it must be what comes of a run that nothing happened to.
"""

import base64
import contextlib
import json
import pathlib

import redis
from structlog import testing

from app import settings
from app.store import errors, schemas, stores
from app.store.server import connections
from tests.support import declared
from tests.support.campaigns import crash_matrix
from tests.support.simulation.oracle import guarantees
from tests.support.simulation.store import lossy_calls
from tests.support.store import materialised

SCHEMAS = pathlib.Path(__file__).parents[2] / "migrations" / "schemas"
"""Stores of earlier schemas as their versions left them, and the functions that those had."""
NAME = "past"


class Migration(crash_matrix.Matrix):
    """One store of an earlier schema (0: an empty one), migrated."""

    def __init__(self, url: str, schema: int, boundary: int = -1, way: str = "") -> None:
        """The server at ``url`` is its own: it is emptied."""
        super().__init__(boundary, way)
        self._url = url
        self._schema = schema

    def run(self) -> dict[str, object]:
        """The digest of what comes of it."""
        with connections.connect(self._url) as client, testing.capture_logs():
            client.flushall()
            client.function_flush()
            if self._schema:
                _restore(client, self._schema)
            self.sheltered = False
            with self.plainly():
                self._migrate(client)
            self.sheltered = True
            return _digest(client, self._url)

    def _migrate(self, client: redis.Redis) -> None:
        for _ in range(3):
            with contextlib.suppress(lossy_calls.Crashed, errors.StoreAway):
                if schemas.migrate(client, declared.names(NAME), declared.SCHEMA, incarnation="begun").ready:
                    return
        raise guarantees.Broken("end: the store can no longer be migrated")


def _restore(client: redis.Redis, schema: int) -> None:
    prefix = declared.names(NAME).prefix
    client.function_load((SCHEMAS / f"{schema}.lua").read_text(), replace=True)
    for key, held in json.loads((SCHEMAS / f"{schema}.json").read_text()).items():
        value = held["value"]
        match held["type"]:
            case "string":
                client.set(prefix + key, base64.b64decode(value))
            case "hash":
                client.hset(prefix + key, mapping=value)
            case "stream":
                for identity, fields in value:
                    client.xadd(prefix + key, fields, id=identity)


def _digest(client: redis.Redis, url: str) -> dict[str, object]:
    """All that readers and writers see; except what is no longer used and will expire."""
    names = declared.names(NAME)
    meta = {connections.text(key): connections.text(one) for key, one in client.hgetall(names.meta).items()}
    with contextlib.closing(
        stores.open_store(settings.Store(url=url), schema=declared.SCHEMA, cluster=NAME)
    ) as store:
        snapshot = store.follower.catch_up()
        stored = materialised.counts(store), materialised.versions(store)
    lasting = [key for key in client.keys("*") if client.ttl(key) == -1 and b"checkpoint:" not in key]
    return {
        "meta": meta,
        "counts": dict(snapshot.counts),
        "pods": {uid: pod.node for uid, pod in snapshot.pods.items()},
        "stored": stored,
        "agree": stored == (dict(snapshot.counts), dict(snapshot.versions)),
        "lasting": sorted(lasting),
        "log": client.xrange(names.log),
    }
