"""Old event -> newer event, as dicts, one version at a time.

A step is a pure function over literal field names, kept for ever: it must read what was once
written, whatever the event has become since. Golden files of every version written are in
tests/migrations/golden and are never edited.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

Fields = dict[str, object]
Step = Callable[[Fields], Fields]

STEPS: Mapping[tuple[str, int], Step] = MappingProxyType({})
"""(tag, version) -> the step to version + 1. A step may change ``type`` if an event was renamed."""


def upcast(
    tag: str, version: int, current: int, fields: Fields, steps: Mapping[tuple[str, int], Step] = STEPS
) -> Fields:
    """The fields of an event of ``version`` as those of version ``current``.

    Raises LookupError if a step between them is missing, which is a defect of this program.
    """
    for step in range(version, current):
        try:
            fields = steps[tag, step](fields)
        except KeyError:
            raise LookupError(f"no upcaster from {tag} version {step} to {step + 1}") from None
    return fields
