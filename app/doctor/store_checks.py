"""The checks of the store's server as checks of the doctor: an ID for each subject of app.store.health."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from app import settings
from app.doctor import api_reader
from app.framework import doctor_checks
from app.store import errors, keys
from app.store.health import checks, doctor

_PAGE: Final = "how-to/store.md"
_SET_UP: Final = f"{_PAGE}#set-up-the-server"
_REPLICAS: Final = f"{_PAGE}#replicas-and-sentinels"
_VERDICTS: Mapping[str, doctor_checks.Verdict] = {
    "good": doctor_checks.OK,
    "unsure": doctor_checks.UNSURE,
    "poor": doctor_checks.WARNING,
    "bad": doctor_checks.PROBLEM,
}
_NOT_READY = " (the processes do not become ready)"


def _check(identity: str, about: str, docs: str = _SET_UP) -> doctor_checks.Check:
    return doctor_checks.Check(identity, about, "", "", docs)


_SCHEMA: Final = _check(
    "Q23", "The schema, and the form of the counts, are those of this version.", f"{_PAGE}#upgrade"
)
_BY_SUBJECT: Final[Mapping[str, doctor_checks.Check]] = {
    "version": _check("Q01", "The server has functions, and no known vulnerability.", f"{_PAGE}#choose"),
    "mode": _check("Q02", "A Redis Cluster is named as one in store.url.", f"{_PAGE}#choose"),
    "role": _check("Q03", "The server is a master."),
    "appendonly": _check("Q04", "The server keeps an append-only file."),
    "aof writes": _check("Q05", "The server can write its append-only file.", f"{_PAGE}#at-its-limits"),
    "aof rewrites": _check("Q06", "The server can rewrite its append-only file.", f"{_PAGE}#at-its-limits"),
    "aof loading": _check(
        "Q31", "A node of a Redis Cluster loads its append-only file as it was written.", f"{_PAGE}#choose"
    ),
    "appendfsync": _check("Q07", "The append-only file is synced at least once a second."),
    "no-appendfsync-on-rewrite": _check("Q08", "It is synced while it is rewritten, too."),
    "placements": _check("Q32", "With store.placements: fsync, the server syncs before it replies."),
    "maxmemory-policy": _check("Q09", "The server evicts no keys."),
    "maxmemory": _check(
        "Q10", "The server has a memory limit, and memory is left below it.", f"{_PAGE}#at-its-limits"
    ),
    "evicted keys": _check("Q11", "The server has evicted no key since it started."),
    "replicas": _check("Q12", "There is a second copy of the log.", _REPLICAS),
    "min-replicas-to-write": _check("Q13", "A master without replicas acknowledges no append.", _REPLICAS),
    "min-replicas-max-lag": _check("Q14", "A replica that is far behind does not count as one.", _REPLICAS),
    "sentinels": _check("Q15", "A majority of three sentinels or more names one master.", _REPLICAS),
    "nodes": _check("Q16", "A Redis Cluster has three masters or more."),
    "transport": _check("Q17", "The connection is encrypted."),
    "configuration": _check("Q18", "The server's configuration can be read."),
    "user default": _check(
        "Q19", "A client without a password may do nothing, and what was appended can be loaded."
    ),
    "users of roles": _check("Q20", "Each process has a user of its own."),
    "users": _check("Q20", "Each process has a user of its own."),
    "functions": _check("Q22", "The functions are those of this version.", f"{_PAGE}#upgrade"),
    "schema": _SCHEMA,
    "counts": _SCHEMA,
    "keys": _check("Q24", "Each key has its type."),
    "log": _check("Q25", "The log can be appended to.", "how-to/consistency.md#when-appends-are-blocked"),
    "other keys": _check("Q29", "The server is Topolog's alone."),
    "snapshot file": _check(
        "Q30",
        "A snapshot file that the server writes is at most a day old.",
        "how-to/history.md#back-up-and-restore",
    ),
    "round trip": _check("Q26", "The server is near.", f"{_PAGE}#at-its-limits"),
    "clock": _check("Q27", "The server's clock and that of this machine agree."),
}
"""Subject of a finding -> its check."""
_USER: Final = _check("Q21", "The user of each role has the rights that it needs, and no others.")
AWAY: Final = doctor_checks.Check(
    "Q28",
    "The store answers.",
    "no pod under a hard quota is scheduled, and nothing is recorded",
    "start the server, and check store.url (`topolog settings store.url`)",
    "how-to/monitoring.md#topologstoreaway",
)
CHECKS: Final = (*dict.fromkeys(_BY_SUBJECT.values()), _USER, AWAY)


def examine(options: settings.Store, names: keys.Keys) -> list[doctor_checks.Result]:
    """All checks that the user in store.url may make. Raises StoreAway or StoreError."""
    return list(results(doctor.examine(options, names)))


def ownership(options: settings.Store, names: keys.Keys) -> doctor.Ownership | api_reader.Unseen:
    """Whose log the store holds, or why that could not be read."""
    if not options.url:
        return api_reader.Unseen("store.url is not set", "set store.url (TOPOLOG_STORE_URL)")
    try:
        return doctor.ownership(options, names)
    except errors.StoreError as problem:
        return api_reader.Unseen(str(problem), "topolog doctor store")


def unavailable(problem: errors.StoreError) -> doctor_checks.Result:
    """The result if nothing else can be seen."""
    return AWAY.problem("store", str(problem))


def results(findings: Sequence[checks.Finding]) -> Iterator[doctor_checks.Result]:
    """Each finding as a result."""
    for one in findings:
        check = check_of(one.subject)
        why = f"{one.why}{_NOT_READY if one.loses else ''}"
        yield doctor_checks.Result(
            check.id, f"store, {one.subject}", _VERDICTS[one.grade], one.found, why, one.run, check.docs
        )


def check_of(subject: str) -> doctor_checks.Check:
    """The check of a finding's subject."""
    return _BY_SUBJECT.get(subject, _USER) if subject.startswith("user ") else _BY_SUBJECT[subject]
