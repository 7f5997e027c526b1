"""Names of all keys in Redis.

The braces are a hash tag: all keys of one Kubernetes cluster are in one slot of a Redis Cluster.
That gives the log one order, and lets many clusters share a Redis Cluster.
"""

import re
from collections.abc import Mapping

from app.domain import schema
from app.store import errors

SCHEMA = 2
"""Version of the stores that these names, and the functions, belong to."""

COMMON = "topolog:{"
"""How every key of every cluster begins."""

HEAD = "offset"
"""Field of meta: the last offset of the log."""

TYPES: Mapping[str, str] = {
    "log": "stream",
    "meta": "hash",
    "versions": "hash",
    "counts": "hash",
    "decisions": "stream",
    "checkpoints": "hash",
    "readers": "hash",
    "audit": "string",
}
"""Attribute of Keys -> the type of that key."""
RUN = "run"
"""Field of meta: the ``run_id`` of the server in which a recorder last verified the log."""

KUBERNETES = "kubernetes"
"""Field of meta: the UID of the kube-system namespace of the cluster whose log it is."""

MARKS = "rv:"
"""How the fields of meta begin that are resume versions of a kind."""

BUNDLE = "bundle"
"""Field of meta: what the bundle holds that the store was filled from (JSON); absent in any other store."""

RESERVED = frozenset(
    (
        *("incarnation", "former", HEAD, "head", "at", "epoch", "writer", "recorded", "lost", "schema"),
        *("counts", RUN, KUBERNETES, BUNDLE),
    )
)
"""The other fields of meta; later versions may have more."""


def number(value: bytes | str | None) -> int:
    """The number in a field of meta or of an entry; 0 if it is missing or another program overwrote it."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    return int(text) if text.isascii() and text.isdigit() else 0


def function(name: str, schema: int = SCHEMA) -> str:
    """The name of a function in the server; those of several schemas coexist."""
    return f"topolog_{name}_{schema}" if schema > 1 else f"topolog_{name}"


_COUNTS = re.compile(rf"counts:{schema.FORM}(?:,{schema.FORM})*")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Keys:
    """The keys of one Kubernetes cluster."""

    def __init__(self, cluster: str, forms: str = schema.FIRST_FORMS) -> None:
        """``forms``: the form of the counts (Schema.forms), for processes that read or write counts."""
        if not _CLUSTER.fullmatch(cluster):
            raise errors.StoreError(
                f"cluster name {cluster!r} cannot be part of a key: use at most 63 letters, digits and . _ -"
            )
        self.cluster = cluster
        self.prefix = f"{COMMON}{cluster}}}:"
        self.log = self.prefix + "log"
        """Stream: an entry for each event, id ``OFFSET-0``, fields ``t`` (ms), ``e`` (JSON), ``w`` (epoch)"""
        self.meta = self.prefix + "meta"
        """Hash: incarnation and the former one, offset (the last), at (its ms), epoch, writer, recorded (ms),
        schema, counts (the name of the live counts), ``rv:KIND`` (``FORM:VERSION``: the form of what is
        recorded, and the version from which the watch resumes), lost while entries are known to be missing,
        run (the server's run_id when a recorder last verified the log), kubernetes (the UID of the cluster's
        kube-system namespace), bundle (only in a store that a bundle was opened in: what that holds), and
        head: text, which stops the functions of schema 1 from writing."""
        self.versions = self.prefix + "versions"
        """Hash: subject -> offset of its latest event; absent if the subject does not exist."""
        self.counts = f"{self.prefix}counts:{forms}"
        """Hash: key of a count -> its value, an integer; absent if 0. The name ends with the form of the
        counts: those of another form are built beside it, then meta names that key."""
        self.decisions = self.prefix + "decisions"
        """Stream of decision records, capped."""
        self.checkpoints = self.prefix + "checkpoints"
        """Hash: offset -> header of the checkpoint there (JSON)."""
        self.readers = self.prefix + "readers"
        """Hash: reader -> ``OFFSET MS``: its position, and when it last sent a heartbeat."""
        self.audit = self.prefix + "audit"
        """String: the auditor's latest report (JSON)."""

    def checkpoint(self, offset: int, parts: str, number: int) -> str:
        """String: one line of the checkpoint at an offset, compressed (gzip)."""
        return f"{self.prefix}checkpoint:{offset}:{parts}:{number}"

    def session(self, identity: str) -> str:
        """String, kept for a day: the last call of one writer and its result."""
        return f"{self.prefix}session:{identity}"


def ending(names: Keys, counts: str) -> str:
    """The name of a key of counts without the cluster, for messages."""
    return counts.removeprefix(names.prefix)


def of_other_forms(names: Keys, counts: str) -> bool:
    """Whether a name of live counts is one that another version, or other plugins, give them."""
    return counts != names.counts and _COUNTS.fullmatch(ending(names, counts)) is not None
