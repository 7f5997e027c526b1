"""Prometheus metrics; their names are an interface for alerts and dashboards."""

from prometheus_client import Counter, Gauge, Histogram

VERB_SECONDS = Histogram(
    "topolog_verb_seconds",
    "Duration of a call, from request to response.",
    ["verb", "outcome"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3.5, 5),
)
REFUSALS = Counter("topolog_refused_nodes_total", "Candidate nodes refused, by plugin.", ["plugin"])
REJECTED = Counter("topolog_rejected_requests_total", "Malformed requests.", ["verb"])
FAULTS = Counter("topolog_faults_total", "Internal errors during calls.", ["verb"])

APPENDS = Counter("topolog_appends_total", "Batches appended to the log.")
EVENTS = Counter("topolog_events_total", "Events appended to the log.")
LEADER = Gauge("topolog_leader", "1 while this process is the leader, 0 while it is on standby.")
REWINDS = Counter("topolog_rewinds_total", "Incarnations started because the store had lost events.")
RESTARTS = Counter(
    "topolog_store_restarts_total",
    "Restarts of the store's server, each followed by a new list.",
)
CONFLICTS = Counter("topolog_conflicts_total", "Appends rejected by their guard.", ["kind"])
LAG = Gauge("topolog_lag_seconds", "Lag of the snapshot behind the log.")
OFFSET = Gauge("topolog_offset", "Offset of the snapshot.")
STORE_UP = Gauge("topolog_store_up", "1 while the store is available.")
DECISIONS_DROPPED = Gauge(
    "topolog_decisions_dropped", "Decision records dropped by this process since its start."
)
DECISIONS_SHORTENED = Gauge(
    "topolog_decisions_shortened",
    "Decision records shortened by this process since its start because they were too large.",
)
LINES_DROPPED = Counter(
    "topolog_log_lines_dropped_total", "Log lines dropped because standard error was blocked."
)
LOOP_FAILURES = Counter(
    "topolog_loop_failures_total", "Failures of a background loop that was then retried.", ["loop"]
)

RELISTS = Counter("topolog_relists_total", "Lists that replaced a broken watch.", ["kind", "reason"])
QUARANTINED = Counter("topolog_quarantined_total", "Watched objects that could not be decoded.", ["kind"])
RELEASED = Counter(
    "topolog_released_placements_total", "Placements released by this process, by cause.", ["cause"]
)
FENCES = Counter(
    "topolog_fences_total",
    "Bindings with an unknown outcome: `fenced` by this process, voided by another write that `changed` the"
    " pod, or left open because the request `failed`.",
    ["outcome"],
)
WAKEUPS = Counter("topolog_wakeups_total", "Pending pods woken by a pod condition.", ["outcome"])
STATUS_PATCHES = Counter(
    "topolog_status_patches_total",
    "Statuses that plugins computed for objects, by outcome.",
    ["kind", "outcome"],
)
PLUGIN_FAILURES = Counter(
    "topolog_plugin_failures_total",
    "Calls of a plugin by the controller that raised an error.",
    ["plugin", "method"],
)

CONSISTENCY_DIFFERENCES = Gauge(
    "topolog_consistency_differences", "Open differences between store, log and API server.", ["kind"]
)
CONSISTENCY_FOUND = Counter("topolog_consistency_found_total", "Differences detected.", ["kind"])
CONSISTENCY_REPAIRS = Counter(
    "topolog_consistency_repairs_total", "Events that repair counts or versions, or request a list.", ["what"]
)
CONSISTENCY_OFFSET = Gauge(
    "topolog_consistency_offset", "Log offset of the last comparison of counts and versions."
)
CONSISTENCY_AT = Gauge(
    "topolog_consistency_timestamp_seconds",
    "Store time of the last comparison of counts and versions.",
)

CHECKPOINT = Gauge("topolog_checkpoint_offset", "Offset of the newest checkpoint.")
ARCHIVED = Gauge("topolog_archived_offset", "Offset up to which the log is archived.")
OLDEST = Gauge("topolog_oldest_offset", "Offset of the oldest event in the log.")
TRIMMED = Counter("topolog_trimmed_events_total", "Events removed from the log.")
LOG_BYTES = Gauge("topolog_log_bytes", "Store memory used by the log.")
DECISIONS_BYTES = Gauge("topolog_decisions_bytes", "Store memory used by decision records.")
DECISIONS_TRIMMED = Counter(
    "topolog_trimmed_decisions_total",
    "Decision records removed to stay within the memory limits.",
)
MEMORY_USED = Gauge(
    "topolog_store_memory_used_ratio", "Used share of the store's maxmemory; 0 without maxmemory."
)
COMPACTIONS_FAILED = Counter(
    "topolog_failed_compactions_total", "Failed checkpoint, archive and trim steps.", ["step"]
)
