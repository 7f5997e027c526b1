"""Writers' sessions: their calls are numbered, so that none is executed twice."""

import secrets

import redis

from app.store import errors, keys
from app.store.server import connections, retries


class Session:
    """One writer, with a connection; used by one thread at a time."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self.wire = connections.Wire(client)
        self._names = names
        self._begin()

    def _begin(self) -> None:
        self.key = self._names.session(secrets.token_hex(8))
        self.sequence = 0

    def ask(self, packed: connections.Packed, *, timeout: float) -> connections.Reply:
        """Call a function, retrying while no reply arrives; ``timeout`` in seconds, of all attempts.

        Raises StoreAway if the outcome is unknown. The stored session may be damaged: after an error of
        the function the next call starts another session.
        """
        patience = retries.RetryDeadline(timeout)
        self.wire.leave_former_server()
        while True:
            try:
                reply = self.wire.ask(packed, timeout=patience.attempt)
            except errors.StoreAway:
                if not patience.again():
                    raise
            except errors.StoreError:
                self._begin()
                raise
            else:
                if isinstance(reply, list) and reply[0] == b"STALE":
                    self._begin()
                return reply

    def close(self) -> None:
        """Close the connection."""
        self.wire.close()
