"""The reference page of what lies in the store: keys and events, read from the code that writes them."""

import ast
import inspect
import itertools
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping

import msgspec

from app.domain import events
from app.store import keys

_SPACES = re.compile(r"\s+")
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def store_page(note: str) -> str:
    """Every key, every event, and every object that an event carries."""
    return "\n".join(
        [
            "# The store\n",
            note,
            "Everything of one Kubernetes cluster lies under one prefix, `topolog:{CLUSTER}:`; the braces are"
            " a hash tag, so a Redis Cluster keeps it in one slot. Only the functions of the library"
            " `topolog` write the log and the views, and they write them together. Do not edit any of"
            " it by hand.\n",
            "## Keys\n",
            "| key | holds |",
            "|---|---|",
            *(f"| `{name}` | {doc} |" for name, doc in _keys()),
            "",
            "## Events\n",
            "The field `e` of a log entry is JSON; `type` names the event, and a field that has its default"
            " is left out. The same lines are what the archive holds.\n",
            *_structs(typing.get_args(events.AnyEvent), level="###"),
            "## Objects in events\n",
            *_structs(_carried(), level="###"),
        ]
    )


def _keys() -> Iterator[tuple[str, str]]:
    made = keys.Keys("CLUSTER")
    tree = ast.parse(textwrap.dedent(inspect.getsource(keys.Keys)))
    (body,) = (part.body for part in tree.body if isinstance(part, ast.ClassDef))
    begin = next(part for part in body if isinstance(part, ast.FunctionDef) and part.name == "__init__")
    for name, doc in _documented(begin.body):
        yield str(getattr(made, name)), doc
    for method in body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            named = [argument.arg.upper() for argument in method.args.args[1:]]
            yield str(getattr(made, method.name)(*named)), _line(ast.get_docstring(method))


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Each attribute that is followed by a text, and that text."""
    for part, after in itertools.pairwise(body):
        match part, after:
            case (
                ast.Assign(targets=[ast.Attribute(attr=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                yield name, _line(doc)


def _carried() -> list[type[msgspec.Struct]]:
    """The classes of the model that can be reached from an event, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = list(typing.get_args(events.AnyEvent))
    while waiting:
        for hint in typing.get_type_hints(waiting.pop()).values():
            for one in _classes(hint):
                if issubclass(one, msgspec.Struct) and one.__name__ not in found:
                    found[one.__name__] = one
                    waiting.append(one)
    return [found[name] for name in sorted(found)]


def _classes(hint: object) -> Iterator[type]:
    if typing.get_origin(hint) is None and isinstance(hint, type):
        yield hint
    for part in typing.get_args(hint):
        yield from _classes(part)


def _structs(classes: typing.Iterable[type[msgspec.Struct]], *, level: str) -> Iterator[str]:
    for one in classes:
        yield f"{level} {one.__name__}\n"
        yield _line(inspect.getdoc(one)) + "\n"
        fields = msgspec.structs.fields(one)
        if fields:
            docs = _field_docs(one)
            yield "| field | type | default | |\n|---|---|---|---|"
            yield from (_row(one, field, docs) for field in fields)
            yield ""


def _field_docs(one: type) -> Mapping[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
    return {
        name: doc
        for part in tree.body
        if isinstance(part, ast.ClassDef)
        for name, doc in _documented(part.body)
    }


def _row(one: type, field: msgspec.structs.FieldInfo, docs: Mapping[str, str]) -> str:
    spelled = _spelled(typing.get_type_hints(one)[field.name])
    if field.required:
        default = "required"
    elif field.default is not msgspec.NODEFAULT:
        default = f"`{msgspec.json.encode(field.default).decode()}`"
    else:
        default = "empty"
    return f"| `{field.encode_name}` | {spelled} | {default} | {docs.get(field.name, '')} |"


def _spelled(hint: object) -> str:
    """A type as people write it."""
    plain = typing.get_origin(hint) is None and isinstance(hint, type)
    text = getattr(hint, "__name__", "") if plain else str(hint)
    return "`" + _MODULES.sub("", text).replace("|", "or").replace(", ...", "") + "`"


def _line(doc: str | None) -> str:
    return _SPACES.sub(" ", doc or "").strip().replace("``", "`").replace("|", "\\|")
