"""Bringing a store to the schema of this version, step by step.

Each step is a module of ``migrations.schema`` named ``mNNNN_subject`` with ``SUBJECT`` and
``up(client, prefix, context)``. Steps are idempotent: a run that was killed is simply run again, and
the schema number is written only after its step. There is no way back: restore a backup instead.
"""

import hashlib
import importlib
import pkgutil
import secrets
from dataclasses import dataclass
from types import ModuleType

import redis

from migrations import schema

LIBRARY = "topolog"


class Refused(Exception):
    """The store cannot be brought to this version's schema; the text says why."""


@dataclass(frozen=True, slots=True)
class Status:
    """What a store has, and what this version needs."""

    schema: int
    """0 if the store has never been migrated."""
    latest: int
    library: str
    """missing, outdated or current."""
    pending: tuple[str, ...]
    """The steps that ``up`` would take, in order."""

    @property
    def ready(self) -> bool:
        """This version can work with the store."""
        return self.schema == self.latest and self.library == "current"


@dataclass(frozen=True, slots=True)
class Context:
    """What a step may need from outside the store."""

    incarnation: str
    """For a store that has none: which history this is."""


def latest() -> int:
    """The schema that this version works with."""
    return max(_steps())


def status(client: redis.Redis, prefix: str, library_text: str) -> Status:
    """What the store under ``prefix`` (``topolog:{CLUSTER}:``) has and needs; changes nothing."""
    found = _schema(client, prefix)
    return Status(
        schema=found,
        latest=latest(),
        library=loaded(client, library_text),
        pending=tuple(
            f"m{number:04d} {step.SUBJECT}" for number, step in sorted(_steps().items()) if number > found
        ),
    )


def up(client: redis.Redis, prefix: str, library_text: str, *, incarnation: str = "") -> Status:
    """Load the functions and take the pending steps; nothing happens if there are none.

    Raises Refused if the store is of a newer schema than this version knows.
    """
    found = _schema(client, prefix)
    if found > latest():
        raise Refused(
            f"the store has schema {found}, this version of Topolog knows up to {latest()}: use a newer one"
        )
    context = Context(incarnation=incarnation or secrets.token_hex(6))
    load(client, library_text)
    for number, step in sorted(_steps().items()):
        if number > found:
            step.up(client, prefix, context)
            client.hset(f"{prefix}meta", "schema", str(number))
    return status(client, prefix, library_text)


def load(client: redis.Redis, library_text: str) -> None:
    """Load the functions into the server, unless it has these very ones."""
    if loaded(client, library_text) != "current":
        client.function_load(library_text, replace=True)


def loaded(client: redis.Redis, text: str) -> str:
    """Whether the server's functions are missing, outdated or current."""
    for found in client.function_list(library=LIBRARY, withcode=True):
        fields = dict(zip(found[::2], found[1::2], strict=True)) if isinstance(found, list) else found
        code = fields[b"library_code"]
        return "current" if _digest(code) == _digest(text.encode()) else "outdated"
    return "missing"


def _steps() -> dict[int, ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(schema.__path__)]
    return {int(name[1:5]): importlib.import_module(f"{schema.__name__}.{name}") for name in names}


def _schema(client: redis.Redis, prefix: str) -> int:
    return int(client.hget(f"{prefix}meta", "schema") or 0)


def _digest(code: bytes) -> str:
    return hashlib.sha256(code.strip()).hexdigest()
