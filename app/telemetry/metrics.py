"""Prometheus metrics by process; names, labels and processes are an interface for alerts and dashboards.

A metric belongs to some of the processes, and only these expose it (``registry_of``): a gauge at 0 in a
process that never sets it would be indistinguishable from a fault. For the same reason a reading is absent
until its value is known. A counter whose labels have a closed set of values has every series from the start,
because ``increase`` misses the first event of a series that did not exist before it.
"""

import itertools
import platform
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import prometheus_client
from prometheus_client import metrics, registry

from app.telemetry import readings

# A series `..._created` for each counter and histogram doubles the number of series; nothing reads it.
prometheus_client.disable_created_metrics()

EXTENDER = "extender"
RECORDER = "recorder"
CONTROLLER = "controller"
AUDITOR = "auditor"
COMPACTOR = "compactor"
PROCESSES = (EXTENDER, RECORDER, CONTROLLER, AUDITOR, COMPACTOR)
VIEW = "view"
"""Serves people, not pods: an installation is complete without it."""
ALL = (*PROCESSES, VIEW)

WRITERS = (EXTENDER, RECORDER, CONTROLLER, AUDITOR)
"""The processes that append to the log."""
ELECTED = (RECORDER, CONTROLLER)
"""The processes of which one replica leads."""

OTHER = "other"
"""The label value of everything outside a closed set."""

_T = TypeVar("_T", bound=registry.Collector)


class Declared(NamedTuple):
    """A collector and the processes that expose it."""

    collector: registry.Collector
    processes: tuple[str, ...]


DECLARED: list[Declared] = []


def declared(collector: _T, *processes: str) -> _T:
    """Let these processes expose the collector."""
    DECLARED.append(Declared(collector, processes))
    return collector


def _counter(name: str, documentation: str, /, *processes: str, **labels: tuple[str, ...]) -> metrics.Counter:
    counter = metrics.Counter(name, documentation, tuple(labels), registry=None)
    preset(counter, *labels.values())
    return declared(counter, *processes)


def _gauge(name: str, documentation: str, /, *processes: str, **labels: tuple[str, ...]) -> metrics.Gauge:
    gauge = metrics.Gauge(name, documentation, tuple(labels), registry=None)
    preset(gauge, *labels.values())
    return declared(gauge, *processes)


def _reading(name: str, documentation: str, *processes: str, counter: bool = False) -> readings.Reading:
    return declared(readings.Reading(name, documentation, counter=counter), *processes)


def preset(metric: metrics.MetricWrapperBase, *values: Iterable[str]) -> None:
    """Create the series of every combination of these values of the labels, in their order."""
    for combination in itertools.product(*values) if values else ():
        metric.labels(*combination)


# -- every process -----------------------------------------------------------------------------

BUILD = _gauge(
    "topolog_build_info",
    "1, with the version of this process, of the store's schema that it uses, and of Python.",
    *ALL,
    version=(),
    schema=(),
    python=(),
)
CONFIGURATION = _gauge(
    "topolog_configuration_info",
    "1, with the digest of the plugins and their arguments. Processes with different digests decide"
    " differently.",
    *WRITERS,
    digest=(),
)
STORE_UP = _reading(
    "topolog_store_up", "1 while a PING a second is answered within `store.socket_timeout`, else 0.", *ALL
)
STORE_SECONDS = declared(
    metrics.Histogram(
        "topolog_store_request_duration_seconds",
        "Duration of an append to the log, repetitions included, or of one read of it.",
        ["operation"],
        buckets=(0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5),
        registry=None,
    ),
    *WRITERS,
)
preset(STORE_SECONDS, ("append", "read"))
LINES_DROPPED = _counter(
    "topolog_log_lines_dropped_total", "Log lines dropped because they could not be written in time.", *ALL
)
LOOP_FAILURES = _counter(
    "topolog_loop_failures_total", "Failures of a background loop that was then retried.", *ALL, loop=()
)
APISERVER_SECONDS = declared(
    metrics.Histogram(
        "topolog_apiserver_request_duration_seconds",
        "Duration of a request to the API server until the head of its reply, by status; `0`: no reply.",
        ["verb", "code"],
        buckets=(0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60),
        registry=None,
    ),
    *WRITERS,
)
LEADER = _gauge(
    "topolog_leader_election_master_status",
    "1 while this process holds the Lease of this name, 0 while it is on standby.",
    *ELECTED,
    name=(),
)

# -- writers of the log ------------------------------------------------------------------------

APPENDS = _counter("topolog_appends_total", "Batches that this process appended to the log.", *WRITERS)
EVENTS = _counter("topolog_events_total", "Events that this process appended to the log.", *WRITERS)
CONFLICTS = _counter(
    "topolog_conflicts_total",
    "Appends rejected by their guard: another writer was first (`version`), or no capacity was left"
    " (`ceiling`).",
    *WRITERS,
    kind=("version", "ceiling"),
)
RELEASED = _counter(
    "topolog_released_placements_total",
    "Placements released by this process, by cause.",
    EXTENDER,
    CONTROLLER,
    cause=("refused", "superseded", "unbound", "gone"),
)

# -- readers of the log ------------------------------------------------------------------------

SNAPSHOT_LAG = _reading(
    "topolog_snapshot_lag_seconds",
    "Seconds since the snapshot was last known to be at the head of the log.",
    EXTENDER,
    CONTROLLER,
)
SNAPSHOT_OFFSET = _reading("topolog_snapshot_offset", "Offset of the snapshot.", EXTENDER, CONTROLLER)
LOG_HEAD = _reading(
    "topolog_log_head_offset",
    "Offset of the last event of the log when it was last read.",
    *(EXTENDER, RECORDER, CONTROLLER, COMPACTOR),
)

# -- extender ----------------------------------------------------------------------------------

VERBS = ("filter", "filter_onlyone", "prioritize", "priority", "bind", "preempt")
OUTCOMES = {
    "filter": ("kept", "refused", "error"),
    "filter_onlyone": ("kept", "refused", "error"),
    "prioritize": ("scored",),
    "bind": ("bound", "refused", "error"),
    "preempt": ("kept", "refused"),
}
"""Verb -> the outcomes of its calls."""

VERB_SECONDS = declared(
    metrics.Histogram(
        "topolog_verb_duration_seconds",
        "Duration of a call, from request to response.",
        ["verb", "outcome"],
        buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10),
        registry=None,
    ),
    EXTENDER,
)
for _verb, _outcomes in OUTCOMES.items():
    preset(VERB_SECONDS, (_verb,), _outcomes)
REFUSALS = _counter("topolog_refused_nodes_total", "Candidate nodes refused, by plugin.", EXTENDER, plugin=())
PREEMPTIONS_LOST = _counter(
    "topolog_preemptions_lost_total", "Pods refused on their nominated node, with no victim left.", EXTENDER
)
REJECTED = _counter("topolog_rejected_requests_total", "Malformed requests.", EXTENDER, verb=VERBS)
FAULTS = _counter("topolog_faults_total", "Internal errors during calls.", EXTENDER, verb=tuple(OUTCOMES))
HTTP_REQUESTS = _counter(
    "topolog_http_requests_total",
    "Requests to the REST API of this process by the word after `/apis/v1/`, and by status.",
    EXTENDER,
    VIEW,
    # Those requested most: a series for each route would be a tenth of those of an idle process.
    route=("decisions", "pending", "pods", "status"),
    code=("200",),
)
DECISIONS_DROPPED = _reading(
    "topolog_decisions_dropped_total", "Decision records dropped by this process.", EXTENDER, counter=True
)
DECISIONS_SHORTENED = _reading(
    "topolog_decisions_shortened_total",
    "Decision records shortened by this process because they were too large.",
    EXTENDER,
    counter=True,
)

# -- recorder ----------------------------------------------------------------------------------

RELIST_REASONS = {
    "first list": "first_list",
    "the store was restarted": "store_restarted",
    "the store lost events": "store_lost_events",
    "asked by the auditor": "auditor",
    "went back": "went_back",
    "not served": "not_served",
    "410 Expired": "gone",
    "410 Gone": "gone",
    "404 NotFound": "not_found",
    "404 Not Found": "not_found",
    "400 BadRequest": "bad_request",
    "400 Bad Request": "bad_request",
}
"""What precedes the first colon of the reason of a list -> value of the label."""

REWINDS = _counter(
    "topolog_rewinds_total", "Incarnations started because the store had lost events.", RECORDER
)
RESTARTS = _counter(
    "topolog_store_restarts_total", "Restarts of the store's server, each followed by a new list.", RECORDER
)
RELISTS = _counter(
    "topolog_relists_total", "Lists that replaced a broken watch.", RECORDER, kind=(), reason=()
)
QUARANTINED = _counter(
    "topolog_quarantined_total", "Watched objects that could not be decoded.", RECORDER, kind=()
)
WATCH_PROGRESS = _gauge(
    "topolog_watch_last_progress_timestamp_seconds",
    "When the leader last received an object or a bookmark of this kind, or opened its watch; absent on"
    " standby, and for a kind that the API server does not serve.",
    RECORDER,
    kind=(),
)
QUEUE_LENGTH = _reading(
    "topolog_recorder_queue_length", "Changes that were received and are not appended yet.", RECORDER
)


def watched(kinds: Iterable[str]) -> None:
    """Create the series of the kinds of objects that this recorder watches."""
    names = tuple(kinds)
    preset(RELISTS, names, (*dict.fromkeys(RELIST_REASONS.values()), OTHER))
    preset(QUARANTINED, names)


def relist_reason(text: str) -> str:
    """The label value for the reason of a list."""
    return RELIST_REASONS.get(text.partition(":")[0], OTHER)


# -- controller --------------------------------------------------------------------------------

FENCES = _counter(
    "topolog_fences_total",
    "Bindings with an unknown outcome: `fenced` by this process, voided by another write that `changed` the"
    " pod, or left open because the request `failed`.",
    CONTROLLER,
    outcome=("fenced", "changed", "failed"),
)
WAKEUPS = _counter(
    "topolog_wakeups_total",
    "Attempts to wake pending pods by a condition. `failed` and `conflict` are repeated while the pod waits.",
    CONTROLLER,
    outcome=("woken", "gone", "refused", "superseded", "failed", "conflict", "ended"),
)
STATUS_PATCHES = _counter(
    "topolog_status_patches_total", "Statuses of objects, by outcome.", CONTROLLER, kind=(), outcome=()
)
EVENTS_DROPPED = _counter(
    "topolog_kubernetes_events_dropped_total", "Kubernetes Events that were not posted.", CONTROLLER
)
EVICTIONS = _counter(
    "topolog_evictions_total",
    "Evictions for plugins, by outcome; `budget`: a PodDisruptionBudget does not allow it.",
    CONTROLLER,
    outcome=("evicted", "budget", "vetoed", "gone", "failed"),
)
PLUGIN_FAILURES = _counter(
    "topolog_plugin_failures_total",
    "Calls of a plugin by the controller that raised an error, or reconciled for more than 5 s.",
    CONTROLLER,
    plugin=(),
    method=(),
)

STATUS_OUTCOMES = (
    *("patched", "unchanged", "outdated", "conflict", "gone", "refused", "failed", "suspended", "ended"),
)


def statuses(kinds: Iterable[str]) -> None:
    """Create the series of the kinds whose status this controller writes."""
    preset(STATUS_PATCHES, tuple(kinds), STATUS_OUTCOMES)


def plugins(**names: Iterable[str]) -> None:
    """Create the series of the methods that this controller calls: method -> names of the plugins."""
    for method, called in names.items():
        preset(PLUGIN_FAILURES, called, (method,))


# -- auditor -----------------------------------------------------------------------------------

DIFFERENCES = (
    *("count", "version", "head", "lost", "hole", "edited", "foreign", "unreadable", "fence", "checkpoint"),
    *("past", "uncovered", "fact", "placement", "mistyped", "meta", "unknown", "tail"),
)
"""Kinds of differences (app.domain.audit.findings.KINDS)."""

CONSISTENCY_DIFFERENCES = _gauge(
    "topolog_consistency_differences",
    "Open differences between store, log and API server.",
    AUDITOR,
    kind=DIFFERENCES,
)
CONSISTENCY_FOUND = _counter(
    "topolog_consistency_found_total", "Differences detected.", AUDITOR, kind=DIFFERENCES
)
CONSISTENCY_REPAIRS = _counter(
    "topolog_consistency_repairs_total",
    "Events that repair `counts` or `versions`, or request a list of a kind.",
    AUDITOR,
    what=("counts", "versions"),
)
CONSISTENCY_OFFSET = _reading(
    "topolog_consistency_offset", "Log offset of the last comparison of counts and versions.", AUDITOR
)
CONSISTENCY_AT = _reading(
    "topolog_consistency_last_check_timestamp_seconds",
    "Store time of the last comparison of counts and versions.",
    AUDITOR,
)

# -- compactor ---------------------------------------------------------------------------------

CHECKPOINT = _reading("topolog_checkpoint_offset", "Offset of the newest checkpoint.", COMPACTOR)
ARCHIVED = _reading("topolog_archived_offset", "Offset up to which the log is archived.", COMPACTOR)
OLDEST = _reading("topolog_log_oldest_offset", "Offset of the oldest event in the log.", COMPACTOR)
TRIMMED = _counter("topolog_trimmed_events_total", "Events removed from the log.", COMPACTOR)
LOG_BYTES = _reading("topolog_log_bytes", "Store memory used by the log.", COMPACTOR)
DECISIONS_BYTES = _reading("topolog_decisions_bytes", "Store memory used by decision records.", COMPACTOR)
DECISIONS_TRIMMED = _counter(
    "topolog_trimmed_decisions_total", "Decision records removed to stay within the memory limits.", COMPACTOR
)
MEMORY_USED = _reading(
    "topolog_store_memory_used_bytes",
    "Memory of the store's server that counts towards its limit, for all its users.",
    COMPACTOR,
)
STORE_CERTIFICATE = _reading(
    "topolog_store_certificate_expiry_timestamp_seconds",
    "Expiry time of the certificate that the store's server shows; absent without TLS, or unverified.",
    COMPACTOR,
)
MEMORY_LIMIT = _reading("topolog_store_memory_limit_bytes", "The store's maxmemory; 0 if none.", COMPACTOR)
COMPACTIONS_FAILED = _counter(
    "topolog_failed_compactions_total",
    "Failed checkpoint, archive and trim steps.",
    COMPACTOR,
    step=("store", "archive", "memory", "clock", "form"),
)


def registry_of(process: str, *, version: str, schema: int) -> registry.CollectorRegistry:
    """The registry of a process: its metrics, and those that prometheus_client has for every process.

    ``schema``: of the store.
    """
    made = registry.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=made)
    prometheus_client.PlatformCollector(registry=made)
    prometheus_client.GCCollector(registry=made)
    for collector, processes in DECLARED:
        if process in processes:
            made.register(collector)
    BUILD.labels(version, str(schema), platform.python_version()).set(1)
    STORE_UP.set(0)
    return made
