"""The interface of a step between two versions of an event."""

from collections.abc import Callable

Fields = dict[str, object]
"""Of an event, by literal name."""

Step = Callable[[Fields], Fields]
"""The fields of one version -> those of the next."""
