"""Calls plugins so that one that raises disturbs neither the others nor the controller."""

from collections.abc import Callable
from typing import TypeVar

from app import telemetry

T = TypeVar("T")


class PluginCalls:
    """Calls methods of plugins. Each failure is counted, the first of a series logged with its traceback."""

    def __init__(self) -> None:
        self._failing: set[tuple[str, str]] = set()

    def call(self, plugin: str, method: str, function: Callable[[], T]) -> T | None:
        """The result of ``function``, which calls the method of the plugin; None if it raises."""
        try:
            found = function()
        except Exception:
            telemetry.metrics.PLUGIN_FAILURES.labels(plugin, method).inc()
            if (plugin, method) not in self._failing:
                self._failing.add((plugin, method))
                telemetry.log.exception("a plugin failed", plugin=plugin, method=method)
            return None
        self._failing.discard((plugin, method))
        return found
