"""The words to avoid, what to write instead, and where docs, comments, strings and names use them.

``python -m tests.project.words PATH ...`` prints every occurrence below the paths as ``FILE:LINE: ...``.
"""

import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parent.parent.parent

INSTEAD: Mapping[str, str] = {
    "tell|tells|telling|told": "report, notify, show, return",
    "say|says|saying|said": "state, report, name, contain",
    "hear|hears|hearing|heard": "receive, be notified",
    "(?:look|looks|looked|looking) at": "check, read, examine, poll",
    "know|knows|knew|knowing": "have, contain, detect, have read",
    "believe|believes|believed": "trust, assume, accept",
    "whoever|whomever|whosever": "any ... that, every ... that",
    "nobody|somebody|everybody|anybody": "no process, a client, every reader, ...",
    "anew": "again",
    "room|rooms": "capacity, space",
    "trouble|troubles": "problem, error",
    "sight|sights": "observation",
    "promise|promises|promised|promising": "placement, guarantee",
    r"(?:take|takes|taken|taking|took|give|gives|given|gave) back": "release",
    "stands? by|stood by|standing by": "be on standby",
    "(?:stands?|stood) (?:above|at|below|beside|in the|in a|in full|side by side)": "is above, is shown",
    "standings?": "current, placed, located",
    "strangers?": "unknown, unrelated, foreign, unauthenticated",
    "vouch|vouche[sd]|vouching": "verify, confirm",
    "(?:has|have|had|does not|do not|did not) come": "arrive, be added",
    "beginnings?": "start, recovery point",
    "(?:is|are|was|were) to (?:be|end|go|happen|have|preempt|run|start|stop)": "must, has to, should",
    "for ever": "forever, permanently, always",
    "(?:leave|leaves|left|leaving) word": "record",
    "passe[sd] over|passing over": "skip",
    "(?:let|lets|letting) go": "delete, release",
    r"past the (?:store's )?(?:functions?|log)": "bypassing the append function",
    "the store's function": "the append function",
    "made good": "repaired",
    "in office": "leading",
    "aloud|deaf": "(drop)",
    "gone on with": "continued, reused",
    r"be it \w+": "whether ... or",
    "that (?:is|are) none": "that is missing, that is invalid",
    "(?:is|are) none of": "is not one of",
    "none if none": "None if no ... is",
    r"(?<!there\s)(?:is|are) no (?:JSON|UTF|YAML|text|bundle|candidate|configuration|event|extender|gang|id"
    "|list|lists|metric|number|object|objects|record|records|row|server|string|strings)": "is not a",
    "cannot be had|can be had": "cannot be obtained, is available",
    r"ADRs?": "decision N",
}
"""Pattern of a word or phrase -> what to write instead."""

_FORBIDDEN = re.compile(
    r"\b(?:" + "|".join(pattern.replace(" ", r"\s+") for pattern in INSTEAD) + r")\b", re.IGNORECASE
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNPROSED = re.compile(
    r"```.*?```|\[[^]]+\]\(\.\./tests/[^)]*\)|\]\([^)]*\)|`[^`\n]+`|^<!-- .*? -->$", re.DOTALL | re.MULTILINE
)
"""In Markdown: code, the names of tests, targets of links, comments."""
_READ = (".cfg", ".go", ".js", ".lua", ".md", ".py", ".sh", ".toml", ".yaml", ".yml")
_NAMED = ("Dockerfile", "Makefile")
"""Suffixes, and names without one, of the files that are read."""
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


class Found(NamedTuple):
    """One occurrence."""

    path: str
    """Relative to the root."""
    line: int
    word: str
    """As it is written, in lower case, with single spaces."""
    text: str
    """The line that it begins on."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}: {self.text.strip()[:100]}"


def occurrences(path: pathlib.Path) -> list[Found]:
    """The occurrences in a text file; code in Markdown is left out, and Promise in JavaScript."""
    source = path.read_text()
    match path.suffix:
        case ".py":
            pieces: Iterable[tuple[int, str]] = _python(source)
        case ".lua":
            pieces = _lines(source, "--")
        case ".go":
            pieces = _lines(source, "//")
        case ".js":
            pieces = _lines(source.replace("Promise", ""), "//")
        case ".md":
            pieces = [(1, _UNPROSED.sub(_blank, source))]
        case _:
            pieces = [(1, source)]
    lines = source.splitlines()
    name = path.relative_to(ROOT).as_posix()
    found = []
    for first, piece in pieces:
        for match in _FORBIDDEN.finditer(piece):
            at = first + piece.count("\n", 0, match.start())
            found.append(Found(name, at, " ".join(match.group(0).lower().split()), lines[at - 1]))
    return found


def in_paths(paths: Iterable[pathlib.Path]) -> list[Found]:
    """The occurrences in files, and in all text files of folders except those of other projects."""
    found = []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            read = file.suffix in _READ or file.name in _NAMED
            if read and file.is_file() and not {"__pycache__", "vendor"} & {*file.parts}:
                found += occurrences(file)
    return found


def _blank(match: re.Match[str]) -> str:
    """As many lines of nothing."""
    return "\n" * match.group(0).count("\n")


def _python(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment, string and name; a name as its parts: ``as_told`` is ``as told``."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], " ".join(_PARTS.findall(token.string))
        elif token.type == tokenize.COMMENT or token.type in _STRINGS:
            yield token.start[0], token.string


def _lines(source: str, comment: str) -> Iterator[tuple[int, str]]:
    """(line, text): the names of a line as their parts, unless it has a comment."""
    for number, line in enumerate(source.splitlines(), 1):
        yield number, " ".join(_PARTS.findall(line)) if comment not in line else line


def main(arguments: list[str]) -> int:
    """Print the occurrences below the paths; 1 if there are any."""
    found = in_paths(pathlib.Path(argument).resolve() for argument in arguments)
    for one in found:
        print(one)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
