"""An installation in one document, for ``topolog status``: by its processes and an extender's answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app import clocks
from app.doctor import times
from app.doctor.run import process_facts
from app.framework import doctor_checks
from app.telemetry import metrics

Json = dict[str, Any]
_LEADER: Final = "topolog_leader_election_master_status"
_SERVING: Final = (metrics.EXTENDER, metrics.VIEW)
_EXPIRY: Final = "topolog_certificate_expiry_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Answers:
    """What an extender answered; None where it did not."""

    summary: Mapping[str, Any] | None = None
    """GET /apis/v1/status."""
    audit: Mapping[str, Any] | None = None
    """GET /apis/v1/consistency."""


def document(
    found: Sequence[process_facts.Process],
    answers: Answers,
    results: Sequence[doctor_checks.Result],
    now: float,
) -> Json:
    """All sections. ``results``: of the checks of the run; ``now``: seconds since 1970."""
    order = {verdict: at for at, verdict in enumerate(doctor_checks.VERDICTS)}
    wrong = sorted(
        (one for one in results if one.verdict != doctor_checks.OK),
        key=lambda one: (order[one.verdict], one.id),
    )
    roles = {role: at for at, role in enumerate(metrics.ALL)}
    ordered = sorted(found, key=lambda one: (roles.get(one.role, len(roles)), one.name))
    return {
        "verdict": doctor_checks.worst(results),
        "processes": [_process(one, now) for one in ordered],
        "store": _store(found),
        "certificates": _certificates(found, now),
        "audit": _audit(answers.audit),
        "cluster": _cluster(answers.summary),
        "pending": [_group(one, now) for one in (answers.summary or {}).get("pending", ())],
        "plugins": [dict(one) for one in (answers.summary or {}).get("plugins", ())],
        "attention": [
            {"verdict": one.verdict, "id": one.id, "subject": one.subject, "seen": one.seen, "fix": one.fix}
            for one in wrong
        ],
    }


def _process(one: process_facts.Process, now: float) -> Json:
    builds = one.labels("topolog_build_info")
    started = one.value("process_start_time_seconds")
    return {
        "role": one.role,
        "name": one.name,
        "ready": one.ready,
        "leads": _leads(one),
        "version": builds[0].get("version", "") if builds else "",
        "upSeconds": None if started is None else round(max(0.0, now - started)),
        "lagSeconds": _lag(one, now),
        "state": "; ".join(one.problems) or one.unseen or "; ".join(_states(one, now)),
    }


def _leads(one: process_facts.Process) -> bool | None:
    """Whether it holds its Lease; None for processes without one."""
    held = [value for _, value in one.samples.get(_LEADER, ())]
    return None if one.role not in metrics.ELECTED or not held else any(held)


def _lag(one: process_facts.Process, now: float) -> float | None:
    """Seconds by which a recorder may be behind the cluster, or another process behind the log."""
    if one.role == metrics.RECORDER:
        progress = one.samples.get("topolog_watch_last_progress_timestamp_seconds", ())
        return round(max(0.0, *(now - at for _, at in progress)), 1) if progress else None
    lag = one.value("topolog_snapshot_lag_seconds")
    return None if lag is None else round(lag, 1)


def _states(one: process_facts.Process, now: float) -> Iterator[str]:
    leads, lag = _leads(one), _lag(one, now)
    if leads is not None:
        yield "leads" if leads else "on standby"
    if lag is not None:
        yield f"watch {lag:.0f} s old" if one.role == metrics.RECORDER else f"{lag:.1f} s behind the log"
    queue = one.value("topolog_recorder_queue_length")
    if leads and queue:
        yield f"{queue:.0f} changes queued"
    archived, checkpoint = one.value("topolog_archived_offset"), one.value("topolog_checkpoint_offset")
    if checkpoint:
        yield f"checkpoint at {checkpoint:.0f}"
    if archived:
        yield f"archived to {archived:.0f}"
    checked = one.value("topolog_consistency_last_check_timestamp_seconds")
    if checked:
        yield f"compared {max(0.0, now - checked):.0f} s ago"


def _store(found: Sequence[process_facts.Process]) -> Json:
    """What the processes show of the store; null where none does."""
    ups = [value for one in found if (value := one.value("topolog_store_up")) is not None]

    def most(name: str) -> int | None:
        values = [int(value) for one in found if (value := one.value(name)) is not None]
        return max(values, default=None)

    return {
        "up": all(ups) if ups else None,
        "head": most("topolog_log_head_offset"),
        "oldest": most("topolog_log_oldest_offset"),
        "memoryUsed": most("topolog_store_memory_used_bytes"),
        "memoryLimit": most("topolog_store_memory_limit_bytes"),
    }


def _certificates(found: Sequence[process_facts.Process], now: float) -> list[Json] | None:
    """The earliest end of each TLS file, and the process that serves it, the first to end first.

    Empty where all serve plain HTTP; null where no process that serves was seen.
    """
    serving = [one for one in found if one.role in _SERVING and one.samples]
    ends: dict[str, tuple[float, str]] = {}
    for one in serving:
        for labels, at in one.samples.get(_EXPIRY, ()):
            ends[labels["file"]] = min(ends.get(labels["file"], (at, one.name)), (at, one.name))
    made = [
        {
            "file": file,
            "process": name,
            "expires": clocks.rfc3339(at),
            "secondsLeft": round(at - now),
        }
        for file, (at, name) in sorted(ends.items(), key=lambda end: end[1])
    ]
    return made if serving else None


def _audit(report: Mapping[str, Any] | None) -> Json | None:
    if report is None:
        return None
    return {name: report[name] for name in ("state", "position", "age", "total", "problem")}


def _cluster(summary: Mapping[str, Any] | None) -> Json | None:
    if summary is None:
        return None
    return {name: summary[name] for name in ("position", "nodes", "schedulable", "pods", "reasons")}


def _group(one: Mapping[str, Any], now: float) -> Json:
    since = times.seconds(one["oldest"])
    return {**one, "oldestSeconds": round(max(0.0, now - since)) if since else None}
