"""The time that the store takes for the commitment of a large gang: one append of 1,000 placements."""

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from app import settings
from app.domain import events, model, projections, snapshots
from app.plugins.elastic_quota import kinds, quota_model
from app.plugins.elastic_quota.trees import membership
from app.store import schemas, stores
from app.store.log import batches
from app.store.server import connections, embedded
from tests.support import declared

_CLUSTER = "bench"
MEMBERS, ROUNDS = 1_000, 9
QUOTA = "research"


def measure() -> float:
    """Milliseconds of the server for one call: the median of several gangs, each in a quota.

    As for a bind, the append expects a version of each member and a ceiling of the quota.
    """
    with TemporaryDirectory(prefix="topolog-") as directory:
        server = embedded.Server(Path(directory), append_only=True)
        try:
            with connections.connect(server.url) as client:
                schemas.migrate(client, declared.names(_CLUSTER), declared.SCHEMA)
            store = stores.open_store(
                settings.Store(url=server.url), schema=declared.SCHEMA, cluster=_CLUSTER
            )
            try:
                return statistics.median(_committed(store, number) for number in range(ROUNDS))
            finally:
                store.close()
        finally:
            server.stop()


def _committed(store: stores.Store, gang: int) -> float:
    snapshot = _with_members(store, gang)
    members = sorted((pod for pod in snapshot.pods.values() if pod.group == f"gang-{gang}"), key=_name)
    placements = tuple(
        model.Placement(pod=pod, node=f"node-{number}", at="now", planned=number > 0)
        for number, pod in enumerate(members)
    )
    event = events.PlacementsCommitted(placements=placements, claims=(f"gang:{gang}",))
    projection = projections.Projection(snapshot)
    projection.apply(event)
    subjects = [events.PodSeen(pod=pod).subject for pod in members]
    guard = batches.Guard(
        versions={subject: snapshot.version(subject) for subject in subjects},
        ceilings=dict.fromkeys(projection.increments, 10**9),
    )
    assert all(guard.versions.values())
    before = _spent(store)
    store.log.append(batches.Batch(events=(event,), increments=projection.increments), guard)
    return _spent(store) - before


def _with_members(store: stores.Store, gang: int) -> snapshots.Snapshot:
    """The head of the log, once it has the quota and the members."""
    quota = quota_model.Quota(
        uid=QUOTA, namespace="quotas", name=QUOTA, min={"cpu": 10**9}, max={"cpu": 10**9}
    )
    pods = [
        model.Pod(
            uid=f"{gang}-{number}",
            namespace="gangs",
            name=f"member-{number:04}",
            group=f"gang-{gang}",
            labels={membership.LABEL: QUOTA},
            requests={"cpu": 10},
        )
        for number in range(MEMBERS)
    ]
    seen: list[events.AnyEvent] = [kinds.QUOTAS.observed(quota)]
    seen += [events.PodSeen(pod=pod) for pod in pods]
    for start in range(0, len(seen), batches.MAX_EVENTS):
        part = seen[start : start + batches.MAX_EVENTS]
        projection = projections.Projection(store.follower.catch_up())
        projection.apply_all(part)
        store.log.append(batches.Batch(events=part, increments=projection.increments))
    return store.follower.catch_up()


def _name(pod: model.Pod) -> str:
    return pod.name


def _spent(store: stores.Store) -> float:
    """Milliseconds that the server has spent on calls of functions."""
    calls = store.client.info("commandstats").get("cmdstat_fcall", {})
    return float(calls.get("usec", 0)) / 1000
