"""Counts calls: the work of a function, independent of the machine."""

import gc
import sys
from collections.abc import Callable


def calls_of(run: Callable[[], object]) -> int:
    """How many calls a function makes when it runs for the second time."""
    count = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    run()  # It may import something.
    gc.disable()  # Other code has callbacks for it.
    sys.setprofile(counted)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
