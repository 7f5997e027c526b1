"""What can keep a verb from answering."""

from app.domain import snapshots, verdicts


class VerbError(Exception):
    """The verb cannot answer; the text is for the pod's events and says what to do."""


class StateAway(VerbError):
    """The pod needs state that cannot be had right now: the store is away or behind."""


class Refused(VerbError):
    """The pod cannot be placed on the node: the text is the plugin's sentence or the API server's.

    With a plugin's come the trace and the snapshot that it was decided on.
    """

    def __init__(
        self, text: str, *, snapshot: snapshots.Snapshot | None = None, trace: verdicts.Trace | None = None
    ) -> None:
        super().__init__(text)
        self.snapshot = snapshot
        self.trace = trace
