"""Checks that a server keeps acknowledged data: on disk, in memory, and on a second server.

A finding with ``loses=True`` makes the process not ready: the log would not survive a restart, or would
lose keys before.
"""

from collections.abc import Iterator, Mapping

from app.store.health import checks
from app.store.server import fsync

_FULL, _NEARLY_FULL = 0.95, 0.8
_MISLOADS = ((9, 0, 0), (9, 0, 2))
"""Valkey from the first release to before the second replays transactions of an append-only file into the
slot of the command before them (valkey-io/valkey issue 2995)."""


def losses(facts: checks.ServerFacts) -> Iterator[checks.Finding]:
    """The rules about losing data: role, persistence, eviction."""
    yield checks.role(facts)
    yield from persistence(facts)
    yield from loading(facts)
    yield eviction(facts)


def persistence(facts: checks.ServerFacts) -> Iterator[checks.Finding]:
    """The append-only file, and whether it reaches the disk."""
    config = facts.config or {}
    if facts.info.get("aof_enabled") != "1":
        yield checks.Finding(
            "appendonly",
            "bad",
            "no",
            "the log is gone, or minutes old, when the server restarts",
            _set("appendonly", "yes"),
            loses=True,
        )
        return
    yield checks.Finding("appendonly", "good", "yes")
    if facts.info.get("aof_last_write_status", "ok") != "ok":
        yield checks.Finding(
            "aof writes",
            "bad",
            "the last one failed",
            "the server refuses appends until its disk takes them",
            "see its log, and free space on its disk",
        )
    if facts.info.get("aof_last_bgrewrite_status", "ok") != "ok":
        yield checks.Finding(
            "aof rewrites",
            "poor",
            "the last one failed",
            "the file grows until the disk is full",
            "see the server's log, then: BGREWRITEAOF; the bundled store tries again by itself",
        )
    sync = config.get("appendfsync")
    if sync == "no":
        yield checks.Finding(
            "appendfsync",
            "bad",
            sync,
            "a power loss takes what the kernel had not written yet: half a minute and more",
            _set("appendfsync", "everysec"),
            loses=True,
        )
    elif sync is not None:
        yield checks.Finding("appendfsync", "good", sync)
    if config.get("no-appendfsync-on-rewrite") == "yes":
        yield checks.Finding(
            "no-appendfsync-on-rewrite",
            "poor",
            "yes",
            "while the file is rewritten nothing is synced, as with appendfsync no",
            _set("no-appendfsync-on-rewrite", "no"),
        )


def placements(config: Mapping[str, str]) -> checks.Finding:
    """Whether placements are on disk when the server replies, as store.placements: fsync demands.

    ``config``: the settings of the server.
    """
    found = fsync.difference(config)
    if found is None:
        return checks.Finding("placements", "good", "on disk before the server replies")
    return checks.Finding(
        "placements",
        "bad",
        f"{found.are}, and store.placements is fsync",
        "no placement is known to be on disk: no pod that needs one is bound, and no extender becomes ready",
        found.fix,
    )


def loading(facts: checks.ServerFacts) -> Iterator[checks.Finding]:
    """Whether a node of a Redis Cluster reads back what it wrote; nothing to find on a single server."""
    if checks.server_mode(facts) != "cluster":
        return
    first, fixed = _MISLOADS
    if "valkey_version" in facts.info and first <= checks.release(facts) < fixed:
        yield checks.Finding(
            "aof loading",
            "bad",
            f"Valkey {facts.info['valkey_version']}",
            "a node that restarts loads its append-only file into wrong slots: if it has keys of several"
            " clusters, it loses parts of their logs",
            "upgrade to Valkey 9.1 or later",
            loses=True,
        )
    else:
        yield checks.Finding("aof loading", "good", "every key into its slot")


def eviction(facts: checks.ServerFacts) -> checks.Finding:
    """A full server must refuse writes, not delete keys."""
    policy = facts.info.get("maxmemory_policy", "")
    if policy == "noeviction":
        return checks.Finding("maxmemory-policy", "good", policy)
    return checks.Finding(
        "maxmemory-policy",
        "bad",
        policy or "unknown",
        "a full server deletes the log, or what keeps a repeated append from counting twice",
        _set("maxmemory-policy", "noeviction"),
        loses=True,
    )


def memory(facts: checks.ServerFacts) -> Iterator[checks.Finding]:
    """The memory limit, and how much is used."""
    limit, used = _number(facts, "maxmemory"), _number(facts, "used_memory")
    if not limit:
        yield checks.Finding(
            "maxmemory",
            "poor",
            f"no limit, {_megabytes(used)} used",
            "a server that takes all memory is killed; with a limit it refuses appends and serves reads",
            _set("maxmemory", "4gb") + " (half of the machine's: a rewrite may double what it takes)",
        )
    else:
        share = used / limit
        full = f"{_megabytes(used)} of {_megabytes(limit)}"
        if share < _NEARLY_FULL:
            yield checks.Finding("maxmemory", "good", full)
        else:
            yield checks.Finding(
                "maxmemory",
                "bad" if share >= _FULL else "poor",
                full,
                "appends are refused once it is full",
                "see that a compactor runs; keep less (compaction.keep_bytes, compaction.decision_bytes), or"
                " raise it: CONFIG SET maxmemory, then CONFIG REWRITE; the bundled store:"
                " store.bundled.maxMemory and store.bundled.resources of the chart, or a patch of --maxmemory"
                " and the memory limit",
            )
    evicted = _number(facts, "evicted_keys")
    if evicted:
        yield checks.Finding(
            "evicted keys",
            "bad",
            str(evicted),
            "the server has deleted keys since it started; if they were of the log, it has a hole",
            "CONFIG SET maxmemory-policy noeviction, then start the recorder again: it logs what is missing",
        )


def replication(facts: checks.ServerFacts) -> Iterator[checks.Finding]:
    """Whether a second copy exists, and whether the master waits for it."""
    replicas = _number(facts, "connected_slaves")
    if not replicas:
        grade: checks.Grade = "bad" if facts.kind == "sentinel" else "poor"
        if facts.kind == "unix":
            grade = "good"
        yield checks.Finding(
            "replicas",
            grade,
            "none",
            "the log is on one disk only" if grade != "good" else "",
            "REPLICAOF MASTER PORT, on another server; the bundled store: replace it by one of yours"
            if grade != "good"
            else "",
        )
        return
    yield checks.Finding("replicas", "good", str(replicas))
    if facts.config is None:
        return
    if facts.config.get("min-replicas-to-write", "0") == "0":
        yield checks.Finding(
            "min-replicas-to-write",
            "poor",
            "0",
            "a master that lost its replicas still acknowledges what a failover then drops: thousands of"
            " events in a few seconds",
            _set("min-replicas-to-write", "1"),
        )
    elif int(facts.config.get("min-replicas-max-lag", "10")) > 10:
        yield checks.Finding(
            "min-replicas-max-lag",
            "poor",
            f"{facts.config['min-replicas-max-lag']} s",
            "for that long a master may acknowledge events that a failover then drops",
            _set("min-replicas-max-lag", "3"),
        )
    else:
        yield checks.Finding("min-replicas-to-write", "good", facts.config["min-replicas-to-write"])


def _set(name: str, value: str) -> str:
    return f"CONFIG SET {name} {value}, then CONFIG REWRITE"


def _number(facts: checks.ServerFacts, name: str) -> int:
    text = facts.info.get(name, "0")
    return int(text) if text.isdecimal() else 0


def _megabytes(number: int) -> str:
    return f"{number / 2**20:.0f} MiB"
