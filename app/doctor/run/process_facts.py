"""The facts about a process: what its health port shows, or why it shows nothing."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Process:
    """One process."""

    name: str
    """A pod, or the URL of the health port."""
    role: str = ""
    """One of metrics.ALL; empty if it did not answer."""
    ready: bool = False
    problems: tuple[str, ...] = ()
    """The failing checks of its readiness."""
    unseen: str = ""
    """Why nothing is known about it, or no more than its readiness."""
    fix: str = ""
    """How it can be seen."""
    samples: Mapping[str, tuple[tuple[Mapping[str, str], float], ...]] = dataclasses.field(
        default_factory=dict
    )
    """Name of a sample -> labels and value."""

    @property
    def namespace(self) -> str:
        """Where its pod runs; empty if it is known by a URL."""
        return "" if "://" in self.name else self.name.partition("/")[0]

    @property
    def log(self) -> str:
        """The command that prints its log; a sentence if it is known by a URL."""
        pod = self.name.partition("/")[2]
        if not self.namespace:
            return f"see the log of the process at {self.name}"
        return f"kubectl -n {self.namespace} logs {pod} --all-containers"

    def value(self, name: str) -> float | None:
        """The value of a metric without labels; None if it is absent."""
        found = self.samples.get(name, ())
        return found[0][1] if found else None

    def labels(self, name: str) -> tuple[Mapping[str, str], ...]:
        """The labels of the samples of an information metric."""
        return tuple(labels for labels, _ in self.samples.get(name, ()))
