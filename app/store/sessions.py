"""Writers in the eyes of the store: their calls are numbered, and never carried out twice."""

import secrets

import redis

from app.store import connecting, errors, keys, retrying


class Session:
    """One writer, with a connection; used by one thread at a time."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self.wire = connecting.Wire(client)
        self._names = names
        self._begin()

    def _begin(self) -> None:
        self.key = self._names.session(secrets.token_hex(8))
        self.sequence = 0

    def ask(self, packed: connecting.Packed, *, timeout: float) -> connecting.Reply:
        """Call a function, again while no answer comes; ``timeout`` in seconds, of all attempts.

        Raises StoreAway, and then it is not known whether it was carried out. What the store keeps of the
        session may have been damaged: after a failure of the function the next call is another writer's.
        """
        patience = retrying.Patience(timeout)
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
