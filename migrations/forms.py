"""The forms that the names in a view have had, and how they follow from one another.

Pure functions over text, kept for ever: with them a view of the present form is compared with one of
an older form, and a checkpoint of an older form is read.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType


def _unlabelled(name: str) -> str:
    """``NS/POLICY|LABEL=DOMAIN`` as ``NS/POLICY|DOMAIN``."""
    policy, _, place = name.partition("|")
    return f"{policy}|{place.partition('=')[2]}"


COUNTS: Mapping[int, Callable[[str], str]] = MappingProxyType({2: _unlabelled})
"""Form of the counts -> its names in the form before."""


def counts_in(form: int, counts: Mapping[str, int], present: int) -> dict[str, int]:
    """Counts of the present form as they would be in an older one."""
    found = dict(counts)
    for number in range(present, form, -1):
        merged: Counter[str] = Counter()
        for name, count in found.items():
            merged[COUNTS[number](name)] += count
        found = dict(merged)
    return found


def labelled(counts: Mapping[str, int], labels: Mapping[str, str]) -> dict[str, int]:
    """Counts of form 1 in form 2; ``labels``: policy -> the label that its domains are values of.

    Raises LookupError for a count of no such policy.
    """
    parts = ((name.partition("|"), count) for name, count in counts.items())
    return {f"{policy}|{labels[policy]}={domain}": count for (policy, _, domain), count in parts}
