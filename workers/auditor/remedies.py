"""The command that repairs a difference, and whether the store is reliable while it is open."""

import re
import shlex

import msgspec

from app import plurals
from app.domain.audit import findings
from app.store import keys

_ESCAPED = re.compile(r"\\x[0-9a-f]{2}")
REPAIR_TAIL = "topolog doctor store --repair-tail"
_SHOWN = 100


def remedy(one: findings.Difference, names: keys.Keys) -> findings.Difference:
    """The difference with the command that repairs it, if there is one."""
    run = one.run or _command(one, names)
    return msgspec.structs.replace(one, run=run) if run else one


def by_hand(one: findings.Difference, key: str) -> findings.Difference:
    """The difference of a field that no event can name, with the command that removes it."""
    return msgspec.structs.replace(one, run=f"HDEL {key} {_quoted(one.key)}")


def problem(differences: list[findings.Difference], *, repair: bool) -> str:
    """Why extenders must not rely on the store, and what to run; empty if they may."""
    wrong = [one for one in differences if one.kind in findings.UNUSABLE]
    if not wrong:
        return ""
    first = next((one for one in wrong if one.run), wrong[0])
    text = f"{findings.KINDS[first.kind]}: {first.key} is {_short(first.found)}, not {_short(first.expected)}"
    more = f" (and {plurals.counted(len(wrong) - 1, 'more difference')})" if len(wrong) > 1 else ""
    if first.run:
        return f"{text}{more}; run {first.run}"
    outlook = "the auditor repairs it" if repair else "audit.repair is off: set it, or repair it by hand"
    return f"{text}{more}; {outlook}"


def _command(one: findings.Difference, names: keys.Keys) -> str:
    name = one.key.partition(":")[2]
    match one.kind:
        case "count" if not one.found.lstrip("-").isdigit():
            return f"HDEL {names.counts} {_quoted(one.key)}"
        case "head" | "meta" if one.expected == "nothing":
            return f"HDEL {names.meta} {_quoted(name)}"
        case "head" | "meta":
            return f"HSET {names.meta} {_quoted(name)} {_quoted(one.expected)}"
        case "mistyped":
            return f"DEL {one.key}"
        case "tail" | "foreign":
            return REPAIR_TAIL
        case of if of in findings.LOG:
            # The recorder then begins a new incarnation and lists the cluster.
            return f"DEL {names.meta} (or restore a backup first: docs/how-to/history.md)"
        case _:
            return ""


def escaped(word: str) -> bool:
    """Whether a word of the store has bytes that are not text."""
    return _ESCAPED.search(word) is not None


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _quoted(word: str) -> str:
    """A word for redis-cli and valkey-cli, which read escaped bytes in double quotes only."""
    return f'"{word}"' if escaped(word) else shlex.quote(word)
