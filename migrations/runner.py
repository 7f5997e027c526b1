"""Bringing a store to the schema of this version, step by step.

Each step is a module of ``migrations.schema`` named ``mNNNN_subject`` with ``SUBJECT`` and
``stages(client, prefix, context)``: what it does, one after the other. A run that was killed is simply
run again: the schema number is written after a step, or with its last write, and a step begins again
with its first stage. There is no way back: restore a backup instead.
"""

import hashlib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import redis

from migrations import folds, schema

MigrationRefused = folds.MigrationRefused
USABLE = ("current", "newer")
"""The states of functions that accept the calls of this version."""
_REVISION = re.compile(rb"^-- Revision (\d+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Status:
    """What a store has, and what this version needs."""

    schema: int
    """0 if the store has never been migrated."""
    latest: int
    library: str
    """missing, outdated, current or newer: as a newer version loaded it, for the same calls."""
    pending: tuple[str, ...]
    """The steps that ``up`` would take, in order."""
    counts: str = ""
    """The live counts: what the key ends with. Empty if there are none."""
    other_counts: str = ""
    """Why the live counts are not those of this version with its plugins, and what to do; else empty."""

    @property
    def ready(self) -> bool:
        """This version can work with the store."""
        return self.schema == self.latest and self.library in USABLE and not self.pending

    @property
    def advice(self) -> str:
        """What to run, or to install; empty if nothing is needed."""
        if self.schema > self.latest:
            return _too_old(self.schema)
        if self.other_counts:
            # `topolog migrate up` takes the counts from every running process of another version.
            return self.other_counts
        return "" if self.ready else "run `topolog migrate up`"


@dataclass(frozen=True, slots=True)
class MigrationContext:
    """What the steps need from outside the store (migrations.folds)."""

    incarnation: str
    begin: Callable[[folds.Holds], folds.Fold]
    patience: float = 60.0
    progress: Callable[[str], None] = lambda _: None
    """Called with the name of each stage before it is taken."""


def latest() -> int:
    """The schema that this version works with."""
    return max(_steps())


def status(client: redis.Redis, prefix: str, library_text: str) -> Status:
    """What the store under ``prefix`` (``topolog:{CLUSTER}:``) has and needs; changes nothing."""
    found = _schema(client, prefix)
    live: Any = client.hget(f"{prefix}meta", "counts")
    return Status(
        schema=found,
        latest=latest(),
        library=loaded(client, library_text),
        pending=tuple(
            f"m{number:04d} {step.SUBJECT}" for number, step in sorted(_steps().items()) if number > found
        ),
        counts=live.decode().removeprefix(prefix) if live else "counts" if found else "",
    )


def up(client: redis.Redis, prefix: str, context: MigrationContext) -> None:
    """Take the pending steps; nothing happens if there are none. Raises Refused."""
    for name, take in stages(client, prefix, context):
        context.progress(name)
        take()


def stages(
    client: redis.Redis, prefix: str, context: MigrationContext
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The steps to take with their names, in order; each must be done before the next is requested.

    Raises MigrationRefused if the store has a newer schema than this version.
    """
    check(client, prefix)
    found = _schema(client, prefix)
    for number, step in sorted(_steps().items()):
        if number > found:
            for name, take in step.stages(client, prefix, context):
                yield f"m{number:04d} {name}", take
            yield f"m{number:04d} number", partial(_number, client, prefix, number)


def check(client: redis.Redis, prefix: str) -> None:
    """Raise MigrationRefused if the store has a newer schema than this version."""
    found = _schema(client, prefix)
    if found > latest():
        raise MigrationRefused(_too_old(found))


def load(client: redis.Redis, library_text: str) -> None:
    """Load the functions into the server, unless it has these or newer ones; those of other schemas stay."""
    if loaded(client, library_text) not in USABLE:
        client.function_load(library_text, replace=True)


def loaded(client: redis.Redis, text: str) -> str:
    """Whether the server's functions are missing, outdated, current or newer."""
    for found in client.function_list(library=library_name(text), withcode=True):
        fields = dict(zip(found[::2], found[1::2], strict=True)) if isinstance(found, list) else found
        code, own = fields[b"library_code"], text.encode()
        if _digest(code) == _digest(own):
            return "current"
        return "newer" if revision(code) > revision(own) else "outdated"
    return "missing"


def revision(code: bytes) -> int:
    """The revision of the functions; 0 for those from before revisions were counted."""
    found = _REVISION.search(code)
    return int(found.group(1)) if found else 0


def library_name(text: str) -> str:
    """What the functions of a text are called together: it has the schema's number in it."""
    found = re.match(r"#!lua name=(\w+)\n", text)
    if found is None:
        raise ValueError("the functions do not begin with their name")
    return found.group(1)


def _too_old(found: int) -> str:
    return (
        f"the store has schema {found}, this version of Topolog supports up to {latest()}:"
        " use the newer Topolog that migrated it"
    )


def _steps() -> dict[int, ModuleType]:
    names = [module.name for module in pkgutil.iter_modules(schema.__path__)]
    return {int(name[1:5]): importlib.import_module(f"{schema.__name__}.{name}") for name in names}


def _schema(client: redis.Redis, prefix: str) -> int:
    """The schema of the store, 0 if there is none. Raises Refused if another program has overwritten it."""
    found: Any = client.hget(f"{prefix}meta", "schema") or b"0"
    if not found.isdigit():
        text = found.decode(errors="replace")[:40]
        raise MigrationRefused(
            f"field schema of {prefix}meta is {text!r}, which is not a number: if this version of Topolog"
            f" used the store last, run HSET {prefix}meta schema {latest()}"
        )
    return int(found)


def _number(client: redis.Redis, prefix: str, number: int) -> None:
    # Never back: another run may have gone on meanwhile.
    if _schema(client, prefix) < number:
        client.hset(f"{prefix}meta", "schema", str(number))


def _digest(code: bytes) -> str:
    return hashlib.sha256(code.strip()).hexdigest()
