"""Size limits on each part of an object, so that no single object fills the log.

The API server limits neither the number of labels nor that of owners. A part that is too long is not
truncated, because a selector may name any label: the object is quarantined, with a reason for its author.
"""

from collections.abc import Iterable

POD_LABELS = 16 * 1024
"""Characters of all labels of a pod: several hundred labels."""
NODE_LABELS = 64 * 1024
"""Characters of all labels of a node: node feature discovery sets hundreds."""
ANNOTATIONS = 8 * 1024
"""Characters of the annotations that plugins read."""
OWNERS = 4 * 1024
"""Characters of all owner references."""
TAINTS = 16 * 1024
"""Characters of all taints of a node."""
RESOURCES = 4 * 1024
"""Characters of the names of all requested or allocatable resources."""
CONSTRAINTS = 32 * 1024
"""Characters of the JSON of a pod's tolerations, selectors, affinity and ports."""
MESSAGE = 8 * 1024
"""Characters of a condition's message; the rest is cut. kube-scheduler cuts that of its Event alone: it lists
each taint of a node as a reason of its own, sorted by the text, so that of an extender may be the last."""
REASON = 512
"""Characters of the reason of a quarantine; the rest is cut."""
SHARED = 32 * 1024 * 1024
"""Characters of the parts that objects share, for each table of them."""


class Exceeded(ValueError):
    """A part of an object exceeds its limit."""


def check(what: str, texts: Iterable[str], limit: int) -> None:
    """Raise Exceeded if the texts have more than ``limit`` characters in total."""
    size = sum(map(len, texts))
    if size > limit:
        raise Exceeded(f"its {what} have {size} characters; the limit is {limit}")
