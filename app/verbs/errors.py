"""Errors that verbs answer with."""

from app.domain import snapshots, verdicts


class VerbError(Exception):
    """The verb cannot answer; the text becomes the pod's event: what is wrong, and what to do."""


class StateAway(VerbError):
    """The decision needs state that is not available now: the store is away or behind."""


class PluginFailed(VerbError):
    """A plugin failed, so that a hard rule could not be applied; the text names it."""


class Refused(VerbError):
    """The pod cannot be bound to the node; the text is the reason of the plugin or of the API server.

    If a plugin refused, ``trace`` is the decision and ``snapshot`` the state that it was made on.
    """

    def __init__(
        self, text: str, *, snapshot: snapshots.Snapshot | None = None, trace: verdicts.Trace | None = None
    ) -> None:
        super().__init__(text)
        self.snapshot = snapshot
        self.trace = trace
