"""Counts the calls of a function that are made meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock


@contextmanager
def counted(owner: object, name: str) -> Iterator[mock.MagicMock]:
    """The calls of a function, which is carried out as ever."""
    with mock.patch.object(owner, name, autospec=True, side_effect=getattr(owner, name)) as calls:
        yield calls
