"""Output formats, the same in all commands: a table for people, a document for programs, names for xargs.

``custom-columns=HEADING:PATH,...`` makes a table of the items of a list; its paths, and that of
``jsonpath=PATH``, are those of ``app.cli.output.paths``.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import click
import yaml
from click import shell_completion

from app.cli.output import paths, tables

F = TypeVar("F", bound=Callable[..., None])

TABLE: Final = "table"
WIDE: Final = "wide"
TEXT: Final = "text"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
_JSONPATH: Final = "jsonpath="
_COLUMNS: Final = "custom-columns="
_COLUMNS_FILE: Final = "custom-columns-file="
_DOCUMENTS: Final = (JSON, YAML)
_OPEN: Final = {_JSONPATH: "EXPR", _COLUMNS: "SPEC", _COLUMNS_FILE: "FILE"}
"""Formats that end in a text of the user -> its name."""


class Format(click.ParamType[str]):
    """One of some names, ``jsonpath=EXPRESSION``, or custom columns."""

    name = "format"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = (*names, *_DOCUMENTS)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The formats, for the help."""
        return f"[{'|'.join(self._offered())}]"

    def _offered(self) -> Sequence[str]:
        return (*self.names, *(f"{prefix}{what}" for prefix, what in _OPEN.items()))

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format; a wrong expression is a usage error, before any request."""
        if value.startswith(tuple(_OPEN)):
            try:
                if value.startswith(_JSONPATH):
                    paths.compiled(value.removeprefix(_JSONPATH))
                columns(value)
            except paths.Wrong as wrong:
                self.fail(str(wrong), param, ctx)
        elif value not in self.names:
            self.fail(f"{value!r} is not one of {', '.join(self._offered())}", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[shell_completion.CompletionItem]:
        """The formats that begin like this."""
        return [
            shell_completion.CompletionItem(each)
            for each in (*self.names, *_OPEN)
            if each.startswith(incomplete)
        ]


def option(*names: str, default: str = TABLE) -> Callable[[F], F]:
    """Add ``-o`` with these formats beside those of documents."""
    return click.option(
        "-o",
        "--output",
        type=Format(names or (TABLE,)),
        default=default,
        show_default=True,
        help="Output format; EXPR is a path such as .name, or a JSONPath of RFC 9535 such as"
        " '$.items[*].name', SPEC is such as NAME:.name,CPU:.remaining.cpu, and FILE has headings on a line"
        " and their paths on the next.",
    )


def is_document(output: str) -> bool:
    """Whether the format shows the whole document, and not a table of the command."""
    return output in _DOCUMENTS or output.startswith(tuple(_OPEN))


def columns(output: str) -> paths.Columns | None:
    """The columns that the format names; None if it has none. Raises paths.Wrong."""
    if output.startswith(_COLUMNS):
        return paths.columns(output.removeprefix(_COLUMNS))
    if output.startswith(_COLUMNS_FILE):
        return paths.columns_of_file(output.removeprefix(_COLUMNS_FILE))
    return None


def show_document(value: object, output: str = JSON) -> None:
    """Write a document in its format.

    A path writes a line for each value, texts without quotes; custom columns one for each item of a list.
    """
    chosen = columns(output)
    if chosen is not None:
        tables.show(chosen.headings, [chosen.row(item) for item in _items(value)])
    elif output == YAML:
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=sys.maxsize)
        click.echo(text, nl=False)
    elif output.startswith(_JSONPATH):
        for found in paths.compiled(output.removeprefix(_JSONPATH))(value):
            click.echo(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))
    else:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _items(value: object) -> Sequence[object]:
    """The items of a list or of a page; a document that is neither is the only one."""
    found = value.get("items") if isinstance(value, Mapping) else value
    return found if isinstance(found, list | tuple) else [value]


class Stream:
    """Writes documents one after another: JSON on a line, YAML behind a separator, columns as one table."""

    def __init__(self, output: str, *, heading: bool = True) -> None:
        self._output = output
        self._columns = columns(output)
        self._table = tables.Table(self._columns.headings, heading=heading) if self._columns else None

    def show(self, values: Sequence[object]) -> None:
        """Write the documents that are next."""
        if self._columns is not None and self._table is not None:
            self._table.write([self._columns.row(value) for value in values])
            return
        for value in values:
            if self._output == JSON:
                click.echo(json.dumps(value, ensure_ascii=False))
                continue
            if self._output == YAML:
                click.echo("---")
            show_document(value, self._output)
