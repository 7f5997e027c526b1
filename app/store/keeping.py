"""Whether a server keeps what it acknowledged: on disk, in memory, and on a second server.

The rules that say ``loses`` are those that the processes do not get ready under: the log would not
outlive a restart, or lose keys in between.
"""

from collections.abc import Iterator

from app.store import findings

_FULL, _NEARLY_FULL = 0.95, 0.8


def losses(facts: findings.Facts) -> Iterator[findings.Finding]:
    """The rules about losing data: role, persistence, eviction."""
    yield findings.role(facts)
    yield from persistence(facts)
    yield eviction(facts)


def persistence(facts: findings.Facts) -> Iterator[findings.Finding]:
    """The append-only file, and whether it reaches the disk."""
    config = facts.config or {}
    if facts.info.get("aof_enabled") != "1":
        yield findings.Finding(
            "appendonly",
            "bad",
            "no",
            "the log is gone, or minutes old, when the server restarts",
            _set("appendonly", "yes"),
            loses=True,
        )
        return
    yield findings.Finding("appendonly", "good", "yes")
    if facts.info.get("aof_last_write_status", "ok") != "ok":
        yield findings.Finding(
            "aof writes",
            "bad",
            "the last one failed",
            "the server refuses appends until its disk takes them",
            "see its log, and make room on its disk",
        )
    if facts.info.get("aof_last_bgrewrite_status", "ok") != "ok":
        yield findings.Finding(
            "aof rewrites",
            "poor",
            "the last one failed",
            "the file grows until the disk is full",
            "see the server's log, then: BGREWRITEAOF",
        )
    sync = config.get("appendfsync")
    if sync == "no":
        yield findings.Finding(
            "appendfsync",
            "bad",
            sync,
            "a power loss takes what the kernel had not written yet: half a minute and more",
            _set("appendfsync", "everysec"),
            loses=True,
        )
    elif sync is not None:
        yield findings.Finding("appendfsync", "good", sync)
    if config.get("no-appendfsync-on-rewrite") == "yes":
        yield findings.Finding(
            "no-appendfsync-on-rewrite",
            "poor",
            "yes",
            "while the file is rewritten nothing is synced, as with appendfsync no",
            _set("no-appendfsync-on-rewrite", "no"),
        )


def eviction(facts: findings.Facts) -> findings.Finding:
    """A server that is full must say so, not throw keys away."""
    policy = facts.info.get("maxmemory_policy", "")
    if policy == "noeviction":
        return findings.Finding("maxmemory-policy", "good", policy)
    return findings.Finding(
        "maxmemory-policy",
        "bad",
        policy or "unknown",
        "a full server deletes the log, or what keeps a repeated append from counting twice",
        _set("maxmemory-policy", "noeviction"),
        loses=True,
    )


def memory(facts: findings.Facts) -> Iterator[findings.Finding]:
    """A limit, and how near it is."""
    limit, used = _number(facts, "maxmemory"), _number(facts, "used_memory")
    if not limit:
        yield findings.Finding(
            "maxmemory",
            "poor",
            f"no limit, {_megabytes(used)} used",
            "a server that takes all memory is killed; with a limit it refuses appends and reads go on",
            _set("maxmemory", "4gb") + " (half of the machine's: a rewrite may double what it takes)",
        )
    else:
        share = used / limit
        full = f"{_megabytes(used)} of {_megabytes(limit)}"
        if share < _NEARLY_FULL:
            yield findings.Finding("maxmemory", "good", full)
        else:
            yield findings.Finding(
                "maxmemory",
                "bad" if share >= _FULL else "poor",
                full,
                "appends are refused once it is full",
                "see that a compactor runs; raise it (CONFIG SET maxmemory), keep less"
                " (compaction.keep_bytes, compaction.decision_bytes)",
            )
    evicted = _number(facts, "evicted_keys")
    if evicted:
        yield findings.Finding(
            "evicted keys",
            "bad",
            str(evicted),
            "the server has deleted keys since it started; if they were of the log, it has a hole",
            "CONFIG SET maxmemory-policy noeviction, then start the recorder again: it says what is missing",
        )


def replication(facts: findings.Facts) -> Iterator[findings.Finding]:
    """Whether a second copy exists, and whether the master waits for it."""
    replicas = _number(facts, "connected_slaves")
    if not replicas:
        grade: findings.Grade = "bad" if facts.kind == "sentinel" else "poor"
        if facts.kind == "unix":
            grade = "good"
        yield findings.Finding(
            "replicas",
            grade,
            "none",
            "the log is on one disk only" if grade != "good" else "",
            "REPLICAOF MASTER PORT, on another server" if grade != "good" else "",
        )
        return
    yield findings.Finding("replicas", "good", str(replicas))
    if facts.config is None:
        return
    if facts.config.get("min-replicas-to-write", "0") == "0":
        yield findings.Finding(
            "min-replicas-to-write",
            "poor",
            "0",
            "a master that lost its replicas goes on acknowledging what a failover then drops: thousands of"
            " events in a few seconds",
            _set("min-replicas-to-write", "1"),
        )
    elif int(facts.config.get("min-replicas-max-lag", "10")) > 10:
        yield findings.Finding(
            "min-replicas-max-lag",
            "poor",
            f"{facts.config['min-replicas-max-lag']} s",
            "so long a master may acknowledge alone what a failover then drops",
            _set("min-replicas-max-lag", "3"),
        )
    else:
        yield findings.Finding("min-replicas-to-write", "good", facts.config["min-replicas-to-write"])


def _set(name: str, value: str) -> str:
    return f"CONFIG SET {name} {value}, then CONFIG REWRITE"


def _number(facts: findings.Facts, name: str) -> int:
    text = facts.info.get(name, "0")
    return int(text) if text.isdecimal() else 0


def _megabytes(number: int) -> str:
    return f"{number / 2**20:.0f} MiB"
