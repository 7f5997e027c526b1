"""The JobAffinity plugin: prefers nodes that already run pods of the same job."""

from dataclasses import dataclass
from typing import ClassVar

from app.domain import model, verdicts
from app.framework import cycles, views
from app.plugins.job_affinity import endpoints, logic


@dataclass(frozen=True, slots=True)
class JobAffinity:
    """Scores nodes by their distance to pods of the same group and refuses no node; see README.md."""

    name: ClassVar[str] = "JobAffinity"
    tables: ClassVar[tuple[views.Table, ...]] = endpoints.TABLES
    label: str = "rl-job-group"
    """Pod label whose value is the group; a pod with an empty value belongs to no group."""
    all_namespaces: bool = False
    """Whether pods of the same group name in other namespaces are siblings too."""
    grades: logic.Grades = ()
    """Scores beyond the node: node label key and score 1..9, such as topology.kubernetes.io/zone and 3."""

    def __post_init__(self) -> None:
        for key, grade in self.grades:
            if not key or not 0 < grade < logic.FULL:
                raise ValueError(
                    f"invalid grade {key!r}: {grade}; expected a node label key and a score of 1 to 9"
                )

    def interested(self, pod: model.Pod) -> bool:
        return bool(pod.labels.get(self.label))

    def indexed(self) -> tuple[str, ...]:
        return (self.label,)

    def score(self, cycle: cycles.Cycle) -> verdicts.Rating:
        everywhere = tuple(cycle.snapshot.namespaces) if self.all_namespaces else (cycle.pod.namespace,)
        return logic.rating(cycle, self.label, self.grades, everywhere)

    def shown(self) -> views.Shown:
        return endpoints.shown(self.label)
