"""Large folds without the cycle collector.

A snapshot that is read or folded at once makes hundreds of thousands of objects that stay: looking for
cycles among them, again and again, takes longer than the fold itself and finds none.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused(*, lasting: bool = False) -> Iterator[None]:
    """No collection meanwhile. Where several overlap, the one that paused first ends it for all.

    ``lasting``: what there is afterwards stays, and is never looked through: for a fold at the start.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if lasting:
            gc.freeze()
        if enabled:
            gc.enable()
