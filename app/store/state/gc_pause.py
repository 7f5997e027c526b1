"""Pauses the cycle collector during large folds.

Reading or folding a snapshot creates hundreds of thousands of long-lived objects: searching them for
cycles repeatedly takes longer than the fold itself and finds none.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_switch = threading.Lock()
"""Held to switch the collector. Otherwise a block that ends while another one begins could be that which the
other expects to resume the collection, which nothing would then do."""


@contextmanager
def paused(*, lasting: bool = False) -> Iterator[None]:
    """No collection during the block. If several overlap, the end of the first one resumes it for all.

    ``lasting``: objects alive afterwards are excluded from all later collections, for a fold at the start.
    """
    with _switch:
        enabled = gc.isenabled()
        gc.disable()
    try:
        yield
    finally:
        if lasting:
            gc.freeze()
        if enabled:
            with _switch:
                gc.enable()
