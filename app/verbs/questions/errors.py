"""Errors of hypothetical questions: what is wrong with the question, and where."""


class Mistake(ValueError):
    """A part of the question is invalid; ``path`` names it, such as ``overrides[2].nodes[0]``."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)


class TooMuch(Mistake):
    """The question exceeds a bound; the text names the bound and what was requested."""


class Missing(ValueError):
    """The object that the question is about does not exist at the moment of its situation."""
