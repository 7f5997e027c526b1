"""How much of one object is kept, so that no single one fills the log.

The API server bounds neither the number of labels nor that of owners. What is longer than here is not
shortened, because a selector may name any label: the object is quarantined and its author can read why.
"""

from collections.abc import Iterable

POD_LABELS = 16 * 1024
"""Characters of all labels of a pod: some hundred labels."""
NODE_LABELS = 64 * 1024
"""Characters of all labels of a node, which feature discovery labels by the hundred."""
ANNOTATIONS = 8 * 1024
"""Characters of the annotations that plugins read."""
OWNERS = 4 * 1024
"""Characters of all owner references."""
TAINTS = 16 * 1024
"""Characters of all taints of a node."""
RESOURCES = 4 * 1024
"""Characters of the names of all resources that are requested or allocatable."""
MESSAGE = 1024
"""Characters that are kept of the message of a condition."""
REASON = 512
"""Characters that are kept of the reason why an object was set aside."""
SHARED = 32 * 1024 * 1024
"""Characters of what is shared between objects, for each kind of part."""


class Exceeded(ValueError):
    """An object is larger than what is kept of one."""


def check(what: str, texts: Iterable[str], most: int) -> None:
    """Raise Exceeded if the texts are longer than ``most`` characters together."""
    size = sum(map(len, texts))
    if size > most:
        raise Exceeded(f"its {what} have {size} characters; at most {most} are kept")


def shortened(text: str, most: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
