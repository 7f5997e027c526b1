"""The conditions of ``topolog get --where`` as parameters of the API."""

import re
from collections.abc import Sequence
from typing import Final

import click

from app.cli.client import moment_option
from app.cli.get import resources
from app.store.decisions import conditions

_MOMENTS: Final = ("since", "until", "from", "to")
_PLAIN: Final = re.compile(r"(?P<field>[A-Za-z]\w*)=(?!=)(?P<value>.*)\Z", re.DOTALL)


def listing() -> str:
    """The fields of each kind that only FIELD=VALUE selects, for the help."""
    fields = {kind: one.conditions for kind, one in resources.RESOURCES.items() if kind != "decisions"}
    return "; ".join(f"{kind} by {', '.join(names)}" for kind, names in fields.items() if names)


def query(where: Sequence[str], kinds: Sequence[str]) -> dict[str, object]:
    """Query parameters; only decisions take more than FIELD=VALUE. Raises BadParameter."""
    expressions = all(kind == "decisions" for kind in kinds)
    found: dict[str, object] = {}
    others = []
    for condition in where:
        plain = _PLAIN.match(condition)
        allowed = plain is not None and all(
            plain["field"] in resources.RESOURCES[kind].conditions for kind in kinds
        )
        if expressions and (not allowed or _several(condition)):
            others.append(condition)
        elif plain is not None and allowed:
            timed = plain["field"] in _MOMENTS
            if plain["field"] in ("until", "to") and plain["value"] == "now":
                continue  # As without it: the clock of the API may be another one.
            found[plain["field"]] = moment_option.moment(plain["value"]) if timed else plain["value"]
        else:
            raise click.BadParameter(_refusal(condition, plain, kinds), param_hint="--where")
    return {**found, "where": ",".join(others)} if others else found


def _several(condition: str) -> bool:
    """Whether it is a list of conditions, and not a value with commas."""
    try:
        return len(conditions.parse(condition).requirements) > 1
    except conditions.Invalid:
        return False


def _refusal(condition: str, plain: re.Match[str] | None, kinds: Sequence[str]) -> str:
    """Why these kinds cannot be selected by it, and what selects instead."""
    field = plain["field"] if plain is not None else ""
    kind = next(one for one in kinds if field not in resources.RESOURCES[one].conditions)
    known = resources.RESOURCES[kind].conditions
    if not known:
        filtered = ", ".join(name for name, one in resources.RESOURCES.items() if one.conditions)
        cause = f"there are no conditions of {kind}, only of {filtered}"
    elif plain is None:
        return f"{condition!r} is not FIELD=VALUE; only decisions are compared, as in kept<3"
    else:
        cause = f"there is no condition {field!r} of {kind}; known: {', '.join(known)}"
    return f"{cause}; -o 'jsonpath=$.items[?@.FIELD == \"VALUE\"]' selects by any field"
