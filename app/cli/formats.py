"""Output formats, the same in all commands: a table for people, a document for programs, names for xargs.

``jsonpath=EXPRESSION`` takes what RFC 9535 defines, and nothing else: the templates of kubectl in braces are
another language of that name.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import click
import yaml
from click import shell_completion

F = TypeVar("F", bound=Callable[..., None])

TABLE: Final = "table"
WIDE: Final = "wide"
TEXT: Final = "text"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
_JSONPATH: Final = "jsonpath="
_DOCUMENTS: Final = (JSON, YAML)


class Format(click.ParamType[str]):
    """One of some names, or ``jsonpath=EXPRESSION``."""

    name = "format"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = (*names, *_DOCUMENTS)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The formats, for the help."""
        return f"[{'|'.join((*self.names, f'{_JSONPATH}EXPR'))}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format; a wrong expression is a usage error, before anything is asked."""
        if value.startswith(_JSONPATH):
            problem = _flaw(value.removeprefix(_JSONPATH))
            if problem:
                self.fail(problem, param, ctx)
        elif value not in self.names:
            self.fail(f"{value!r} is not one of {', '.join(self.names)}, {_JSONPATH}EXPR", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[shell_completion.CompletionItem]:
        """The formats that begin like this."""
        return [
            shell_completion.CompletionItem(each)
            for each in (*self.names, _JSONPATH)
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
        help="Output format; EXPR is a JSONPath of RFC 9535, such as '$.items[*].name'.",
    )


def is_document(output: str) -> bool:
    """Whether the format shows the whole document: JSON, YAML or what a JSONPath selects of it."""
    return output in _DOCUMENTS or output.startswith(_JSONPATH)


def show_document(value: object, output: str = JSON) -> None:
    """Write a document in its format; a JSONPath writes a line for each value, texts without quotes."""
    if output == YAML:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    elif output.startswith(_JSONPATH):
        for found in _selected(value, output.removeprefix(_JSONPATH)):
            click.echo(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))
    else:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_item(value: object, output: str) -> None:
    """Write one document of a stream: JSON on a line, or YAML behind a separator."""
    if output == JSON:
        click.echo(json.dumps(value, ensure_ascii=False))
        return
    if output == YAML:
        click.echo("---")
    show_document(value, output)


def _selected(value: object, expression: str) -> list[object]:
    import jsonpath_rfc9535

    # Through JSON: the value may hold tuples, which are arrays there.
    return list(jsonpath_rfc9535.compile(expression).find(json.loads(json.dumps(value))).values())


def _flaw(expression: str) -> str:
    """Why the expression is none; empty if it is one."""
    import jsonpath_rfc9535

    if expression.startswith(("{", ".")):
        return f"{expression!r} is a template of kubectl; write a JSONPath of RFC 9535: $.items[*].name"
    try:
        jsonpath_rfc9535.compile(expression)
    except jsonpath_rfc9535.JSONPathError as problem:
        return f"{expression!r} is no JSONPath of RFC 9535: {problem}"
    return ""
