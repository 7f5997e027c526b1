"""A store of the version before objects were generic opens as it is, folds to the same, and serves.

``schemas/2.json`` holds its keys, ``schemas/2.folded.json`` what that version folded from them.
"""

import json
from typing import Any

import msgspec
import redis

from app import settings
from app.domain import events, projections, snapshots
from app.store import keys, schemas, snapshot_format, stores
from app.store.log import batches
from app.store.server import embedded
from tests.support import declared
from tests.support.store import past_stores

FOLDED: dict[str, Any] = json.loads((past_stores.SCHEMAS / "2.folded.json").read_text())
PARTS = ("policies", "counts", "versions", "listed")


def opened(server: embedded.Server, cluster: str) -> stores.Store:
    client: Any = redis.Redis.from_url(server.url)
    names = keys.Keys(cluster)
    past_stores.restore(client, names, "2")
    # The key of the counts has the name of the cluster.
    client.hset(names.meta, "counts", names.counts)
    assert schemas.migrate(client, declared.names(cluster), declared.SCHEMA).ready
    client.close()
    return stores.open_store(settings.Store(url=server.url), schema=declared.SCHEMA, cluster=cluster)


def folded(snapshot: snapshots.Snapshot) -> dict[str, Any]:
    return {
        "policies": {
            key: json.loads(msgspec.json.encode(policy))
            for key, policy in declared.policies(snapshot).items()
        },
        "counts": dict(snapshot.counts),
        "versions": dict(snapshot.versions),
        "listed": dict(snapshot.listed),
    }


def test_a_store_of_the_version_before_folds_to_the_same(store_server: embedded.Server, cluster: str) -> None:
    store = opened(store_server, cluster)
    try:
        snapshot = past_stores.lawful(store)
        assert snapshot.offset == FOLDED["head"]
        assert folded(snapshot) == {
            part: FOLDED[part] for part in ("policies", "counts", "versions", "listed")
        }
        # Kinds that the version before did not record.
        assert snapshot.unlisted == declared.SCHEMA.names - {"nodes", "pods", "workloadpolicies"}
        # The log begins behind the checkpoint, so this was read from it.
        assert 1 < store.log.oldest() <= FOLDED["checkpoint"]
        (header,) = store.checkpoints.headers()
        assert header.version == 2
        before = store.histories.at(FOLDED["checkpoint"])
        assert declared.policies(before)["green/wrong"].errors == ("spec.topologyKey is missing",)
        stored = store.checkpoints.read(header, incarnation=before.position.incarnation)
        assert snapshot_format.digest(stored) == snapshot_format.digest(before)
    finally:
        store.close()


def test_a_store_of_the_version_before_serves_on(store_server: embedded.Server, cluster: str) -> None:
    store = opened(store_server, cluster)
    try:
        snapshot = store.follower.catch_up()
        policy = declared.policies(snapshot)["blue/web"]
        batch: list[events.AnyEvent] = [
            declared.observed(msgspec.structs.replace(policy, topology_key="rack")),
            declared.POLICIES.gone("green", "wrong", "x-2"),
        ]
        projection = projections.Projection(snapshot)
        projection.apply_all(batch)
        versions = {"policy:blue/web": FOLDED["versions"]["policy:blue/web"], "policies:green": 28}
        store.log.append(
            batches.Batch(events=batch, increments=projection.increments), batches.Guard(versions=versions)
        )
        after = past_stores.lawful(store)
        assert not [key for key in after.counts if key.startswith("green/") or "zone=" in key]
        store.checkpoints.write(after, 1)
        newest = max(store.checkpoints.headers(), key=lambda header: header.offset)
        assert newest.version == 7
        assert newest.digest == snapshot_format.digest(after)
    finally:
        store.close()
