"""The processes, started for real, on a store and a simulated API server over HTTP."""

import contextlib
import pathlib
from collections.abc import Collection, Iterator, Mapping

from prometheus_client import core, parser

from app.simulation.apiserver import apiservers
from app.store.server import embedded
from app.telemetry import metrics
from tests.support import declared
from tests.support.extender import stages

COMMANDS = {
    metrics.RECORDER: "record",
    metrics.CONTROLLER: "control",
    metrics.AUDITOR: "audit",
    metrics.COMPACTOR: "compact",
}
STOCK = ("workloadpolicies", "poddisruptionbudgets")
"""The declared kinds that Kubernetes serves with the definitions of deploy/crds alone."""
EVERY = tuple(kind.name for kind in declared.SCHEMA.kinds)


class Installation:
    """One process of each kind, with ``view`` also that one."""

    def __init__(self, stage: stages.Stage, environ: Mapping[str, str], *, view: bool = False) -> None:
        self.stage = stage
        self.processes: dict[str, stages.Extender] = {metrics.EXTENDER: stage.extend("extender", **environ)}
        commands = {**COMMANDS, metrics.VIEW: "view"} if view else COMMANDS
        for name, command in commands.items():
            self.processes[name] = stage.worker(command, **environ)

    @property
    def server(self) -> embedded.Server:
        """The server of the store."""
        return self.stage.server

    @contextlib.contextmanager
    def beside(self, name: str, process: stages.Extender) -> Iterator[None]:
        """Count another process, which was started, among the others until it is stopped again."""
        self.processes[name] = process
        try:
            yield
        finally:
            del self.processes[name]
            process.process.stop()

    def ready(self) -> None:
        """Wait until every process is ready."""
        for one in self.processes.values():
            one.ready()

    def scraped(self, process: str) -> list[core.Metric]:
        """The metrics of a process, parsed."""
        return list(parser.text_string_to_metric_families(self.text(process)))

    def text(self, process: str) -> str:
        """The metrics of a process, as they are served."""
        return self.processes[process].metrics()

    def value(self, process: str, name: str, /, **labels: str) -> float | None:
        """The value of a sample; None if there is none."""
        found = (sample for metric in self.scraped(process) for sample in metric.samples)
        return next((one.value for one in found if (one.name, one.labels) == (name, labels)), None)


@contextlib.contextmanager
def running(
    folder: pathlib.Path,
    *,
    bookmarks: float = 1.0,
    view: bool = False,
    served: Collection[str] = STOCK,
    **environ: str,
) -> Iterator[Installation]:
    """An installation whose processes are ready; ``bookmarks``: seconds between two of a watch.

    ``view``: with the process that answers people. ``served``: names of the declared kinds that the API
    server has. ``environ``: variables of all processes.
    """
    (folder / "store").mkdir(parents=True)
    server = embedded.Server(folder / "store", append_only=True)
    try:
        with apiservers.ApiServer(declared.SCHEMA, bookmarks=bookmarks) as api:
            for kind in declared.SCHEMA.kinds:
                if kind.name not in served:
                    api.objects.serve(kind.name, False)
            stage = stages.Stage(folder, api, server)
            try:
                made = Installation(stage, environ, view=view)
                made.ready()
                yield made
            finally:
                stage.close()
    finally:
        server.stop()
