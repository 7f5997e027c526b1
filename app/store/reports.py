"""The auditor's latest report: one value in the store, for everybody who wants to know."""

import msgspec
import redis

from app.domain import consistency
from app.store import connecting, errors, keys

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(consistency.Report)


class Reports:
    """The report of one cluster; thread-safe."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._key = names.audit

    def write(self, report: consistency.Report) -> None:
        """Put a report in the place of the former one. Raises StoreAway."""
        with connecting.translated():
            self._client.set(self._key, _encoder.encode(report))

    def latest(self) -> consistency.Report | None:
        """The report; None if there is none. Raises StoreAway, or Damaged if it cannot be read."""
        with connecting.translated():
            found = self._client.get(self._key)
        if found is None:
            return None
        try:
            return _decoder.decode(bytes(found) if isinstance(found, bytes) else str(found))
        except msgspec.MsgspecError as error:
            raise errors.Damaged(f"the auditor's report cannot be read: {error}") from error
