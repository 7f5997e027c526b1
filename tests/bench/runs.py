"""One run of the benchmark: its folder, and the processes that it starts."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

from app.store.server import embedded
from tests.bench.data import bench_cluster
from tests.bench.peer import builds, client, processes
from tests.support import extender_processes
from tests.support.store import filled_stores


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """One run of the benchmark."""

    folder: pathlib.Path
    """For logs, certificates and lists; removed afterwards."""
    tls: pathlib.Path
    programs: builds.Programs
    scale: float = 1.0
    """How many calls are made, compared with a full run."""

    def calls(self, full: int) -> int:
        """The number of calls of this run where a full run makes ``full``."""
        return max(3, round(full * self.scale))

    def caller(self, nodes: int) -> client.Caller:
        """The client with a list of this many nodes."""
        listing = self.folder / f"nodes-{nodes}.json"
        listing.write_bytes(bench_cluster.listing(nodes))
        return client.Caller(self.programs, self.tls, listing)

    @contextlib.contextmanager
    def ours(self, nodes: int, pods: int) -> Iterator[extender_processes.Extender]:
        """Topolog's extender on a store with this many nodes and pods."""
        cluster = f"bench-{nodes}-{pods}"
        server = embedded.Server(append_only=True)
        try:
            filled_stores.fill(server.url, cluster, bench_cluster.facts(nodes, pods))
            with extender_processes.running(server.url, cluster, self.tls, self.folder) as extender:
                yield extender
        finally:
            server.stop()

    @contextlib.contextmanager
    def viewed(
        self, nodes: int, pods: int
    ) -> Iterator[tuple[extender_processes.Extender, extender_processes.Extender]]:
        """Topolog's extender, and `topolog view` on the same store."""
        cluster = f"viewed-{nodes}-{pods}"
        server = embedded.Server(append_only=True)
        try:
            filled_stores.fill(server.url, cluster, bench_cluster.facts(nodes, pods))
            with (
                extender_processes.running(server.url, cluster, self.tls, self.folder) as extender,
                extender_processes.viewing(server.url, cluster, self.tls, self.folder) as view,
            ):
                yield extender, view
        finally:
            server.stop()

    @contextlib.contextmanager
    def peer(self, *, refuse: str = "") -> Iterator[str]:
        """The URL of a running peer."""
        with processes.running(self.programs, self.tls, self.folder, refuse=refuse) as url:
            yield url
