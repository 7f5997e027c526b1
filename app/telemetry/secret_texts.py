"""Hides what may be a secret: values by their names, and passwords in texts."""

import re
from typing import Final

HIDDEN: Final = "(hidden)"

_NAME = re.compile(r"pass(word)?$|pwd|secret|token|authorization|credential|private", re.IGNORECASE)
_RUN = re.compile(r"\S+")
_USER = re.compile(r"://[^/@:]*[:@]")
_WORD = re.compile(r"[^\s'\"]+")
_PARAMETER = re.compile(r"(?<=password=)[^&\s]+", re.IGNORECASE)
_IMAGE = re.compile(r"(?!.*//)\(?[\w./:-]+@sha256:[0-9a-f]{64}[),.;:]*")
"""An image with a tag and a digest, which has the form of a user with a password at a host."""


def is_secret(name: str) -> bool:
    """Whether a value of this name is hidden, whatever it is."""
    return _NAME.search(name) is not None


def hidden(text: str) -> str:
    """Without the user-info and the passwords of URLs, in linear time: any client can have a path logged."""
    if "@" in text:
        text = _WORD.sub(_hidden_word, _RUN.sub(_hidden_run, text))
    return _PARAMETER.sub(HIDDEN, text)


def _hidden_run(found: re.Match[str]) -> str:
    """A password behind :// may contain quotes, which end a word otherwise."""
    run = found[0]
    at = run.rfind("@")
    user = _USER.search(run, 0, at + 1)
    return run if user is None else f"{run[: user.start()]}://{HIDDEN}{run[at:]}"


def _hidden_word(found: re.Match[str]) -> str:
    """Everything up to the last @ may be a password that contains / and @."""
    word = found[0]
    at = word.rfind("@")
    if at < 0 or _IMAGE.fullmatch(word):
        return word
    if "password=" in word[:at].lower():
        # The password may go on behind a quote: the parameter is hidden up to its end.
        return f"{HIDDEN}password={HIDDEN}"
    if 0 <= word.find(":", 0, at) < at - 1:
        return f"{HIDDEN}{word[at:]}"
    begin = word.find("//", 0, at) + 2
    return f"{word[:begin]}{HIDDEN}{word[at:]}" if 2 <= begin < at else word
