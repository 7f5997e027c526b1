"""A client that calls without a pause while a test changes the server."""

import threading

from tests.support.extender import server_processes


class Caller(threading.Thread):
    """Calls continuously; ``calls_each``: calls per connection."""

    def __init__(self, server: server_processes.Server, *, calls_each: int = 1) -> None:
        super().__init__()
        self.server = server
        self.calls_each = calls_each
        self.calls = 0
        self.failures: list[str] = []
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            try:
                with self.server.client() as client:
                    for _ in range(self.calls_each):
                        status, _ = client.ask("POST", "/filter", b"{}")
                        assert status == 200
                        self.calls += 1
            except Exception as error:
                self.failures.append(repr(error))
