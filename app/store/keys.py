"""The names of everything in Redis.

The braces are a hash tag: all keys of one Kubernetes cluster lie in one slot of a Redis Cluster,
which gives the log its one order, and lets many clusters share a Redis Cluster.
"""

import re

from app.store import errors

HEAD = "head"
"""Field of meta: the last offset of the log."""

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Keys:
    """The keys of one Kubernetes cluster."""

    def __init__(self, cluster: str) -> None:
        if not _CLUSTER.fullmatch(cluster):
            raise errors.StoreError(
                f"cluster name {cluster!r} cannot be part of a key: use at most 63 letters, digits and . _ -"
            )
        self.cluster = cluster
        self.prefix = f"topolog:{{{cluster}}}:"
        self.log = self.prefix + "log"
        """Stream: an entry for each event, id ``OFFSET-0``, fields ``t`` (ms), ``e`` (JSON), ``w`` (epoch)"""
        self.meta = self.prefix + "meta"
        """Hash: incarnation and the former one, head, at (its ms), epoch, writer, recorded (ms), schema,
        ``rv:KIND`` checkpoints, and lost while it is known that the log is not whole."""
        self.versions = self.prefix + "versions"
        """Hash: subject -> offset of its latest event; absent if the subject does not exist."""
        self.counts = self.prefix + "counts"
        """Hash: ``NAMESPACE/POLICY|DOMAIN`` -> pods counted there; absent if 0."""
        self.decisions = self.prefix + "decisions"
        """Stream of decision records, capped."""
        self.checkpoints = self.prefix + "checkpoints"
        """Hash: offset -> header of the checkpoint there (JSON)."""
        self.readers = self.prefix + "readers"
        """Hash: reader -> ``OFFSET MS``: how far it has read, and when it last said so."""

        self.audit = self.prefix + "audit"
        """String: the auditor's latest report (JSON)."""

    def checkpoint(self, offset: int, parts: str, number: int) -> str:
        """String: one line of the checkpoint at an offset, compressed (gzip)."""
        return f"{self.prefix}checkpoint:{offset}:{parts}:{number}"

    def session(self, identity: str) -> str:
        """String, kept for a day: the last call of one writer and what came of it."""
        return f"{self.prefix}session:{identity}"
