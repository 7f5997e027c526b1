"""Metrics whose value is read at each scrape, and which are absent until it is known."""

from collections.abc import Callable, Iterator

from prometheus_client import core, registry


class Reading(registry.Collector):
    """A gauge or counter without labels; absent until its value is known."""

    def __init__(self, name: str, documentation: str, *, counter: bool = False) -> None:
        self._name, self._documentation = name, documentation
        self._family = core.CounterMetricFamily if counter else core.GaugeMetricFamily
        self._read: Callable[[], float | None] = lambda: None

    def set(self, value: float) -> None:
        """Set the value."""
        self._read = lambda: value

    def set_function(self, read: Callable[[], float | None]) -> None:
        """Read the value at each scrape; ``read`` must answer at once, with None if it is not known."""
        self._read = read

    def forget(self) -> None:
        """Make the metric absent again."""
        self._read = lambda: None

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metric, without a sample while the value is unknown."""
        family = self._family(self._name, self._documentation)
        value = self._read()
        if value is not None:
            family.add_metric([], value)
        yield family
