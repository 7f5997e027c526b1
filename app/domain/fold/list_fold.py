"""Folds the events about lists: which kinds were listed completely, and until when."""

import immutables

from app.domain import events

ListEvent = events.Relisted | events.RecorderElected | events.StoreRewound | events.StoreRestarted


class ListFold:
    """A fold in progress."""

    def __init__(
        self, listed: "immutables.Map[str, str]", unlisted: frozenset[str], declared: frozenset[str]
    ) -> None:
        """``declared``: the kinds that have to be listed."""
        self.listed = listed
        self.unlisted = unlisted
        self._declared = declared

    def apply(self, event: ListEvent) -> None:
        """Apply one event."""
        match event:
            case events.Relisted():
                self.listed = self.listed.set(event.kind, event.until)
                self.unlisted = self.unlisted.difference((event.kind,))
            case events.RecorderElected(unwatched=gone):
                kept = {kind: until for kind, until in self.listed.items() if kind not in gone}
                self.listed = immutables.Map(kept)
                self.unlisted = self.unlisted.union(self._declared.intersection(gone))
            case _:
                self.listed = immutables.Map()
                self.unlisted = self._declared
