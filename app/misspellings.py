"""Names that do not exist, in messages: the nearest one that does."""

import difflib
from collections.abc import Iterable

_COMPARED = 100
"""Characters of a name that are compared: difflib takes long for more."""


def meant(name: str, known: Iterable[str], *, otherwise: str = "", cutoff: float = 0.6) -> str:
    """The end of a message about a name that does not exist: which of the known ones is like it, if any.

    ``otherwise``: the end without one; ``cutoff``: the ratio of difflib from which names are alike.
    """
    near = difflib.get_close_matches(name[:_COMPARED], list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else otherwise
