"""Writes objects as a Helm template: YAML with marks, which become actions of Go templates.

A mark is a numbered word, so that YAML neither quotes nor folds what stands for it. Columns are counted in
the text that PyYAML writes, whose lists begin in the column of their key.
"""

import re
from collections.abc import Callable
from typing import Any

import yaml

Object = dict[str, Any]

_LINE = re.compile(r"^(?P<column> *)(?:- )?@l(?P<number>\d+)l@(?:: null)?$", re.MULTILINE)
_WORD = re.compile(r"@v(\d+)v@")
_HOME = "topolog-system"


class Marks:
    """The marks of one template."""

    def __init__(self) -> None:
        self._written: list[Callable[[int], str]] = []

    def value(self, expression: str) -> str:
        """A scalar, or a part of one."""
        return self._mark(lambda _: f"{{{{ {expression} }}}}", "v")

    def line(self, action: str) -> str:
        """A key or an element that stands for an action on a line of its own, such as ``end``."""
        return self._mark(lambda column: f"{' ' * column}{{{{- {action} }}}}")

    def given(self, name: str, expression: str) -> str:
        """A key that stands for a field of any shape; there is none where the expression is empty."""

        def written(column: int) -> str:
            pad = " " * column
            inner = f"{pad}  {{{{- toYaml . | nindent {column + 2} }}}}"
            return f"{pad}{{{{- with {expression} }}}}\n{pad}{name}:\n{inner}\n{pad}{{{{- end }}}}"

        return self._mark(written)

    def further(self, expression: str) -> str:
        """The last element of a list, or the last key of an object: more of them, if there are any."""

        def written(column: int) -> str:
            pad = " " * column
            inner = f"{pad}{{{{- toYaml . | nindent {column} }}}}"
            return f"{pad}{{{{- with {expression} }}}}\n{inner}\n{pad}{{{{- end }}}}"

        return self._mark(written)

    def included(self, name: str) -> str:
        """A key that stands for the lines of a named template."""
        return self._mark(lambda column: f'{" " * column}{{{{- include "{name}" . | nindent {column} }}}}')

    def scalar(self, name: str, expression: str) -> str:
        """The same for a field that is one text."""
        return self._mark(
            lambda column: (
                f"{' ' * column}{{{{- with {expression} }}}}\n{' ' * column}{name}: {{{{ . }}}}\n"
                f"{' ' * column}{{{{- end }}}}"
            )
        )

    def _mark(self, written: Callable[[int], str], sign: str = "l") -> str:
        self._written.append(written)
        return f"@{sign}{len(self._written) - 1}{sign}@"

    def rendered(self, one: Object) -> str:
        """An object as a template."""
        text = yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
        assert "{{" not in text, "text that looks like a template has to come from a file of the chart"
        text = re.sub(r"'(@([lv])\d+\2@)'", r"\1", text)
        text = _LINE.sub(lambda found: self._written[int(found["number"])](len(found["column"])), text)
        text = _WORD.sub(lambda found: self._written[int(found[1])](0), text)
        return text.replace(_HOME, "{{ .Release.Namespace }}")


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, and repeats what occurs twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
