"""Looking at a store from all sides: what ``topolog doctor store`` tells."""

import time
from collections.abc import Callable, Iterator, Sequence

import redis
from redis import exceptions

from app import settings
from app.store import (
    connecting,
    errors,
    findings,
    keeping,
    keys,
    locating,
    mending,
    opening,
    permissions,
    trying,
    urls,
    vetting,
)
from migrations import running

_PINGS = 50


def examine(options: settings.Store, names: keys.Keys) -> list[findings.Finding]:
    """Everything that can be seen with the user of the settings. Raises StoreAway or StoreError."""
    target = urls.parse(options.url)
    with opening.connect(options, names) as client, connecting.translated():
        seen = vetting.facts(client, kind=target.kind, tls=target.tls)
        return [
            findings.version(seen),
            findings.mode(seen),
            *keeping.losses(seen),
            *([_unseen(names, "configuration", "config|get")] if seen.config is None else []),
            *keeping.memory(seen),
            *keeping.replication(seen),
            *_located(client),
            findings.transport(seen),
            *_tried(
                names,
                "users",
                "acl|dryrun",
                lambda: trying.users(client, names, target, placements=options.placements),
            ),
            *_tried(names, "functions", "function|list", lambda: _functions(client, names)),
            *_tried(names, "keys", "type", lambda: _types(client, names)),
            *_tried(names, "log", "xinfo|stream", lambda: _tail(client, names)),
            findings.latency(_round_trips(client)),
            *_tried(names, "clock", "time", lambda: [findings.clock(_ahead(client))]),
        ]


def _tried(
    names: keys.Keys, subject: str, command: str, look: Callable[[], Sequence[findings.Finding]]
) -> Sequence[findings.Finding]:
    try:
        return look()
    except (exceptions.NoPermissionError, errors.Denied):
        return [_unseen(names, subject, command)]


def _unseen(names: keys.Keys, subject: str, command: str) -> findings.Finding:
    return findings.Finding(
        subject,
        "unsure",
        "cannot be seen",
        f"this user has no +{command}",
        f"run this as {permissions.PREFIX}{names.cluster}-doctor (`topolog doctor users`)",
    )


def _round_trips(client: redis.Redis) -> list[float]:
    client.ping()
    taken = []
    for _ in range(_PINGS):
        begun = time.perf_counter()
        client.ping()
        taken.append(1000 * (time.perf_counter() - begun))
    return taken


def _ahead(client: redis.Redis) -> float:
    """Milliseconds by which the server's clock is ahead of ours."""
    before = time.time()
    seconds, microseconds = client.time()
    return 1000 * (seconds + microseconds / 1e6 - (before + time.time()) / 2)


def _functions(client: redis.Redis, names: keys.Keys) -> list[findings.Finding]:
    status = opening.status(client, names)
    return list(findings.functions(status.library, schema=status.schema, needed=running.latest()))


def _types(client: redis.Redis, names: keys.Keys) -> list[findings.Finding]:
    found = {getattr(names, name): wanted for name, wanted in keys.TYPES.items()}
    types = {key: (connecting.text(client.type(key)), wanted) for key, wanted in found.items()}
    return list(findings.types(types))


def _tail(client: redis.Redis, names: keys.Keys) -> list[findings.Finding]:
    try:
        seen = mending.look(client, names)
    except (errors.StoreAway, errors.Denied):
        raise
    except errors.StoreError:
        return []  # There is no log, or it is another finding's.
    return [findings.tail(seen.head, seen.generated, behind=len(seen.taken) + len(seen.foreign))]


# -- who knows where it is -----------------------------------------------------------------


def _located(client: redis.Redis) -> Iterator[findings.Finding]:
    finder = locating.finder_of(client)
    if isinstance(finder, locating.Sentinels):
        yield _sentinels(finder)
    elif isinstance(finder, locating.Owner):
        yield _primaries(client)


def _sentinels(finder: locating.Sentinels) -> findings.Finding:
    said, quorum = [], 0
    for address in finder.addresses:
        try:
            state = finder.ask(address)
        except (redis.RedisError, OSError):
            continue
        said.append(f"{state['ip']}:{state['port']}")
        quorum = int(state["quorum"])
    most = max(map(said.count, said), default=0)
    found = f"{len(said)} of {len(finder.addresses)} answer, {most} agree, quorum {quorum}"
    if len(finder.addresses) < 3:
        return findings.Finding(
            "sentinels",
            "poor",
            found,
            "with fewer than three, the loss of one ends failovers, or splits them",
            "run three on three machines, and name all in store.url",
        )
    if most < len(finder.addresses):
        return findings.Finding(
            "sentinels",
            "poor" if most > len(finder.addresses) // 2 else "bad",
            found,
            "without a majority no replica is promoted when the master dies",
            f"SENTINEL CKQUORUM {finder.master}, on each",
        )
    return findings.Finding("sentinels", "good", found)


def _primaries(client: redis.Redis) -> findings.Finding:
    finder = locating.finder_of(client)
    count = len(finder.primaries()) if isinstance(finder, locating.Owner) else 0
    if count >= 3:
        return findings.Finding("nodes", "good", f"{count} with slots")
    return findings.Finding(
        "nodes",
        "poor",
        f"{count} with slots",
        "fewer than three masters cannot agree on a failover",
        "redis-cli --cluster add-node, then --cluster rebalance",
    )
