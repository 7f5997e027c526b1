"""Stores as earlier versions left them, and writers as they were.

``schemas/1.json`` holds the keys of a store of schema 1, ``schemas/1.lua`` the functions that wrote it, and
``schemas/2.json`` the keys of a store of schema 2. All are kept as they are.
"""

import base64
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from app.domain import event_subjects, events, model, projections, snapshots
from app.plugins.workload_policy import policy_model
from app.store import keys, migration_fold, stores
from app.store.log import codecs
from migrations import forms
from migrations.schema import m0001_log
from tests.support import declared
from tests.support.decisions import recomputation
from tests.support.store import materialised

SCHEMAS = Path(__file__).parents[2] / "migrations" / "schemas"
FUNCTIONS = (SCHEMAS / "1.lua").read_text()
HEAD, CHECKPOINT = 56, 47
"""Where the log of the first schema ends, and its checkpoint."""

_OTHERS = ("session:", "readers", "decisions", "counts:2:")
"""What is not part of a store: of one writer, of one reader, or of a run that did not finish."""


def restore(client: redis.Redis, names: keys.Keys, schema: str = "1") -> None:
    """A store of that schema with data, and the functions of schema 1 beside whatever others there are."""
    client.function_load(FUNCTIONS, replace=True)
    anything: Any = client
    for name, found in json.loads((SCHEMAS / f"{schema}.json").read_text()).items():
        key, value = names.prefix + name, found["value"]
        match found["type"]:
            case "hash":
                anything.hset(key, mapping=value)
            case "stream":
                for identity, fields in value:
                    anything.xadd(key, fields, id=identity)
            case "string":
                anything.set(key, base64.b64decode(value))


def begin(client: redis.Redis, names: keys.Keys) -> None:
    """An empty store of schema 1."""
    client.function_load(FUNCTIONS, replace=True)
    m0001_log.create(client, names.prefix, "0197f0c0a000-1a2b3c4d")
    client.hset(names.meta, "schema", "1")


def contents(client: redis.Redis, names: keys.Keys) -> dict[str, object]:
    """Everything that a store consists of."""
    anything: Any = client
    read = {b"hash": anything.hgetall, b"stream": anything.xrange, b"string": anything.get}
    found: dict[str, object] = {}
    for key in anything.scan_iter(names.prefix.replace("{", "[{]") + "*", count=1000):
        name = key.decode().removeprefix(names.prefix)
        if not name.startswith(_OTHERS):
            found[name] = read[anything.type(key)](key)
    return found


class Writer:
    """A process of the version that wrote schema 1: it reads the log, and appends facts."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client: Any = client
        self._names = names
        self._session = names.session(secrets.token_hex(4))
        self._sequence = 0
        self._incarnation = client.hget(names.meta, "incarnation")
        self._snapshot = snapshots.empty(schema=declared.SCHEMA)
        self.accepted: list[events.AnyEvent] = []
        """What was acknowledged."""

    def follow(self, snapshot: snapshots.Snapshot) -> None:
        """Go on from there."""
        self._snapshot = snapshot

    def append(self, *batch: events.AnyEvent, marks: dict[str, str] | None = None) -> list[Any]:
        """What the function of schema 1 answers; raises ResponseError if it fails."""
        projection = projections.Projection(self._snapshot)
        projection.apply_all(batch)
        by = forms.counts_in(1, {name: by for name, by in projection.increments.items() if by}, 2)
        touched = {
            name: place for place, event in enumerate(batch, 1) for name in event_subjects.touched(event)
        }
        pairs: Sequence[dict[str, Any]] = (touched, {}, {}, by, marks or {})
        names = self._names
        self._sequence += 1
        reply: list[Any] = self._client.fcall(
            *("topolog_append", 5, names.log, names.meta, names.versions, f"{names.prefix}counts"),
            *(self._session, self._incarnation, 0, "", self._sequence, "", "", ""),
            *(len(batch), *map(len, pairs), *map(codecs.encode, batch)),
            *(word for mapping in pairs for pair in mapping.items() for word in pair),
        )
        if reply[0] == b"OK":
            self._snapshot = projection.finish()
            self.accepted.extend(batch)
        return reply


def pod(number: int) -> events.PodSeen:
    """A pod that counts."""
    return events.PodSeen(
        pod=model.Pod(
            uid=f"late-{number}",
            namespace="blue",
            name=f"late-{number}",
            labels={"app": "web"},
            node=f"n{number % 3}" if number % 5 else "",
        )
    )


def counted() -> Sequence[events.AnyEvent]:
    """A pod, and all that it takes for it to count."""
    policy = policy_model.WorkloadPolicy(uid="p", namespace="blue", name="web", topology_key="zone")
    return (
        events.NodeSeen(node=model.Node(name="n1", uid="n1", labels={"zone": "a"})),
        declared.observed(policy),
        pod(1),
    )


def rewound() -> events.StoreRewound:
    """The first event of an incarnation."""
    return events.StoreRewound(from_incarnation="former", lost_from=1, lost_to=2, reason="a test")


def snapshot_of(client: redis.Redis, names: keys.Keys) -> snapshots.Snapshot:
    """The fold of a store of schema 1."""
    fold = migration_fold.begin(client, names, declared.SCHEMA, lambda offset, _: offset == CHECKPOINT)
    entries: Any = client.xrange(names.log, f"{CHECKPOINT + 1}-0")
    fold.apply([fields[b"e"] for _, fields in entries])
    return fold.snapshot


def lawful(store: stores.Store) -> snapshots.Snapshot:
    """Everything holds that must hold of a store; the snapshot at its head."""
    snapshot = store.follower.catch_up()
    assert snapshot.offset == store.log.head().offset
    assert materialised.counts(store) == dict(snapshot.counts) == recomputation.counts(snapshot)
    assert materialised.versions(store) == dict(snapshot.versions)
    return snapshot
