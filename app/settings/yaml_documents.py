"""Reads YAML with limits on size, depth and number of values, and without its values in errors.

The limits are checked on the parser's events before any object is built: PyYAML recurses for each level,
and a small file can contain aliases that expand to a huge object. A value may be a password, also one that
YAML reads as a tag, an alias or a date.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Final, cast

import yaml

MAX_DEPTH = 64
"""Levels of nested collections."""
MAX_NODES = 20_000
"""Values, including those repeated by aliases."""
MAX_SIZE = 4 * 1024 * 1024
"""Characters or bytes."""
MAX_NUMBER = 100
"""Characters of a number: decoding takes the square of their time, as in `1:1:1`, a number in base 60."""
_NUMBERS: Final = {"tag:yaml.org,2002:int": "an int", "tag:yaml.org,2002:float": "a float"}
_NAMED: Final = re.compile(
    r"could not determine a constructor for the tag"
    r"|(found undefined|found duplicate|duplicate) (tag handle|alias|anchor)"
)
"""Problems of PyYAML that continue with a name."""


class DocumentTooLarge(ValueError):
    """The document exceeds a limit; the message names it."""


class NotYaml(ValueError):
    """The text is not YAML; the message has the line and the problem, and nothing of the text."""


def load(text: str | bytes) -> object:
    """Parse a document into plain objects. Raises DocumentTooLarge or NotYaml."""
    check(text)
    with _problems():
        # _Loader is a SafeLoader.
        loaded: object = yaml.load(text, Loader=_Loader)
    return loaded


def load_all(text: str | bytes) -> list[object]:
    """The documents of a stream that are not empty, with timestamps as text, as Kubernetes reads YAML.

    Checks no limits. Raises NotYaml.
    """
    with _problems():
        # _TextLoader is a SafeLoader.
        return [one for one in yaml.load_all(text, Loader=_TextLoader) if one is not None]


@contextlib.contextmanager
def _problems() -> Iterator[None]:
    """Raise NotYaml for the errors of PyYAML: the snippets of their marks show the text."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise NotYaml(f"is not YAML{line}: {_problem(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise NotYaml("is not YAML: it contains characters that YAML does not allow") from None


def _problem(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, without the names of tags and aliases."""
    message = error.problem or "it cannot be parsed"
    found = _NAMED.match(message)
    return f"{found[0]}: quote a text that begins with !, & or *" if found else message


class _Loader(yaml.SafeLoader):
    """Reports a scalar that its type cannot hold with its line, instead of an error of Python."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        if node.tag in _NUMBERS and len(node.value) > MAX_NUMBER:
            message = (
                f"found {_NUMBERS[node.tag]} of more than {MAX_NUMBER} characters: quote it if it is a text"
            )
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
        try:
            made: object = super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, OverflowError):
            kind = node.tag.removeprefix("tag:yaml.org,2002:")
            message = f"found a value that cannot be read as {kind}: quote it if it is a text"
            raise yaml.constructor.ConstructorError(None, None, message, node.start_mark) from None
        return made


class _TextLoader(_Loader):
    """YAML without timestamps."""


_TextLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def check(text: str | bytes) -> None:
    """Raise DocumentTooLarge if a limit is exceeded, or NotYaml."""
    if len(text) > MAX_SIZE:
        raise DocumentTooLarge(f"is larger than {MAX_SIZE:,} bytes")
    with _problems():
        _check_events(text)


def _check_events(text: str | bytes) -> None:
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
                if event.anchor not in sizes and all(event.anchor != anchor for anchor, _ in enclosing):
                    mark = cast(yaml.Mark, event.start_mark)
                    raise yaml.MarkedYAMLError(problem="found undefined alias", problem_mark=mark)
                # An alias of an enclosing collection is infinite.
                nodes += sizes.get(event.anchor or "", MAX_NODES)
        if len(enclosing) > MAX_DEPTH:
            raise DocumentTooLarge(f"is nested more than {MAX_DEPTH} levels deep")
        if nodes > MAX_NODES:
            raise DocumentTooLarge(f"has more than {MAX_NODES:,} values, including those repeated by aliases")
