"""What is known of a server, and what is wrong with it: pure rules over what it said of itself.

Each finding says what is there, why it matters and what to run. What is about keeping data is in keeping.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

Grade = Literal["good", "unsure", "poor", "bad"]
"""unsure: it could not be seen; poor: it works and could hurt; bad: it does harm, or cannot work."""

OLDEST = (7, 0)
"""The first version with functions."""
_PATCHED: Mapping[str, Mapping[tuple[int, int], int]] = {
    "redis": {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2},
    "valkey": {(7, 2): 11, (8, 0): 6, (8, 1): 4},
}
"""The releases that mend CVE-2025-49844: a user who may run scripts can take the server over."""
_FAR_MS, _TOO_FAR_MS = 5.0, 50.0
_LATE_MS = 1000.0


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    subject: str
    grade: Grade
    found: str
    why: str = ""
    """Why it matters; empty if it is good."""
    run: str = ""
    """What to do about it."""
    loses: bool = False
    """Data that was acknowledged can be lost by it beyond what is promised."""


class Facts(msgspec.Struct, frozen=True):
    """What a server said of itself."""

    info: Mapping[str, str]
    config: Mapping[str, str] | None = None
    """None if the user may not read it."""
    kind: str = ""
    """Of the URL: empty, unix, sentinel or cluster."""
    tls: bool = False


def version(facts: Facts) -> Finding:
    """Functions, and known holes."""
    name = "valkey" if "valkey_version" in facts.info else "redis"
    said = facts.info.get(f"{name}_version", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", said)[:3])
    found = f"{name.capitalize()} {said}"
    if numbers[:2] < OLDEST:
        return Finding(
            "version",
            "bad",
            found,
            "functions, which everything is written by, exist since Redis 7.0",
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
        "whoever may run scripts can take this release over (CVE-2025-49844), unless its packager patched it",
        f"upgrade to the latest release of {name.capitalize()}",
    )


def role(facts: Facts) -> Finding:
    """Only a master takes writes."""
    found = facts.info.get("role", "unknown")
    if found == "master":
        return Finding("role", "good", found)
    return Finding(
        "role",
        "bad",
        f"{found} of {facts.info.get('master_host', '?')}:{facts.info.get('master_port', '?')}",
        "a replica takes no appends, and what is read from it may be old",
        "name the master in store.url, or let sentinels name it: redis+sentinel://HOST,HOST,HOST/MASTER",
        loses=True,
    )


def mode(facts: Facts) -> Finding:
    """A Redis Cluster must be asked as one."""
    found = facts.info.get("redis_mode") or facts.info.get("server_mode") or "standalone"
    if found == "cluster" and facts.kind != "cluster":
        return Finding(
            "mode",
            "bad",
            found,
            "a node answers only for its own slots, and they move",
            "write store.url as redis+cluster://HOST,HOST,HOST",
        )
    return Finding("mode", "good", found)


def transport(facts: Facts) -> Finding:
    """Whether others can read along."""
    if facts.tls or facts.kind == "unix":
        return Finding("transport", "good", "TLS" if facts.tls else "unix socket")
    return Finding(
        "transport",
        "poor",
        "plain TCP",
        "whoever sees the network reads the password and can write the log",
        "listen on tls-port with tls-auth-clients yes, and write store.url with rediss",
    )


def latency(milliseconds: Sequence[float]) -> Finding:
    """A round trip is part of every answer."""
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
        "events carry the server's time: ?at=TIME answers for another moment than is meant",
        "synchronise the clocks of both machines (chrony, systemd-timesyncd)",
    )


def types(found: Mapping[str, tuple[str, str]]) -> Iterator[Finding]:
    """``found``: key -> the type that it is of, and that it must be of."""
    wrong = {key: types for key, types in found.items() if types[0] not in ("none", types[1])}
    if not wrong:
        yield Finding("keys", "good", f"{len(found)} of the right type, or not there yet")
    for key, (there, wanted) in wrong.items():
        yield Finding(
            "keys",
            "bad",
            f"{key} is a {there}",
            f"it must be a {wanted}: something else was written there, and no process can use it",
            f"DEL {key}; what can be had again from the log or the API server is",
        )


def tail(head: int, generated: str, *, behind: int) -> Finding:
    """Whether the log can be appended to; ``behind``: entries behind the head."""
    if int(generated.partition("-")[0]) <= head and not behind:
        return Finding("log", "good", f"the last id is {generated}, the head {head}")
    return Finding(
        "log",
        "bad",
        f"the last id is {generated}, the head {head}; {behind} entries lie behind it",
        "nothing can be appended: somebody wrote behind the head, and a stream gives no id that is not higher"
        " than every one before it, removed ones included",
        "topolog doctor store --repair-tail, as the operator",
    )


def functions(state: str, *, schema: int, needed: int) -> Iterator[Finding]:
    """``state``: missing, outdated or current, on the worst node."""
    if state == "current":
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
