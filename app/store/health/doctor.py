"""Runs all checks of a store, for ``topolog doctor store``."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import redis
from redis import exceptions

from app import settings
from app.store import errors, keys, schemas
from app.store.health import acl_checks, checks, durability, readiness
from app.store.log import tail_repair
from app.store.server import acl, connections, discovery, urls
from migrations import runner

_PINGS = 50
_SCANNED = 20_000
"""Keys that are examined, at most: the check must not slow down a large server."""


class Ownership(NamedTuple):
    """Whose log the store holds, and by whose leadership it was written last."""

    kubernetes: str
    """The UID of the cluster's kube-system namespace; empty if no recorder has set it yet."""
    epoch: str
    """Empty without an election."""


def ownership(options: settings.Store, names: keys.Keys) -> Ownership:
    """Read it from the store. Raises StoreError."""
    with schemas.connect(options, names) as client, connections.translated():
        found = client.hmget(names.meta, [keys.KUBERNETES, "epoch"])
    return Ownership(*(connections.text(value or b"") for value in found))


def examine(options: settings.Store, names: keys.Keys) -> list[checks.Finding]:
    """All findings that the user in the settings may read. Raises StoreAway or StoreError."""
    target = urls.parse(options.url)
    with schemas.connect(options, names) as client, connections.translated():
        seen = readiness.facts(client, kind=target.kind, tls=target.tls)
        return [
            checks.version(seen),
            checks.mode(seen),
            *durability.losses(seen),
            *([_unseen(names, "configuration", "config|get")] if seen.config is None else []),
            *_placements(options, names, seen),
            *durability.memory(seen),
            *durability.replication(seen),
            *_located(client),
            checks.transport(seen),
            *_tried(
                names,
                "users",
                "acl|dryrun",
                lambda: acl_checks.users(client, names, target, placements=options.placements),
            ),
            *_tried(names, "functions", "function|list", lambda: _functions(client, names)),
            *_tried(names, "keys", "type", lambda: _types(client, names)),
            *_tried(names, "log", "xinfo|stream", lambda: _tail(client, names)),
            *_tried(names, "other keys", "scan", lambda: [_others(client)]),
            *_tried(names, "snapshot file", "time", lambda: _snapshot(client, names, seen)),
            checks.latency(_round_trips(client)),
            *_tried(names, "clock", "time", lambda: [checks.clock(_ahead(client))]),
        ]


def _placements(
    options: settings.Store, names: keys.Keys, seen: checks.ServerFacts
) -> Sequence[checks.Finding]:
    if not options.synced:
        return []  # A placement counts as soon as it is acknowledged.
    if seen.config is None:
        return [_unseen(names, "placements", "config|get")]
    return [durability.placements(seen.config)]


def _snapshot(client: redis.Redis, names: keys.Keys, seen: checks.ServerFacts) -> Sequence[checks.Finding]:
    if seen.config is None:
        return [_unseen(names, "snapshot file", "config|get")]
    return [checks.snapshot(seen, _now(client))]


def _tried(
    names: keys.Keys, subject: str, command: str, look: Callable[[], Sequence[checks.Finding]]
) -> Sequence[checks.Finding]:
    try:
        return look()
    except (exceptions.NoPermissionError, errors.Denied):
        return [_unseen(names, subject, command)]


def _unseen(names: keys.Keys, subject: str, command: str) -> checks.Finding:
    return checks.Finding(
        subject,
        "unsure",
        "cannot be seen",
        f"this user has no +{command}",
        f"run this as {acl.PREFIX}{names.cluster}-doctor (`topolog doctor users`)",
    )


def _round_trips(client: redis.Redis) -> list[float]:
    client.ping()
    taken = []
    for _ in range(_PINGS):
        begun = time.perf_counter()
        client.ping()
        taken.append(1000 * (time.perf_counter() - begun))
    return taken


def _others(client: redis.Redis) -> checks.Finding:
    found = list(itertools.islice(client.scan_iter(count=1000), _SCANNED))
    foreign = sum(not connections.text(key).startswith(keys.COMMON) for key in found)
    return checks.others(foreign, len(found))


def _now(client: redis.Redis) -> float:
    seconds, microseconds = client.time()
    return float(seconds) + microseconds / 1e6


def _ahead(client: redis.Redis) -> float:
    """Milliseconds by which the server's clock is ahead of ours."""
    before = time.time()
    now = _now(client)
    return 1000 * (now - (before + time.time()) / 2)


def _functions(client: redis.Redis, names: keys.Keys) -> list[checks.Finding]:
    status = schemas.status(client, names)
    found = list(checks.functions(status.library, schema=status.schema, needed=runner.latest()))
    if status.other_counts:
        found.append(checks.counts(status.counts, keys.ending(names, names.counts)))
    return found


def _types(client: redis.Redis, names: keys.Keys) -> list[checks.Finding]:
    found = {getattr(names, name): wanted for name, wanted in keys.TYPES.items()}
    types = {key: (connections.text(client.type(key)), wanted) for key, wanted in found.items()}
    return list(checks.types(types))


def _tail(client: redis.Redis, names: keys.Keys) -> list[checks.Finding]:
    try:
        seen = tail_repair.inspect(client, names)
    except (errors.StoreAway, errors.Denied):
        raise
    except errors.StoreError:
        return []  # There is no log, or another finding covers it.
    return [checks.tail(seen.head, seen.generated, behind=len(seen.taken) + len(seen.foreign))]


# -- sentinels and cluster nodes -----------------------------------------------------------


def _located(client: redis.Redis) -> Iterator[checks.Finding]:
    finder = discovery.finder_of(client)
    if isinstance(finder, discovery.Sentinels):
        yield _sentinels(finder)
    elif isinstance(finder, discovery.SlotOwner):
        yield _primaries(client)


def _sentinels(finder: discovery.Sentinels) -> checks.Finding:
    masters, quorum = [], 0
    for address in finder.addresses:
        try:
            state = finder.ask(address)
        except (redis.RedisError, OSError):
            continue
        masters.append(f"{state['ip']}:{state['port']}")
        quorum = int(state["quorum"])
    agreeing = max(map(masters.count, masters), default=0)
    found = f"{len(masters)} of {len(finder.addresses)} answer, {agreeing} agree, quorum {quorum}"
    if len(finder.addresses) < 3:
        return checks.Finding(
            "sentinels",
            "poor",
            found,
            "with fewer than three, the loss of one ends failovers, or splits them",
            "run three on three machines, and name all in store.url",
        )
    if agreeing < len(finder.addresses):
        return checks.Finding(
            "sentinels",
            "poor" if agreeing > len(finder.addresses) // 2 else "bad",
            found,
            "without a majority no replica is promoted when the master dies",
            f"SENTINEL CKQUORUM {finder.master}, on each",
        )
    return checks.Finding("sentinels", "good", found)


def _primaries(client: redis.Redis) -> checks.Finding:
    finder = discovery.finder_of(client)
    count = len(finder.primaries()) if isinstance(finder, discovery.SlotOwner) else 0
    if count >= 3:
        return checks.Finding("nodes", "good", f"{count} with slots")
    return checks.Finding(
        "nodes",
        "poor",
        f"{count} with slots",
        "fewer than three masters cannot agree on a failover",
        "redis-cli --cluster add-node, then --cluster rebalance",
    )
