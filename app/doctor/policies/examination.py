"""Runs the checks that plugins declare."""

from collections.abc import Iterator, Sequence

from app.doctor import api_reader
from app.doctor.policies import cluster_state
from app.domain import schema
from app.framework import capabilities, doctor_checks, registry


def checks(classes: Sequence[type[capabilities.Plugin]]) -> list[doctor_checks.Check]:
    """The checks of plugins, each plugin with its default arguments."""
    made = [plugin() for plugin in classes]
    return [
        check for one in made if isinstance(one, capabilities.Diagnoses) for check in one.diagnosis().checks
    ]


def examine(
    reader: api_reader.ApiReader,
    declared: schema.Schema,
    plugins: registry.Registry,
    schedulers: frozenset[str] | None,
) -> Iterator[doctor_checks.Result]:
    """The results of the enabled plugins. ``schedulers``: doctor_checks.Cluster.schedulers."""
    diagnoses = [one.diagnosis() for one in plugins.diagnoses]
    try:
        cluster = doctor_checks.Cluster(
            cluster_state.snapshot(reader, declared, plugins.indexed()),
            cluster_state.workloads(reader),
            schedulers,
        )
    except api_reader.Unseen as unseen:
        yield from unseen.unsure(check for one in diagnoses for check in one.checks)
        return
    for one in diagnoses:
        yield from one.run(cluster)
