"""Finds what a Secret contains in a text that is no secret."""

import base64
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_PASSWORD = re.compile(r"://[^:/?#@\s]*:([^@\s]+)@")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)\n-----END", re.DOTALL)


def parts(secrets: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Secret text -> NAME/KEY of the Secret that has it.

    These are each value, as it is and in base64; the passwords of its URLs, as written there and decoded; and
    each line of its private keys.
    """
    return {
        text: f"{one['metadata']['name']}/{key}"
        for one in secrets
        for key, encoded in (one.get("data") or {}).items()
        for text in (encoded, *_parts(base64.b64decode(encoded).decode(errors="replace")))
    }


def disclosed(secret: Mapping[str, str], text: str) -> list[str]:
    """The NAME/KEY of each part that a text shows."""
    return sorted({name for part, name in secret.items() if part in text})


def _parts(content: str) -> Iterator[str]:
    yield content.strip()
    for password in _PASSWORD.findall(content):
        yield from (password, urllib.parse.unquote(password))
    for body in _PRIVATE_KEY.findall(content):
        yield from body.splitlines()
