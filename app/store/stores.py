"""Opens a store: from the settings to all the objects that use it."""

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import redis

from app import settings
from app.domain import schema as kinds
from app.pauses import Pauses
from app.store import errors, keys, schemas
from app.store.checkpoints import archive_storage, archives, checkpoints, recovery_points
from app.store.decisions import decision_log
from app.store.health import readiness
from app.store.log import consumers, lineages, logs
from app.store.server import connections, memory_use
from app.store.state import followers, histories, read_pace

_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 660.0
"""How long a process waits for a store that was not usable since its start: its URL may be of another time. A
kubelet starts a container again after ten seconds, and not later each time, if it has run for ten minutes."""


@dataclass(frozen=True, slots=True)
class Store:
    """One cluster's store, opened. The follower and the decisions' writer are not started yet."""

    client: redis.Redis
    keys: keys.Keys
    schema: kinds.Schema
    """The kinds and counters by which the log is folded."""
    log: logs.Log
    follower: followers.Follower
    histories: histories.Histories
    decisions: decision_log.DecisionLog
    checkpoints: checkpoints.Checkpoints
    recovery_points: recovery_points.RecoveryPoints
    durability: readiness.DurabilityCheck
    memory_use: memory_use.MemoryUse
    archive: archives.Archive | None = None
    """Entries that the log no longer holds; None without an archive."""

    def start(self, *, gather: float = 0.0) -> None:
        """Start the threads: after a fork, never before. ``gather``: see ``Follower.start``."""
        self.follower.start(gather=gather)
        self.decisions.start()

    def close(self) -> None:
        """Stop the threads, close the connections."""
        self.decisions.stop()
        self.follower.stop()
        self.log.close()
        self.client.close()


def open_store(
    options: settings.Store,
    *,
    cluster: str,
    schema: kinds.Schema,
    indexed: Iterable[str] = (),
    archive: str = "",
    emptied: bool = False,
) -> Store:
    """Open the cluster's store; ``archive`` is the place of its archive, empty for none.

    ``schema``: the kinds and counters by which the log is folded. The store must have been migrated to this
    version's schema. ``emptied``: also open a store that holds only the functions, for a recorder that
    recovers a lost log. Raises SchemaMismatch, StoreAway, or StoreError for a URL that is invalid or empty.
    """
    names = keys.Keys(cluster, schema.forms)
    client = schemas.connect(options, names)
    schemas.check(client, names, emptied=emptied)
    return _opened(client, names, options, schema, indexed, archive)


def await_store(
    options: settings.Store,
    *,
    cluster: str,
    schema: kinds.Schema,
    notify: Callable[[str], None],
    indexed: Iterable[str] = (),
    archive: str = "",
    emptied: bool = False,
) -> Store:
    """As ``open_store``, but waits while the store is away, for PATIENCE_SECONDS at most.

    The URL of a container is that of its start, so that one which ends gets the current one. An
    incarnation that no event began is waited for without a limit, because an operator has to correct it.
    ``notify`` is called with the reason whenever it changes. Raises StoreAway, and SchemaMismatch and other
    errors that need an operator.
    """
    pauses, reported = Pauses(_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS), ""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return open_store(
                options, cluster=cluster, schema=schema, indexed=indexed, archive=archive, emptied=emptied
            )
        except errors.StoreAway as away:
            if time.monotonic() >= end and not isinstance(away, errors.Unbegun):
                raise errors.away(
                    f"{errors.cause(away)}; not usable for {PATIENCE_SECONDS:.0f} s since the start, so this"
                    " process ends: its next start reads store.url again"
                ) from away
            if str(away) != reported:
                reported = str(away)
                notify(reported)
        time.sleep(pauses.take())


def _opened(
    client: redis.Redis,
    names: keys.Keys,
    options: settings.Store,
    schema: kinds.Schema,
    indexed: Iterable[str],
    place: str,
) -> Store:
    with connections.translated():
        found, bundle = client.hmget(names.meta, ["incarnation", keys.BUNDLE])
    incarnation = connections.text(found or b"")
    if bundle is None:
        lineages.prove(client, names, incarnation)
    # A bundle may end before the event that began its incarnation: the log keeps the entries of former ones.
    log = logs.Log(
        client,
        names,
        incarnation,
        timeout=options.socket_timeout,
        synced=options.synced,
    )
    with contextlib.suppress(errors.Rewound):
        # Verifies that the functions are loaded. The follower reports a loss, and continues once a recorder
        # has begun another incarnation.
        log.read(log.head().offset, limit=1)
    kept = checkpoints.Checkpoints(client, names, schema)
    archive = None
    if place:
        storage = archive_storage.opened(place, names.cluster)
        archive = archives.Archive(storage, names.cluster, lambda: log.incarnation)
    recovery = recovery_points.RecoveryPoints(log, kept, archive)
    follower = followers.Follower(
        log,
        schema=schema,
        indexed=frozenset(indexed),
        recovery=recovery,
        consumer=consumers.Consumer(client, names),
    )
    pace = read_pace.Pace()
    past = histories.Histories(log, follower, recovery, archive, pace=pace)
    return Store(
        client=client,
        keys=names,
        schema=schema,
        log=log,
        follower=follower,
        histories=past,
        decisions=decision_log.DecisionLog(client, names, follower, kept=options.decisions_kept, pace=pace),
        checkpoints=kept,
        recovery_points=recovery,
        archive=archive,
        memory_use=memory_use.MemoryUse(client, names),
        durability=readiness.DurabilityCheck(client, durable=options.require_durable),
    )
