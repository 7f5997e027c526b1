"""Checks of processes: pure functions of what their health ports and the log show."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app import plurals
from app.doctor import api_reader
from app.doctor.run import catalog, process_facts
from app.framework import doctor_checks
from app.telemetry import metrics

STALE_WATCH: Final = 180.0
"""Seconds: as the alert TopologWatchStale."""
STALE_AUDIT: Final = 300.0
BEHIND: Final = 5.0
EXPIRING: Final = 7 * 86_400.0
"""Seconds: as the alert TopologCertificateExpiresSoon."""
FULL: Final = 0.85
"""Share of maxmemory: as the alert TopologStoreMemory."""
SILENT: Final = 60.0
"""Seconds that a pod waits for its first call."""
UPGRADE: Final = 900.0
"""Seconds in which an upgrade replaces all processes: as the alert TopologMixedVersions."""
TAKEOVER: Final = 45.0
"""Seconds in which a process takes over the Lease of a predecessor that did not release it."""
_UNKNOWN: Final = "unknown"
"""Kind of differences that make nothing wrong: fields of meta that the auditor's version does not have."""
_NAMED = 3
_MEASURED = (
    catalog.VERSION,
    catalog.CONFIGURATION,
    catalog.FOLLOWING,
    catalog.RECORDED,
    catalog.CERTIFICATES,
    catalog.STORE,
)
"""What the metrics of an extender show."""
_REQUIRED = (metrics.EXTENDER, metrics.RECORDER, metrics.CONTROLLER)
"""Roles without which pods are not scheduled as they have to be."""


def of_processes(
    found: Sequence[process_facts.Process], now: float, leases: str
) -> Iterator[doctor_checks.Result]:
    """R01 to R09, and R12 to R15; ``now``: seconds since 1970; ``leases``: the namespace of the Leases."""
    yield from map(_ready, found)
    yield from _complete(found)
    seen = [one for one in found if one.samples]
    for role in metrics.ELECTED:
        yield from _leader(role, [one for one in found if one.role == role], now, leases)
    yield from _agreeing(seen, now)
    for one in seen:
        if one.role == metrics.RECORDER:
            yield from _watching(one, now)
            yield from _decoded(one)
        if one.role in (metrics.EXTENDER, metrics.CONTROLLER):
            yield _following(one)
        if one.role == metrics.AUDITOR:
            yield _consistent(one, now)
        if one.role == metrics.EXTENDER:
            yield _recorded(one)
            yield from _certified(one, now)
        if one.role == metrics.COMPACTOR:
            yield _roomy(one)
        yield _connected(one)
    for one in found:
        if one.unseen and _answers(one):
            for check in _MEASURED:
                yield check.unsure(f"{one.role} {one.name}", one.unseen, fix=one.fix)


def called(last: str, waiting: Sequence[Mapping[str, Any]]) -> doctor_checks.Result:
    """R10. ``last``: time of the newest decision; ``waiting``: items of GET /apis/v1/pending."""
    subject = "kube-scheduler"
    seen = f"last call at {last}" if last else "no call in the log"
    silent = [
        f"{one['namespace']}/{one['name']}"
        for one in waiting
        if one["attempts"] == 0
        and one["attemptsComplete"]
        and (one["age"] or 0) > SILENT
        and not one["message"]
    ]
    if silent:
        return catalog.CALLED.warning(subject, f"{seen}; none about {plurals.listed(silent)}")
    return catalog.CALLED.ok(subject, f"{seen}; {len(waiting)} pods wait")


def archive(
    settings: Mapping[str, Any], found: Sequence[process_facts.Process] | api_reader.Unseen
) -> doctor_checks.Result:
    """R11. ``settings``: of a running extender, as GET /apis/v1/settings has them.

    ``found``: the processes, or why they are not known.
    """
    subject, read = "extenders", str(settings.get("compaction.archive") or "")
    if read:
        return catalog.ARCHIVE.ok(subject, f"compaction.archive: {read}")
    empty = "compaction.archive is empty"
    if isinstance(found, api_reader.Unseen):
        return catalog.ARCHIVE.unsure(subject, f"{empty}; the processes: {found.reason}", fix=found.fix)
    compactors = [one for one in found if one.role == metrics.COMPACTOR]
    seen = [one for one in compactors if one.samples]
    written = [one for one in seen if (one.value("topolog_archived_offset") or 0) > 0]
    if written:
        return catalog.ARCHIVE.warning(subject, f"{written[0].name} archives, and {empty}")
    if not seen:
        start = doctor_checks.filled(catalog.COMPLETE.fix, _start(metrics.COMPACTOR))
        fix = next((one.fix for one in compactors if one.unseen), start)
        return catalog.ARCHIVE.unsure(subject, f"{empty}; whether a compactor archives was not seen", fix=fix)
    return catalog.ARCHIVE.ok(subject, "there is no archive")


def _ready(one: process_facts.Process) -> doctor_checks.Result:
    subject = f"{one.role or 'process'} {one.name}"
    if one.unseen and not _answers(one):
        return catalog.READY.unsure(subject, one.unseen, fix=one.fix)
    if not one.ready:
        return catalog.READY.problem(subject, "; ".join(one.problems) or "not ready", known={"LOG": one.log})
    return catalog.READY.ok(subject, "ready")


def _answers(one: process_facts.Process) -> bool:
    """Whether it shows its metrics, or why it has none."""
    return bool(one.samples or (one.unseen and (one.ready or one.problems)))


def _complete(found: Sequence[process_facts.Process]) -> Iterator[doctor_checks.Result]:
    for role in metrics.PROCESSES:
        own = [one for one in found if one.role == role]
        answering = sum(map(_answers, own))
        unseen = next((one for one in own if one.unseen), None)
        seen = f"{answering} of {len(own)} answering" if answering < len(own) else str(answering)
        if answering:
            yield catalog.COMPLETE.ok(role, seen)
        elif unseen is not None:
            yield catalog.COMPLETE.unsure(role, seen, fix=unseen.fix)
        else:
            verdict = catalog.COMPLETE.problem if role in _REQUIRED else catalog.COMPLETE.warning
            yield verdict(role, seen if own else "none", why=catalog.LACKING[role], known=_start(role))


def _start(role: str) -> Mapping[str, str]:
    """What the capitals of the fix of R02 stand for."""
    return {"COMMAND": catalog.COMMANDS[role]}


def _leader(
    role: str, found: Sequence[process_facts.Process], now: float, leases: str
) -> Iterator[doctor_checks.Result]:
    seen = [one for one in found if one.samples]
    unseen = next((one for one in found if one.unseen), None)
    leading = [
        one.name
        for one in seen
        if any(value for _, value in one.samples.get("topolog_leader_election_master_status", ()))
    ]
    known = {"NAMESPACE": leases, "REPLICAS": ", ".join(one.name for one in found)}
    if len(leading) == 1:
        yield catalog.LEADER.ok(role, f"{leading[0]} leads, of {len(found)}")
    elif leading:
        yield catalog.LEADER.warning(role, f"{len(leading)} lead: {', '.join(leading)}", known=known)
    elif unseen is not None:
        yield catalog.LEADER.unsure(role, f"{unseen.name} may lead: {unseen.unseen}", fix=unseen.fix)
    elif not seen:
        return  # R01 and R02 are about those that do not answer.
    elif (age := now - min(map(_started, seen))) < TAKEOVER:
        yield catalog.LEADER.unsure(
            role,
            f"none of {len(found)} leads, after {max(age, 0):.0f} s",
            fix=f"repeat the check in {TAKEOVER - age:.0f} s",
        )
    else:
        yield catalog.LEADER.problem(role, f"none of {len(found)} leads", known=known)


def _agreeing(found: Sequence[process_facts.Process], now: float) -> Iterator[doctor_checks.Result]:
    for check, metric, labels in (
        (catalog.VERSION, "topolog_build_info", ("version", "schema")),
        (catalog.CONFIGURATION, "topolog_configuration_info", ("digest",)),
    ):
        having: dict[str, list[process_facts.Process]] = defaultdict(list)
        for one in found:
            for given in one.labels(metric):
                having[", ".join(f"{label} {given.get(label, '?')}" for label in labels)].append(one)
        if len(having) == 1:
            yield check.ok("processes", next(iter(having)))
        elif having:
            spelled = "; ".join(
                f"{what}: {', '.join(one.name for one in those[:_NAMED])}"
                for what, those in sorted(having.items())
            )
            # They have differed since the first process of the latest kind started.
            age = now - max(min(map(_started, those)) for those in having.values())
            upgrading = check is catalog.VERSION and age < UPGRADE
            fix = _upgraded(check, found)
            if upgrading:
                yield check.warning("processes", f"{spelled}; for {max(age, 0):.0f} s", fix=fix)
            else:
                yield check.problem("processes", spelled, fix=fix)


def _started(one: process_facts.Process) -> float:
    return one.value("process_start_time_seconds") or 0.0


def _upgraded(check: doctor_checks.Check, found: Sequence[process_facts.Process]) -> str:
    """What makes the processes agree."""
    if check is catalog.VERSION and not found[0].namespace:
        return "finish the upgrade: restart the processes of the older version"
    return doctor_checks.filled(check.fix, {"NAMESPACE": found[0].namespace})


def _watching(one: process_facts.Process, now: float) -> Iterator[doctor_checks.Result]:
    progress = one.samples.get("topolog_watch_last_progress_timestamp_seconds", ())
    stale = [f"{labels['kind']} {now - at:.0f} s ago" for labels, at in progress if now - at > STALE_WATCH]
    subject = f"{one.role} {one.name}"
    if stale:
        yield catalog.WATCHING.problem(subject, ", ".join(stale), known={"LOG": one.log})
    elif progress:
        oldest = max(now - at for _, at in progress)
        yield catalog.WATCHING.ok(subject, f"{len(progress)} kinds, within {max(oldest, 0):.0f} s")


def _decoded(one: process_facts.Process) -> Iterator[doctor_checks.Result]:
    """R15; none for a recorder that has received nothing, as on standby."""
    counted = one.samples.get("topolog_quarantined_total", ())
    subject = f"{one.role} {one.name}"
    found = [f"{value:.0f} of {labels['kind']}" for labels, value in counted if value]
    if found:
        yield catalog.QUARANTINED.warning(subject, f"could not decode, since it started: {', '.join(found)}")
    elif counted and one.samples.get("topolog_watch_last_progress_timestamp_seconds"):
        yield catalog.QUARANTINED.ok(subject, "could decode all since it started")


def _following(one: process_facts.Process) -> doctor_checks.Result:
    subject, lag = f"{one.role} {one.name}", one.value("topolog_snapshot_lag_seconds")
    if lag is None:
        return catalog.FOLLOWING.unsure(subject, "it has not read the log yet", fix="repeat the check")
    if lag > BEHIND:
        return catalog.FOLLOWING.warning(subject, f"{lag:.1f} s behind")
    return catalog.FOLLOWING.ok(subject, f"{lag:.1f} s behind")


def _consistent(one: process_facts.Process, now: float) -> doctor_checks.Result:
    subject = f"{one.role} {one.name}"
    open_ones = {
        labels["kind"]: int(value)
        for labels, value in one.samples.get("topolog_consistency_differences", ())
        if value
    }
    spelled = ", ".join(f"{count} {kind}" for kind, count in sorted(open_ones.items()))
    if open_ones.keys() - {_UNKNOWN}:
        return catalog.CONSISTENT.problem(subject, f"differences: {spelled}")
    last = one.value("topolog_consistency_last_check_timestamp_seconds")
    if last is None:
        return catalog.CONSISTENT.unsure(subject, "nothing was compared yet", fix="repeat the check")
    if now - last > STALE_AUDIT:
        return catalog.CONSISTENT.warning(
            subject, f"last comparison {now - last:.0f} s ago", why="nothing is known about the time since"
        )
    if open_ones:
        return catalog.CONSISTENT.warning(
            subject,
            f"differences: {spelled}",
            why="meta has a field that the auditor does not have: a later version wrote it, or it was"
            " written by hand",
        )
    return catalog.CONSISTENT.ok(subject, f"no differences, {max(now - last, 0):.0f} s ago")


def _recorded(one: process_facts.Process) -> doctor_checks.Result:
    subject, dropped = f"{one.role} {one.name}", one.value("topolog_decisions_dropped_total") or 0
    if dropped:
        return catalog.RECORDED.warning(subject, f"{dropped:.0f} dropped since it started")
    return catalog.RECORDED.ok(subject, "none dropped")


def _connected(one: process_facts.Process) -> doctor_checks.Result:
    subject, up = f"{one.role} {one.name}", one.value("topolog_store_up")
    if up is None:
        return catalog.STORE.unsure(subject, "it has not asked the store yet", fix="repeat the check")
    if not up:
        return catalog.STORE.problem(subject, "the store does not answer it")
    return catalog.STORE.ok(subject, "the store answers it")


def _certified(one: process_facts.Process, now: float) -> Iterator[doctor_checks.Result]:
    subject = f"{one.role} {one.name}"
    ends = {
        labels["file"]: at - now
        for labels, at in one.samples.get("topolog_certificate_expiry_timestamp_seconds", ())
    }
    shown = ends.pop("scheduler", None)
    if shown is not None and shown < EXPIRING:
        found = catalog.CERTIFICATES.problem if shown <= 0 else catalog.CERTIFICATES.warning
        until = "has expired" if shown <= 0 else f"expires in {shown // 3600:.0f} h"
        yield found(subject, f"the certificate that a kube-scheduler shows it {until}", fix=catalog.COPY)
    if not ends:
        return  # It serves plain HTTP.
    file, left = min(ends.items(), key=lambda end: end[1])
    if left <= 0:
        yield catalog.CERTIFICATES.problem(subject, f"{file} has expired")
    elif one.value("topolog_certificate_files_bad"):
        yield catalog.CERTIFICATES.warning(
            subject, "the files on its disk are invalid, and the last valid ones are served"
        )
    elif left < EXPIRING:
        yield catalog.CERTIFICATES.warning(subject, f"{file} expires in {left // 3600:.0f} h")
    else:
        yield catalog.CERTIFICATES.ok(subject, f"{file} expires in {left // 86_400:.0f} d, before the others")


def _roomy(one: process_facts.Process) -> doctor_checks.Result:
    subject = f"{one.role} {one.name}"
    used, limit = one.value("topolog_store_memory_used_bytes"), one.value("topolog_store_memory_limit_bytes")
    if used is None or limit is None:
        return catalog.MEMORY.unsure(subject, "it has not asked the store yet", fix="repeat the check")
    if limit and used > FULL * limit:
        return catalog.MEMORY.warning(subject, f"{100 * used / limit:.0f} % of maxmemory")
    return catalog.MEMORY.ok(subject, f"{100 * used / limit:.0f} % of maxmemory" if limit else "no maxmemory")
