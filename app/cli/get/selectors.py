"""Label selectors as kubectl has them: ``a=b,c!=d,e in (f,g),h notin (i),j,!k``."""

import re
from typing import Final

import click

from app.domain import model

_PART: Final = re.compile(
    r"""
    (?: (?P<key>[^\s,!=()]+) \s* (?: (?P<sign>==|=|!=) \s* (?P<value>[^\s,!=()]*)
                                   | \s (?P<word>in|notin) \s* \( (?P<values>[^()]*) \) )?
      | ! \s* (?P<absent>[^\s,!=()]+) )
    \s* (?:,|\Z) \s*
    """,
    re.VERBOSE,
)


class Selector(click.ParamType[model.Selector]):
    """A label selector; a wrong one is a usage error, before any request."""

    name = "selector"

    def convert(
        self, value: str | model.Selector, param: click.Parameter | None, ctx: click.Context | None
    ) -> model.Selector:
        """The selector."""
        if isinstance(value, model.Selector):
            return value
        text, at = value.strip(), 0
        found: list[model.Requirement] = []
        while at < len(text) or not found:
            part = None if text.endswith(",") else _PART.match(text, at)
            if part is None:
                self.fail(f"{value!r} is not a selector such as a=b,c!=d,e in (f,g),h,!i", param, ctx)
            found.append(_requirement(part))
            at = part.end()
        return model.Selector(expressions=tuple(found))


def _requirement(part: re.Match[str]) -> model.Requirement:
    if part["absent"]:
        return model.Requirement(part["absent"], "DoesNotExist")
    if part["word"]:
        values = tuple(one.strip() for one in part["values"].split(","))
        return model.Requirement(part["key"], "In" if part["word"] == "in" else "NotIn", values)
    if part["sign"]:
        return model.Requirement(part["key"], "NotIn" if part["sign"] == "!=" else "In", (part["value"],))
    return model.Requirement(part["key"], "Exists")
