"""Metrics of hypothetical questions, in the process that answers them for people."""

from prometheus_client import metrics as kinds

from app.telemetry import metrics

KINDS = ("simulate", "fit", "replay", "diff", "bisect")
OUTCOMES = ("answered", "refused", "busy", "abandoned", "failed")

ASKED = metrics.declared(
    kinds.Counter(
        "topolog_questions_total",
        "Hypothetical questions to this process, by kind and outcome: `answered`, `refused` because of a"
        " mistake, `busy` while others are answered, `abandoned` by a client that hung up, or `failed`.",
        ("kind", "outcome"),
        registry=None,
    ),
    metrics.VIEW,
)
metrics.preset(ASKED, KINDS, OUTCOMES)
SECONDS = metrics.declared(
    kinds.Histogram(
        "topolog_question_duration_seconds",
        "Duration of a hypothetical question that was answered.",
        ("kind",),
        buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20),
        registry=None,
    ),
    metrics.VIEW,
)
metrics.preset(SECONDS, KINDS)
