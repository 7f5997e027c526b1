"""Stores the auditor's latest report as one value, readable by every process."""

import msgspec
import redis

from app.domain.audit import findings
from app.store import errors, keys
from app.store.server import connections

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(findings.Report)


class Reports:
    """The report of one cluster; thread-safe."""

    def __init__(self, client: redis.Redis, names: keys.Keys) -> None:
        self._client = client
        self._key = names.audit

    def write(self, report: findings.Report) -> None:
        """Replace the stored report. Raises StoreAway."""
        with connections.translated():
            self._client.set(self._key, _encoder.encode(report))

    def latest(self) -> findings.Report | None:
        """The report; None if there is none. Raises StoreAway, or Damaged if it cannot be read."""
        with connections.translated():
            found = self._client.get(self._key)
        if found is None:
            return None
        try:
            return _decoder.decode(bytes(found) if isinstance(found, bytes) else str(found))
        except errors.MALFORMED as error:
            raise errors.Damaged(f"the auditor's report cannot be read: {error}") from error
