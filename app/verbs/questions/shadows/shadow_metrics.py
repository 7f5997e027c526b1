"""Metrics of shadows, in the process that compares.

A series ends when its shadow is deleted. Names are bounded by ``shadowed.MOST``, so the series are, too.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import core, registry

from app.verbs.questions import replays
from app.verbs.questions.shadows import shadow_comparison


class ShadowMetrics(registry.Collector):
    """The differences of every shadow; nothing without shadows.

    A shadow that is replaced counts again from 0, as one does whose process started again.
    """

    def __init__(self, reports: Callable[[], Mapping[str, shadow_comparison.ComparisonReport]]) -> None:
        """``reports``: of each shadow, by its name."""
        self._reports = reports

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metrics."""
        decisions = core.CounterMetricFamily(
            "topolog_shadow_decisions_total",
            "Decisions compared with a shadow, by the class of their difference; `same` if they would have"
            " been the same.",
            labels=("shadow", "class"),
        )
        skipped = core.CounterMetricFamily(
            "topolog_shadow_skipped_total",
            "Decisions that cannot be compared with a shadow, by cause.",
            labels=("shadow", "cause"),
        )
        behind = core.GaugeMetricFamily(
            "topolog_shadow_behind_seconds",
            "Age of the last record that was compared with a shadow, while others are left; else 0.",
            labels=("shadow",),
        )
        gap = core.GaugeMetricFamily(
            "topolog_shadow_gap",
            "1 if records may have been trimmed before they were compared with a shadow, else 0.",
            labels=("shadow",),
        )
        for name, report in self._reports().items():
            for kind in (replays.SAME, *replays.CLASSES):
                decisions.add_metric((name, kind), report.classes[kind])
            for cause in replays.SKIPPED:
                skipped.add_metric((name, cause), report.skipped[cause])
            behind.add_metric((name,), report.behind)
            gap.add_metric((name,), float(report.gap))
        yield from (decisions, skipped, behind, gap)
