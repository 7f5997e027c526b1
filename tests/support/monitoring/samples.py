"""The metrics of this process, whichever processes expose them."""

import functools

from prometheus_client import registry

from app import telemetry


@functools.cache
def _everything() -> registry.CollectorRegistry:
    made = registry.CollectorRegistry()
    for collector, _ in telemetry.metrics.DECLARED:
        made.register(collector)
    return made


def exists(name: str, **labels: str) -> bool:
    """Whether there is such a sample."""
    return _everything().get_sample_value(name, labels) is not None


def value(name: str, **labels: str) -> float:
    """The value of a sample; 0 if it was never set."""
    return _everything().get_sample_value(name, labels) or 0.0
