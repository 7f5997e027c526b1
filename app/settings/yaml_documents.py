"""Reads YAML with limits on size, depth and number of values.

The limits are checked on the parser's events before any object is built: PyYAML recurses for each level,
and a small file can contain aliases that expand to a huge object.
"""

import yaml

MAX_DEPTH = 64
"""Levels of nested collections."""
MAX_NODES = 20_000
"""Values, including those repeated by aliases."""
MAX_SIZE = 4 * 1024 * 1024
"""Characters or bytes."""


class DocumentTooLarge(ValueError):
    """The document exceeds a limit; the message names it."""


def load(text: str | bytes) -> object:
    """Parse a document into plain objects. Raises DocumentTooLarge or yaml.YAMLError."""
    check(text)
    loaded: object = yaml.safe_load(text)
    return loaded


def check(text: str | bytes) -> None:
    """Raise DocumentTooLarge if a limit is exceeded, or yaml.YAMLError."""
    if len(text) > MAX_SIZE:
        raise DocumentTooLarge(f"is larger than {MAX_SIZE:,} bytes")
    nodes = 0
    sizes: dict[str, int] = {}
    """Anchor -> number of nodes that an alias of it repeats."""
    enclosing: list[tuple[str | None, int]] = []
    """The enclosing collections: anchor, and number of nodes before."""
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        match event:
            case yaml.CollectionStartEvent():
                enclosing.append((event.anchor, nodes))
                nodes += 1
            case yaml.CollectionEndEvent():
                anchor, before = enclosing.pop()
                if anchor is not None:
                    sizes[anchor] = nodes - before
            case yaml.ScalarEvent():
                nodes += 1
                if event.anchor is not None:
                    sizes[event.anchor] = 1
            case yaml.AliasEvent():
                # An alias of an enclosing collection is infinite.
                nodes += sizes.get(event.anchor or "", MAX_NODES)
        if len(enclosing) > MAX_DEPTH:
            raise DocumentTooLarge(f"is nested more than {MAX_DEPTH} levels deep")
        if nodes > MAX_NODES:
            raise DocumentTooLarge(f"has more than {MAX_NODES:,} values, including those repeated by aliases")
