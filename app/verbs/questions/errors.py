"""Errors of hypothetical questions: what is wrong with the question, and where."""

from collections.abc import Collection

from app import misspellings

_ALIKE = 0.8
"""Ratio of difflib from which a name is taken for another one that is misspelt."""


class Mistake(ValueError):
    """A part of the question is invalid; ``path`` names it, such as ``overrides[2].nodes[0]``."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)


class TooMuch(Mistake):
    """The question exceeds a bound; the text names the bound and what was requested."""


class Missing(ValueError):
    """The object that the question is about does not exist at the moment of its situation."""


def nearest(name: object, known: Collection[str]) -> str:
    """The end of a message about a name that does not exist: the nearest one that does, or all."""
    return misspellings.meant(str(name), known, otherwise=f"; known: {', '.join(dict.fromkeys(known))}")


def resembles(name: str, known: Collection[str]) -> bool:
    """Whether the name is one of these in another spelling."""
    return bool(misspellings.meant(name, known, cutoff=_ALIKE))
