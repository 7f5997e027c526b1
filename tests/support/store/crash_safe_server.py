"""An embedded server whose crash loses no acknowledged write, for tests that expect their data after one.

With ``appendfsync everysec``, a server postpones its writes for up to two seconds while an fsync is in
progress, and replies nevertheless. A test that kills it in that moment finds less than it stored, on a slow
disk only.
"""

import pathlib
from typing import Any

from app.store.server import connections, embedded
from tests.support.store import servers


class CrashSafeServer(embedded.Server):
    """With an append-only file; ``kill`` waits until the server has handed every write to the kernel."""

    def kill(self) -> None:
        if self.pid is not None:
            await_written(self.url)
        super().kill()

    @property
    def size(self) -> int:
        """Bytes of the append-only file with every acknowledged write."""
        await_written(self.url)
        return self._file.stat().st_size

    def cut(self, size: int) -> None:
        """Die, lose the end of the append-only file from that byte on, and start again."""
        self.kill()
        with self._file.open("r+b") as file:
            file.truncate(size)
        self.start()

    @property
    def _file(self) -> pathlib.Path:
        return sorted((self._directory / "appendonlydir").glob("*.incr.aof"))[-1]


def await_written(url: str) -> None:
    """Wait until the append-only file holds every write that was acknowledged."""
    with connections.connect(url) as connection:
        client: Any = connection
        servers.eventually(
            lambda: client.info("persistence")["aof_buffer_length"] == 0, "the server has written everything"
        )
