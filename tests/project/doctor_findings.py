"""Everything that ``topolog doctor store`` may find wrong, by giving its rules what is wrong."""

from collections.abc import Iterator

from app.doctor import store_checks
from app.store import keys
from app.store.health import checks, durability

_GOOD = {"role": "master", "aof_enabled": "1", "maxmemory_policy": "noeviction", "maxmemory": "100"}
_REPLICATED = {**_GOOD, "connected_slaves": "1"}
_MARKS = {"poor": "warning", "bad": "problem"}


def lines() -> list[str]:
    """The table of the page."""
    found: dict[tuple[str, ...], checks.Finding] = {}
    for one in _all():
        if one.grade in _MARKS:
            found.setdefault((one.subject, one.grade, one.why, one.run), one)
    return [
        "| ID | about | finds | verdict | why it matters | what to run |",
        "|---|---|---|---|---|---|",
        *map(_row, found.values()),
    ]


def _row(one: checks.Finding) -> str:
    identity = store_checks.check_of(one.subject).id
    verdict = f"{_MARKS[one.grade]}{', not ready' if one.loses else ''}"
    return f"| {identity} | {one.subject} | {one.found} | {verdict} | {one.why} | {one.run} |"


def _facts(
    changes: dict[str, str], config: dict[str, str] | None = None, kind: str = ""
) -> checks.ServerFacts:
    return checks.ServerFacts({**_GOOD, **changes}, config or {}, kind=kind)


def _all() -> Iterator[checks.Finding]:
    for version in ("6.2.14", "7.2.4"):
        yield checks.version(_facts({"redis_version": version}))
    yield checks.mode(_facts({"redis_mode": "cluster"}))
    yield checks.role(_facts({"role": "slave", "master_host": "HOST", "master_port": "PORT"}))
    yield from durability.persistence(_facts({"aof_enabled": "0"}))
    failed = {"aof_last_write_status": "err", "aof_last_bgrewrite_status": "err"}
    yield from durability.persistence(_facts(failed))
    yield from durability.persistence(_facts({}, {"appendfsync": "no", "no-appendfsync-on-rewrite": "yes"}))
    yield durability.placements(
        {"appendonly": "yes", "appendfsync": "everysec", "no-appendfsync-on-rewrite": "no"}
    )
    yield from durability.loading(_facts({"redis_mode": "cluster", "valkey_version": "9.0.0"}))
    yield durability.eviction(_facts({"maxmemory_policy": "allkeys-lru"}))
    yield from durability.memory(_facts({"maxmemory": "0"}))
    for used in ("85000000", "99000000"):
        yield from durability.memory(_facts({"maxmemory": "100000000", "used_memory": used}))
    yield from durability.memory(_facts({"evicted_keys": "7"}))
    yield from durability.replication(_facts({}))
    yield from durability.replication(_facts({}, kind="sentinel"))
    yield from durability.replication(_facts(_REPLICATED, {"min-replicas-to-write": "0"}))
    slow = {"min-replicas-to-write": "1", "min-replicas-max-lag": "60"}
    yield from durability.replication(_facts(_REPLICATED, slow))
    yield checks.transport(_facts({}))
    yield from checks.types({"KEY": ("string", "hash")})
    yield checks.tail(41, "1795384267996-0", behind=1)
    for milliseconds in (7.0, 80.0):
        yield checks.latency([milliseconds])
    yield checks.others(3, 40)
    yield checks.snapshot(_facts({"rdb_last_save_time": "0"}), 30 * 3600.0)
    yield checks.clock(1100.0)
    for state in ("missing", "outdated"):
        yield from checks.functions(state, schema=keys.SCHEMA, needed=keys.SCHEMA)
    for schema in (0, 9):
        yield from checks.functions("current", schema=schema, needed=keys.SCHEMA)
    yield checks.counts("counts:2", "counts:2,shares.1")
