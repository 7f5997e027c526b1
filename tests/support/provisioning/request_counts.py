"""Selects one of the requests that a run sends, by its number."""

import itertools
from collections.abc import Callable

from app.simulation.apiserver import requests


def after(
    number: int, counted: Callable[[requests.Request], bool] = lambda _: True
) -> Callable[[requests.Request], bool]:
    """Match the request after so many of those that are counted."""
    seen = itertools.count()
    return lambda request: counted(request) and next(seen) == number
