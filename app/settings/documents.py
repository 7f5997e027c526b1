"""YAML that somebody wrote, read within bounds: a small file must not become a large object, nor a deep one.

The limits are checked on the parser's events, one by one, before anything is built: PyYAML itself recurses
for each level, and an alias repeats what it names at no cost to whoever wrote it.
"""

import yaml

DEEPEST = 64
"""Collections inside one another."""
MOST_NODES = 20_000
"""Values, those that aliases repeat included."""
LARGEST = 4 * 1024 * 1024
"""Characters, or bytes."""


class TooMuch(ValueError):
    """The document exceeds a limit; the text says which."""


def load(text: str | bytes) -> object:
    """The document as plain objects. Raises TooMuch or yaml.YAMLError."""
    check(text)
    loaded: object = yaml.safe_load(text)
    return loaded


def check(text: str | bytes) -> None:
    """Raise TooMuch, or yaml.YAMLError, for a document that must not be built."""
    if len(text) > LARGEST:
        raise TooMuch(f"is larger than {LARGEST:,} bytes")
    nodes = 0
    sizes: dict[str, int] = {}
    """Anchor -> how many nodes an alias of it stands for."""
    begun: list[tuple[str | None, int]] = []
    """The collections around here: anchor, and how many nodes there were before."""
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        match event:
            case yaml.CollectionStartEvent():
                begun.append((event.anchor, nodes))
                nodes += 1
            case yaml.CollectionEndEvent():
                anchor, before = begun.pop()
                if anchor is not None:
                    sizes[anchor] = nodes - before
            case yaml.ScalarEvent():
                nodes += 1
                if event.anchor is not None:
                    sizes[event.anchor] = 1
            case yaml.AliasEvent():
                # One of a collection that it is in has no end.
                nodes += sizes.get(event.anchor or "", MOST_NODES)
        if len(begun) > DEEPEST:
            raise TooMuch(f"is nested more than {DEEPEST} levels deep")
        if nodes > MOST_NODES:
            raise TooMuch(f"has more than {MOST_NODES:,} values, those that aliases repeat included")
