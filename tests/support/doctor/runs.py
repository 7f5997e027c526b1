"""Runs ``topolog doctor`` in this process and reads its JSON."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from click import testing

from app import cli

Json = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of the doctor."""

    code: int
    text: str
    """All of its output."""
    document: Json

    @property
    def checks(self) -> list[Json]:
        """Its results."""
        found: list[Json] = self.document["checks"]
        return found

    def wrong(self) -> dict[str, str]:
        """ID -> verdict of every result that is not ok; the worst of each ID."""
        found: dict[str, str] = {}
        for one in self.checks:
            if one["verdict"] != "ok":
                found.setdefault(one["id"], one["verdict"])
        return found

    def right(self) -> set[str]:
        """The IDs whose results are all ok."""
        return {one["id"] for one in self.checks} - self.wrong().keys()

    def of(self, identity: str) -> list[Json]:
        """The results of one check."""
        return [one for one in self.checks if one["id"] == identity]


def refused(run: Run, part: str) -> None:
    """Each result that is unsure names what the API server refuses: the verb, and a path with this part."""
    for one in run.checks:
        if one["verdict"] == "unsure":
            assert re.search(rf"refuses to (get|list|create) /\S*\b{part}\b", one["seen"]), one


def doctor(*arguments: str, environ: Mapping[str, str] | None = None, stdin: str = "") -> Run:
    """``topolog doctor ARGUMENTS -o json``; only its JSON goes to standard output."""
    bare = {
        "XDG_STATE_HOME": "/proc/nonexistent",
        "KUBECONFIG": "/proc/nonexistent",
        "HOME": "/proc/nonexistent",
    }
    done = testing.CliRunner().invoke(
        cli.topolog, ["doctor", *arguments, "-o", "json"], input=stdin, env={**bare, **(environ or {})}
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    # Other threads of this process may have logged before and after it.
    _, begun, rest = done.stdout.partition("{\n")
    document = json.JSONDecoder().raw_decode(begun + rest)[0] if begun else {"checks": []}
    run = Run(done.exit_code, done.output, document)
    complete(run.checks)
    return run


SPELLED = frozenset(
    (
        *("API", "URL", "URI", "TLS", "AOF", "DNS", "UID", "TCP", "RDB"),
        *("ACL", "SETUSER", "CONFIG", "SET", "REWRITE", "INFO", "BGSAVE", "BGREWRITEAOF", "DEL", "XADD"),
        *("SENTINEL", "CKQUORUM", "SLOWLOG", "GET", "LATENCY", "DOCTOR", "REPLICAOF", "FLUSHALL"),
    )
)
"""What a fix has in capitals without being a placeholder: acronyms, and commands of the store."""


def placeholders(fix: str) -> list[str]:
    """What a reader would have to replace before running it."""
    return [word for word in re.findall(r"(?<![\w~])[A-Z]{3,}(?!\w)", fix) if word not in SPELLED]


def complete(checks: Iterable[Json]) -> None:
    """Each result that is not ok has what was seen, why it matters, a fix and a page."""
    for one in checks:
        assert one["seen"], one
        assert one["docs"].startswith("docs/"), one
        if one["verdict"] != "ok":
            assert one["fix"], one
            assert one["why"], one
            assert not placeholders(one["fix"]), one
