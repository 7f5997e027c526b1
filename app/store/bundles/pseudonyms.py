"""The words of a bundle that are names, and the table of the pseudonyms that stand for them.

A word has one pseudonym wherever it occurs, so what was equal stays equal: the name of a node and the value
of its hostname label, the value of a pod's label and the name of a policy. Pseudonyms sort as the words that
they stand for, because rows are listed and ties are broken in the order of names.
"""

import re
import secrets
import string
from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, get_args

import msgspec

from app import converters
from app.framework import views
from app.store.bundles import vocabulary

Kind = Literal["node", "pod", "namespace", "object", "owner", "process", "cluster", "uid", "value", "word"]
"""What a word is the name of; one that is used as several has the first."""

KIND: Final = "topolog.names"
VERSION: Final = 1
WELL_KNOWN: Final = frozenset(
    (
        "",
        "true",
        "false",
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
    )
)
"""Words that are never replaced: the same in every cluster."""

_RANK: Final[Mapping[Kind, int]] = {kind: at for at, kind in enumerate(get_args(Kind))}
_WIDTH: Final = 4
_NUMBER: Final = re.compile(
    r"\d{1,6}(?:\.\d{1,6})?(?:ns|us|ms|s|m|h|d|x|k|Ki|Mi|Gi|Ti|Pi|M|G|T|P)?", re.ASCII
)
"""Scores, sizes, counts and durations: plugins calculate with such values. Longer ones may be identifiers."""
_WRITTEN: Final = re.compile(r"\d+(?:\.\d+)?|\d{4}-\d\d-\d\dT\d\d|\d\d(?:\.\d+)?Z", re.ASCII)
"""Numbers and parts of times, which sentences have without anything being named by them."""
_PSEUDONYM: Final = re.compile(rf"(?<![\w.-])([a-z][a-z0-9]{{3}})-\d{{{_WIDTH},}}-(?:{'|'.join(_RANK)})\b")


class Public(msgspec.Struct, frozen=True):
    """What names nothing of a cluster."""

    words: frozenset[str]
    """Words of the product, in lower case (vocabulary.words)."""
    plugins: frozenset[str] = frozenset()
    """Plugins whose arguments are label keys and modes, and no names."""
    disclosed: views.Terms = views.Terms()
    """What the plugins declare."""
    terms: frozenset[str] = frozenset()
    """Words that stay where they have a meaning, such as the key of an argument, and not in sentences."""

    def is_plain(self, word: str) -> bool:
        """Whether a word is never replaced: it is a short number, well known, or a term of a plugin."""
        return word in WELL_KNOWN or word in self.disclosed.words or _NUMBER.fullmatch(word) is not None

    def has(self, word: str) -> bool:
        """Whether a word of a sentence names nothing of the cluster."""
        return word.lower() in self.words or _WRITTEN.fullmatch(word) is not None or self.is_plain(word)


class Unreadable(Exception):
    """The file is not a table of names; the message gives the reason."""


class Names(msgspec.Struct, frozen=True):
    """The file with the names, which stays with those who made the bundle."""

    kind: str
    version: int
    tag: str
    """``About.pseudonyms`` of its bundle."""
    names: dict[str, str]
    """Pseudonym -> the word that it stands for."""

    def encoded(self) -> bytes:
        """The file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def translated(self, text: str) -> tuple[str, int]:
        """The text with the names in place of their pseudonyms, and the number of unknown pseudonyms."""
        unknown = 0

        def name(match: re.Match[str]) -> str:
            nonlocal unknown
            found = self.names.get(match[0])
            unknown += found is None
            return match[0] if found is None else found

        return _PSEUDONYM.sub(name, text), unknown


_names = converters.Converter(Names)


def read(raw: bytes) -> Names:
    """The table of a file. Raises Unreadable."""
    try:
        found = _names.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreadable(f"it is not a file of names: {str(error)[:200]}") from error
    if found.kind != KIND or found.version > VERSION:
        raise Unreadable(f"it is not a file of names that this version reads, but a {found.kind[:80]!r}")
    return found


def tag() -> str:
    """A new tag: four characters by which the pseudonyms of a bundle differ from those of others."""
    return secrets.choice(string.ascii_lowercase) + "".join(
        secrets.choice(string.ascii_lowercase + string.digits) for _ in range(3)
    )


class Words:
    """Treats the strings of a bundle by what they are; by itself it leaves all of them as they are."""

    def __init__(self, public: Public) -> None:
        self.public = public

    def name(self, text: str, kind: Kind) -> str:
        """A string of names alone, such as ``namespace/name``: every word of it is replaced."""
        return text

    def text(self, text: str) -> str:
        """A sentence: names and all words that are not public are replaced."""
        return text

    def term(self, text: str) -> str:
        """A string that has a meaning, such as a mode: if it is public, it stays even as a name."""
        return text

    def key(self, text: str) -> str:
        """The key of a label or of an annotation, which stays."""
        return text

    def _is_term(self, text: str) -> bool:
        public = self.public
        return all(
            public.has(word) or word.lower() in public.terms for word in vocabulary.TOKEN.findall(text)
        )


class Census(Words):
    """Finds the names."""

    def __init__(self, public: Public) -> None:
        super().__init__(public)
        self.names: dict[str, Kind] = {}
        self.keys: set[str] = set()

    def name(self, text: str, kind: Kind) -> str:
        for word in vocabulary.TOKEN.findall(text):
            if not self.public.is_plain(word) and _RANK[kind] < _RANK[self.names.get(word, "word")]:
                self.names[word] = kind
        return text

    def text(self, text: str) -> str:
        for word in vocabulary.TOKEN.findall(text):
            if not self.public.has(word):
                self.names.setdefault(word, "word")
        return text

    def term(self, text: str) -> str:
        return text if self._is_term(text) else self.text(text)

    def key(self, text: str) -> str:
        self.keys.add(text)
        return text

    def table(self, chosen: str) -> Names:
        """A pseudonym for each name, all with the tag."""
        # A word of a sentence that turns out to be the part of a label key stays.
        keyed = {word for key in self.keys for word in (key, *key.split("/"))}
        ordered = sorted(word for word, kind in self.names.items() if kind != "word" or word not in keyed)
        width = max(_WIDTH, len(str(len(ordered))))
        names = {f"{chosen}-{at:0{width}}-{self.names[word]}": word for at, word in enumerate(ordered, 1)}
        return Names(KIND, VERSION, chosen, names)


class Replacement(Words):
    """Replaces the names."""

    def __init__(self, public: Public, table: Names, keys: Collection[str]) -> None:
        super().__init__(public)
        self._pseudonyms = {word: pseudonym for pseudonym, word in table.names.items()}
        self._keys = frozenset(keys)
        self._sub: Callable[[str], str] = lambda text: vocabulary.TOKEN.sub(self._word, text)

    def name(self, text: str, kind: Kind) -> str:
        found = self._pseudonyms.get(text)
        return found if found is not None else self._sub(text)

    def text(self, text: str) -> str:
        return self._sub(text)

    def term(self, text: str) -> str:
        return text if text in self._keys or self._is_term(text) else self._sub(text)

    def _word(self, match: re.Match[str]) -> str:
        return self._pseudonyms.get(match[0], match[0])
