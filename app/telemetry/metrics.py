"""All the metrics: what they are called is an interface for other people's alerts."""

from prometheus_client import Counter, Gauge, Histogram

VERB_SECONDS = Histogram(
    "topolog_verb_seconds",
    "Time from the request to the answer.",
    ["verb", "outcome"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 3.5, 5),
)
REFUSALS = Counter("topolog_refused_nodes_total", "Candidates refused, by the plugin that did.", ["plugin"])
REJECTED = Counter("topolog_rejected_requests_total", "Requests that were no valid call.", ["verb"])
FAULTS = Counter("topolog_faults_total", "Faults of our own while a call was answered.", ["verb"])

APPENDS = Counter("topolog_appends_total", "Batches written to the log.")
EVENTS = Counter("topolog_events_total", "Events written to the log.")
LEADER = Gauge("topolog_leader", "1 while this process leads, 0 while it stands by for another one.")
REWINDS = Counter("topolog_rewinds_total", "Incarnations begun because the store had lost events.")
RESTARTS = Counter(
    "topolog_store_restarts_total", "Restarts of the store's server after which everything was listed again."
)
CONFLICTS = Counter("topolog_conflicts_total", "Appends refused by their guard.", ["kind"])
LAG = Gauge("topolog_lag_seconds", "How far the snapshot is behind the log.")
OFFSET = Gauge("topolog_offset", "Offset of the snapshot.")
STORE_UP = Gauge("topolog_store_up", "1 while the store answers.")
DECISIONS_DROPPED = Gauge(
    "topolog_decisions_dropped", "Decision records that this process dropped since it started."
)
DECISIONS_SHORTENED = Gauge(
    "topolog_decisions_shortened",
    "Decision records that this process shortened since it started, because they were too large.",
)
LINES_DROPPED = Counter("topolog_log_lines_dropped_total", "Log lines dropped: standard error was blocked.")
LOOP_FAILURES = Counter(
    "topolog_loop_failures_total", "Errors that a loop of this process survived, by the loop.", ["loop"]
)

RELISTS = Counter("topolog_relists_total", "Lists that replaced a broken watch.", ["kind", "reason"])
QUARANTINED = Counter(
    "topolog_quarantined_total", "Objects of a watch that could not be understood.", ["kind"]
)
RELEASED = Counter(
    "topolog_released_placements_total", "Promises taken back by this process, by why.", ["cause"]
)
NUDGES = Counter("topolog_nudges_total", "Pending pods told of room by a condition.", ["outcome"])

CONSISTENCY_DIFFERENCES = Gauge(
    "topolog_consistency_differences", "Differences that stand between store, log and API server.", ["kind"]
)
CONSISTENCY_FOUND = Counter("topolog_consistency_found_total", "Differences found.", ["kind"])
CONSISTENCY_REPAIRS = Counter(
    "topolog_consistency_repairs_total", "Events that repair counts or versions, or ask for a list.", ["what"]
)
CONSISTENCY_OFFSET = Gauge(
    "topolog_consistency_offset", "Offset at which counts and versions were last compared with the log."
)
CONSISTENCY_AT = Gauge(
    "topolog_consistency_timestamp_seconds", "When that was, by the store's clock, as a POSIX time."
)

CHECKPOINT = Gauge("topolog_checkpoint_offset", "Offset of the newest checkpoint.")
ARCHIVED = Gauge("topolog_archived_offset", "Offset up to which everything is in the archive.")
OLDEST = Gauge("topolog_oldest_offset", "Offset of the oldest event that the log holds.")
TRIMMED = Counter("topolog_trimmed_events_total", "Events removed from the log.")
LOG_BYTES = Gauge("topolog_log_bytes", "Bytes of the store's memory that the log takes.")
DECISIONS_BYTES = Gauge(
    "topolog_decisions_bytes", "Bytes of the store's memory that the decision records take."
)
DECISIONS_TRIMMED = Counter(
    "topolog_trimmed_decisions_total",
    "Decision records removed because they, or the whole store, took too much.",
)
MEMORY_USED = Gauge("topolog_store_memory_used_ratio", "Used part of the store's maxmemory; 0 without one.")
COMPACTIONS_FAILED = Counter(
    "topolog_failed_compactions_total", "Checkpoints, archivings and trims that failed.", ["step"]
)
