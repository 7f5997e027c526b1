"""The first schema: an empty log with an incarnation."""

from collections.abc import Callable, Sequence
from functools import partial

import redis

from migrations import folds

SUBJECT = "an empty log"


def stages(
    client: redis.Redis, prefix: str, context: folds.StepContext
) -> Sequence[tuple[str, Callable[[], None]]]:
    """One."""
    return (("create", partial(create, client, prefix, context.incarnation)),)


def create(client: redis.Redis, prefix: str, incarnation: str) -> None:
    """Create meta, each field only if it is absent: a second run changes nothing."""
    meta = f"{prefix}meta"
    client.hsetnx(meta, "incarnation", incarnation)
    client.hsetnx(meta, "head", "0")
