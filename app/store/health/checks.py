"""Rules about a server, evaluated on its INFO and CONFIG; pure.

Each finding has what was found, why it matters and what to run. The rules about durability are in
``durability``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from app.store import errors
from migrations import runner

Grade = Literal["good", "unsure", "poor", "bad"]
"""unsure: not readable; poor: works, with a risk; bad: does harm, or cannot work."""

OLDEST = (7, 0)
"""The first version with functions."""
_PATCHED: Mapping[str, Mapping[tuple[int, int], int]] = {
    "redis": {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    "valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
}
"""The releases that fix CVE-2025-49844: a user who may run scripts can take the server over."""
_FAR_MS, _TOO_FAR_MS = 5.0, 50.0
_LATE_MS = 1000.0
_DAY_HOURS = 24.0


class Finding(msgspec.Struct, frozen=True):
    """The result of one check."""

    subject: str
    grade: Grade
    found: str
    why: str = ""
    """Why it matters; empty if the grade is good."""
    run: str = ""
    """What to do about it."""
    loses: bool = False
    """Acknowledged data can be lost, beyond the documented guarantees: the process is not ready."""


class ServerFacts(msgspec.Struct, frozen=True):
    """INFO and CONFIG of a server."""

    info: Mapping[str, str]
    config: Mapping[str, str] | None = None
    """None if the user may not read it."""
    kind: str = ""
    """Of the URL: empty, unix, sentinel or cluster."""
    tls: bool = False


def release(facts: ServerFacts) -> tuple[int, ...]:
    """The numbers of the server's release, such as (9, 1, 2); Valkey also names a Redis that it is not."""
    text = facts.info.get("valkey_version") or facts.info.get("redis_version", "")
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def server_mode(facts: ServerFacts) -> str:
    """standalone, sentinel or cluster."""
    return facts.info.get("redis_mode") or facts.info.get("server_mode") or "standalone"


def version(facts: ServerFacts) -> Finding:
    """Whether the release has functions, and known vulnerabilities."""
    name = "valkey" if "valkey_version" in facts.info else "redis"
    numbers = release(facts)
    found = f"{name.capitalize()} {facts.info.get(f'{name}_version', '')}"
    if numbers[:2] < OLDEST:
        return Finding(
            "version",
            "bad",
            found,
            "all writes use functions, which exist since Redis 7.0",
            "install Redis 7.2 or later, or Valkey",
        )
    series = _PATCHED[name]
    patch = series.get((numbers[0], numbers[1]))
    if numbers[:2] > max(series) or (patch is not None and numbers[2] >= patch):
        return Finding("version", "good", found)
    return Finding(
        "version",
        "poor",
        found,
        "a user who may run scripts can take the server over (CVE-2025-49844), unless it was patched",
        f"upgrade to the latest release of {name.capitalize()}",
    )


def role(facts: ServerFacts) -> Finding:
    """Only a master takes writes."""
    found = facts.info.get("role", "unknown")
    if found == "master":
        return Finding("role", "good", found)
    return Finding(
        "role",
        "bad",
        f"{found} of {facts.info.get('master_host', '?')}:{facts.info.get('master_port', '?')}",
        "a replica refuses appends, and reads from it may be outdated",
        "name the master in store.url, or let sentinels name it (redis+sentinel://, with all of them)",
        loses=True,
    )


def mode(facts: ServerFacts) -> Finding:
    """A Redis Cluster needs a URL of that kind."""
    found = server_mode(facts)
    if found == "cluster" and facts.kind != "cluster":
        return Finding(
            "mode",
            "bad",
            found,
            "a node serves only its own slots, and they move",
            "write store.url as redis+cluster:// with some of the nodes",
        )
    return Finding("mode", "good", found)


def transport(facts: ServerFacts) -> Finding:
    """Whether the connection is encrypted."""
    if facts.tls or facts.kind == "unix":
        return Finding("transport", "good", "TLS" if facts.tls else "unix socket")
    return Finding(
        "transport",
        "poor",
        "plain TCP",
        "anyone who can read the network traffic gets the password and can write to the log",
        "listen on tls-port, and write store.url with rediss; the bundled store: store.bundled.tls"
        " of the chart, or deploy/components/store-tls",
    )


def latency(milliseconds: Sequence[float]) -> Finding:
    """Every call takes at least one round trip."""
    middle, worst = sorted(milliseconds)[len(milliseconds) // 2], max(milliseconds)
    found = f"{middle:.2f} ms, at worst {worst:.2f} ms of {len(milliseconds)}"
    if middle < _FAR_MS:
        return Finding("round trip", "good", found)
    return Finding(
        "round trip",
        "bad" if middle >= _TOO_FAR_MS else "poor",
        found,
        "every call of kube-scheduler takes at least one round trip, a bind two",
        "run the server in the same zone; look for slow commands: SLOWLOG GET, LATENCY DOCTOR",
    )


def clock(milliseconds: float) -> Finding:
    """``milliseconds``: how far the server's clock is ahead of ours."""
    found = f"{milliseconds:+.0f} ms"
    if abs(milliseconds) < _LATE_MS:
        return Finding("clock", "good", found)
    return Finding(
        "clock",
        "poor",
        found,
        "events have the server's time: ?at=TIME selects another moment than intended",
        "synchronise the clocks of both machines (chrony, systemd-timesyncd)",
    )


def types(found: Mapping[str, tuple[str, str]]) -> Iterator[Finding]:
    """``found``: key -> its type, and the type that it must have."""
    wrong = {key: types for key, types in found.items() if types[0] not in ("none", types[1])}
    if not wrong:
        yield Finding("keys", "good", f"{len(found)} of the right type, or not there yet")
    for key, (there, wanted) in wrong.items():
        yield Finding(
            "keys",
            "bad",
            f"{key} is a {there}",
            f"it must be a {wanted}: another program wrote there, and no process can use it",
            f"DEL {key}; it is rebuilt as far as the log or the API server allow",
        )


def tail(head: int, generated: str, *, behind: int) -> Finding:
    """Whether the log can be appended to; ``behind``: entries behind the head."""
    if int(generated.partition("-")[0]) <= head and not behind:
        return Finding("log", "good", f"the last id is {generated}, the head {head}")
    return Finding(
        "log",
        "bad",
        f"the last id is {generated}, the head {head}; {behind} entries lie behind it",
        "nothing can be appended: entries were added behind the head, and every id in a stream must be higher"
        " than all before it, removed ones included",
        "topolog doctor store --repair-tail, as the operator",
    )


def others(foreign: int, seen: int) -> Finding:
    """Whether the server holds keys of other programs: ``foreign`` of the ``seen`` keys."""
    if not foreign:
        return Finding("other keys", "good", f"none among {seen}")
    return Finding(
        "other keys",
        "poor",
        f"{foreign} of {seen} keys are not Topolog's",
        "another program can fill the memory that appends need, or delete the log with FLUSHALL",
        "a server for Topolog alone; several clusters may share it",
    )


def snapshot(facts: ServerFacts, now: float) -> Finding:
    """The age of the server's latest RDB file; ``now``: seconds since 1970, by the server's clock.

    A server that writes none, and keeps an append-only file, is backed up by a copy of that.
    """
    if (facts.config or {}).get("save") == "" and facts.info.get("aof_enabled") == "1":
        return Finding("snapshot file", "good", "none is written: back up the append-only file")
    hours = (now - float(facts.info.get("rdb_last_save_time") or now)) / 3600
    since_start = float(facts.info.get("uptime_in_seconds") or 0) / 3600
    if hours <= _DAY_HOURS:
        started = since_start <= hours + 0.01
        return Finding("snapshot file", "good", "started today" if started else f"{max(hours, 0):.1f} h old")
    return Finding(
        "snapshot file",
        "poor",
        f"{hours:.0f} h old",
        "a backup of it lacks everything since",
        "BGSAVE, and copy the file to another machine every day; --skip Q30 if the AOF is copied",
    )


def functions(state: str, *, schema: int, needed: int) -> Iterator[Finding]:
    """``state``: missing, outdated, current or newer, on the worst node."""
    if state in runner.USABLE:
        yield Finding("functions", "good", state)
    else:
        yield Finding(
            "functions",
            "bad",
            state,
            "nothing can be read or appended without them"
            if state == "missing"
            else "they are another version's",
            "topolog migrate up",
        )
    if schema == needed:
        yield Finding("schema", "good", str(schema))
    else:
        yield Finding(
            "schema",
            "bad",
            f"{schema}, needed {needed}",
            "processes of this version refuse to start on it",
            "topolog migrate up" if schema < needed else "use the newer Topolog that migrated it",
        )


def counts(live: str, needed: str) -> Finding:
    """The finding about live counts of another form."""
    return Finding(
        "counts",
        "bad",
        f"{live}, needed {needed}",
        "processes of this version with its plugins refuse the store",
        errors.ALIKE,
    )
