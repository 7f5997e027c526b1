"""Texts that many decoded objects have in common, such as the zones in the labels of nodes, held once."""

import functools

MOST = 65_536
"""Texts that are held. Bounded: sys.intern never frees a text on CPython 3.12."""

shared = functools.lru_cache(maxsize=MOST)(str)
"""The text, one object for equal recent ones."""


def share_values(labels: dict[str, str], name: str) -> None:
    """Replace the values of labels by equal shared ones, or by the name of the object, which no other has."""
    for key, value in labels.items():
        labels[key] = name if value == name else shared(value)
