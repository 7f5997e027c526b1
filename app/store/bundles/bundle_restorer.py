"""Fills an empty store with a bundle, so that every reader of a log can show it.

The store has the offsets, times and ids of the source. Its counts and versions stay empty: only writers need
them, and there are none.
"""

import time
from typing import Any, BinaryIO, Final

import msgspec
import redis

from app import converters
from app.domain import schema as schemas
from app.store import errors, keys, snapshot_format
from app.store import schemas as store_schemas
from app.store.bundles import bundle_reader, layout
from app.store.checkpoints import checkpoints
from app.store.log import readers
from app.store.server import connections

_BATCH: Final = 500
_encoder = msgspec.json.Encoder()
_about = converters.Converter(layout.About)


def restore(
    file: BinaryIO, client: redis.Redis, names: keys.Keys, schema: schemas.Schema
) -> bundle_reader.Contents:
    """Fill the empty store of a client. Raises bundle_reader.Damaged; the store is then of no use."""
    filling = _Filling(client, names, schema)
    contents = bundle_reader.read(file, filling)
    filling.finish(contents)
    return contents


def opened(client: redis.Redis, names: keys.Keys) -> layout.About | None:
    """What the bundle holds that the store was filled from; None for any other store. Raises StoreAway."""
    with connections.translated():
        found: Any = client.hget(names.meta, keys.BUNDLE)
    return None if found is None else _about.decode(found)


class _Filling(bundle_reader.Visitor):
    def __init__(self, client: redis.Redis, names: keys.Keys, schema: schemas.Schema) -> None:
        self._client = client
        self._names = names
        self._schema = schema
        self._pipeline: Any = client.pipeline(transaction=False)
        self._members: list[bytes] = []
        self._header: snapshot_format.Header | None = None

    def about(self, about: layout.About) -> None:
        store_schemas.migrate(self._client, self._names, self._schema, incarnation=about.incarnation)
        fields: dict[str, bytes | int] = {
            keys.HEAD: about.last,
            "at": about.last_ms,
            # The time at which the state was the present one: readers see no lag.
            "recorded": int(time.time() * 1000),
            keys.BUNDLE: _encoder.encode(about),
        }
        with connections.translated():
            client: Any = self._client
            client.hset(self._names.meta, mapping=fields)

    def checkpoint(self, header: snapshot_format.Header, line: bytes) -> None:
        self._header = header
        self._members.append(snapshot_format.compressed(line))

    def event(self, raw: readers.Raw) -> None:
        self._add(self._names.log, f"{raw.offset}-0", {"t": raw.t, "e": bytes(raw.e), "w": raw.w})

    def decision(self, decision: layout.BundledDecision) -> None:
        self._add(self._names.decisions, decision.id, {"d": bytes(decision.d)})

    def finish(self, contents: bundle_reader.Contents) -> None:
        """Write what is left."""
        self._flush()
        if self._header is not None and self._header.offset:
            serialized = snapshot_format.SerializedSnapshot(self._header, self._members)
            checkpoints.Checkpoints(self._client, self._names, self._schema).keep(serialized)
        if contents.consistency.strip() != b"null":
            with connections.translated():
                self._client.set(self._names.audit, contents.consistency)

    def _add(self, key: str, identity: str, fields: dict[str, object]) -> None:
        self._pipeline.xadd(key, fields, id=identity)
        if len(self._pipeline) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        try:
            with connections.translated():
                self._pipeline.execute()
        except errors.StoreError as error:
            raise errors.StoreError(f"the bundle cannot be loaded: {error}") from error
