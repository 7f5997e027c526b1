"""The plugins that took a recorded decision, made again from the configuration in the log."""

from collections.abc import Callable, Sequence
from typing import Any

from app.domain import model, snapshots
from app.domain.fold import settings_fold
from app.framework import registry, registry_builder

_KEPT = 2 * settings_fold.MOST_CONFIGURATIONS


class RecordedConfigurations:
    """Digest -> plugins; those of this process are used for its own digest."""

    def __init__(
        self,
        present: registry.Registry,
        known: Sequence[type[Any]],
        snapshot: Callable[[], snapshots.Snapshot],
    ) -> None:
        """``present``: those of this process; ``known``: the classes of all plugins that can be enabled."""
        self.present = present
        self.known = known
        """The classes of all plugins that a question may enable."""
        self._snapshot = snapshot
        self._made: dict[str, registry.Registry] = {}

    def find(self, digest: str) -> registry.Registry | None:
        """The plugins of a configuration; those of this process for an empty digest.

        None if the log does not hold it, if this version cannot repeat it, or if its plugins read labels that
        this process does not index.
        """
        if digest in ("", self.present.digest):
            return self.present
        found = self._made.get(digest)
        if found is None:
            recorded = self._snapshot().configuration(digest)
            found = self._build(recorded) if recorded is not None else None
            if found is not None:
                if len(self._made) >= _KEPT:
                    self._made.clear()
                self._made[digest] = found
        return found

    def _build(self, recorded: model.Configuration) -> registry.Registry | None:
        try:
            made = registry_builder.rebuild(self.known, recorded)
        except registry.ConfigurationRefused:
            return None
        repeats = made.digest == recorded.digest
        return made if repeats and made.indexed() <= self.present.indexed() else None
