"""Numbers with their nouns, and lists of names, for sentences."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """``1 pod`` or ``2 pods``: for nouns whose plural ends in s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first ``most`` names, and how many more there are: ``a, b, c and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
