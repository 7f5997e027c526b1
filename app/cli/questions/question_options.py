"""Shared parts of the commands with questions: overrides as options, documents, and output formats."""

import json
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import click
from click import shell_completion

from app import exit_codes
from app.cli import exits
from app.cli.client import api_client, moment_option, option_names
from app.cli.completion import items
from app.cli.get import selectors
from app.cli.output import formats, progress
from app.cli.questions import declared_overrides
from app.domain import model
from app.settings import yaml_documents

F = TypeVar("F", bound=Callable[..., None])
Document = dict[str, Any]
Value: TypeAlias = Any
"""The value of an option, as click converts it."""

MAX_WAIT: Final = 30.0
"""Seconds to wait for an answer at least: a question may take 20."""
_CREATED: Final = "-f"
"""The option of objects that are created with the pods of a file."""
_OF_NODES: Final = {
    "cordon": ("--cordon", "Mark a node, or those with these labels, unschedulable."),
    "uncordon": ("--uncordon", "Mark a node, or those with these labels, schedulable."),
    "removeNodes": ("--remove-node", "Remove a node, or those with these labels, and the pods there."),
}
"""The operations on nodes that have an option, and its help text."""


class _Nodes(click.ParamType[str | dict[str, str]]):
    """The name of a node, or labels: no name has an equals sign."""

    name = "nodes"

    def convert(
        self, value: str | dict[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | dict[str, str]:
        """The name, or label -> value."""
        if isinstance(value, dict) or "=" not in value:
            return value
        option = param.opts[0] if param is not None else ""
        return labels(selectors.Selector().convert(value, param, ctx), option)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[shell_completion.CompletionItem]:
        """The nodes whose names begin like this."""
        return items.NODE.shell_complete(ctx, param, incomplete)


def output_option(command: F) -> F:
    """Add ``-o`` to a command whose answer has names: a table, one with all there is, names or a document."""
    return formats.option(formats.TABLE, formats.WIDE, formats.NAME)(command)


def unnamed_output_option(command: F) -> F:
    """Add ``-o`` to a command whose answer has no names that another command takes."""
    return formats.option(formats.TABLE, formats.WIDE)(command)


def save_option(what: str = "the situation of this call") -> Callable[[F], F]:
    """The option that keeps a situation, for a command; ``save`` reads it. ``what``: which situation."""
    return click.option("--save", metavar="FILE", help=f"Write {what} as JSON.")


def situation_options(command: F) -> F:
    """Add the options that describe a situation, which ``situation`` reads, and the one that keeps it."""
    file = click.option(
        "--situation", metavar="FILE", help="A situation as JSON or YAML (- for stdin); options add to it."
    )
    command = _overriding(file(save_option()(command)), _core_options(), _object_options())
    return click.option("--at", type=moment_option.MOMENT, help="The moment.  [default: now]")(command)


def override_options(command: F) -> F:
    """Add the options that become overrides, and those of the configuration; -f names a file of objects."""
    return _overriding(command, _core_options(), _object_options("-f", "--file"))


def object_options(command: F) -> F:
    """Add the options of ``override_options`` that change neither nodes nor pods."""
    return _overriding(command, _object_options("-f", "--file"))


def _overriding(command: F, *options: Iterator[Callable[[F], F]]) -> F:
    for option in reversed([one for several in options for one in several]):
        command = option(command)
    return command


def _core_options() -> Iterator[Callable[[F], F]]:
    for option, does in _OF_NODES.values():
        yield click.option(option, type=_Nodes(), multiple=True, metavar="NODE|LABEL=VALUE,...", help=does)
    yield click.option("--add-nodes", type=click.IntRange(1), metavar="N", help="Add N nodes ...")
    yield click.option("--like", type=items.NODE, metavar="NODE", help="... that are like this one.")
    yield click.option("--delete-pod", type=items.POD, multiple=True, metavar="NS/POD", help="Delete a pod.")


def _object_options(*file: str) -> Iterator[Callable[[F], F]]:
    yield from declared_overrides.options()
    yield click.option(
        *file,
        "--set-policy",
        "--set",
        "set_objects",
        multiple=True,
        metavar="FILE",
        help="Create or replace the objects of a file, such as policies (- for stdin).",
    )
    yield click.option(
        "--override", multiple=True, metavar="JSON", help='Any operation: {"op": "labelNodes", ...}.'
    )
    yield click.option(
        "--weights",
        multiple=True,
        metavar="PLUGIN=N",
        help="Another weight of a plugin; other plugins keep theirs.",
    )
    yield click.option("--enable", metavar="PLUGIN,...", help="The plugins, instead of those in force.")
    yield click.option(
        "--configuration",
        metavar="JSON",
        help='Any plugin settings: {"args": {PLUGIN: {...}}, "scoreMax": 10}.',
    )


def situation(
    options: dict[str, Value], namespace: str | None = None, first: Sequence[Document] = ()
) -> Document:
    """The situation of the options, which are taken out of ``options``.

    ``namespace``: of objects that name none; ``first``: overrides before those of the options.
    """
    base: Document = {}
    file = options.pop("situation", None)
    if file is not None:
        base = situation_in(file, "--situation")
    at = options.pop("at", None)
    if at is not None:
        base["at"] = at
    made = overridden(options, namespace)
    spelled = [*first, *made.get("overrides", [])]
    if spelled:
        held = base.get("overrides", [])
        option_names.prepend_overrides([""] * len(held) + [_CREATED] * len(first))
        base["overrides"] = [*held, *spelled]
    if "configuration" in made:
        base["configuration"] = _merged(base.get("configuration"), made["configuration"])
    return base


def save(options: dict[str, Value], document: Document) -> None:
    """Write a situation to the file of --save, which is taken out of ``options``, if it is given.

    Called once the call is known to be valid, so that a mistake replaces no file. Raises Failed.
    """
    file = options.pop("save")
    if file is None:
        return
    try:
        pathlib.Path(file).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise exits.Failed(exit_codes.USAGE, f"cannot write {file}: {error.strerror}") from error


def situation_in(file: str, option: str) -> Document:
    """The situation in a file; - is standard input."""
    documents = read(file)
    if len(documents) != 1:
        raise click.BadParameter(f"{file} must contain one document", param_hint=option)
    return documents[0]


def overridden(options: dict[str, Value], namespace: str | None = None) -> Document:
    """Overrides and configuration of the options, which are taken out of ``options``."""
    found, configuration = overrides(options, namespace), _configuration(options)
    return {
        **({"overrides": found} if found else {}),
        **({"configuration": configuration} if configuration else {}),
    }


def overrides(options: dict[str, Value], namespace: str | None = None) -> list[Document]:
    """The overrides of the options, which are taken out of ``options``, in the order of the help text."""
    found = [*_of_core(options), *declared_overrides.taken(options)]
    for file in options.pop("set_objects"):
        objects = (in_namespace(one, namespace) for one in read(file))
        found += [("--set-policy", {"op": "setObject", "manifest": one}) for one in objects]
    found += [("--override", _json(text, "--override")) for text in options.pop("override")]
    option_names.set_overrides([option for option, _ in found])
    return [override for _, override in found]


def _of_core(options: dict[str, Value]) -> Iterator[declared_overrides.Spelled]:
    """The overrides of nodes and pods; none for a command without these options."""
    for op, (option, _) in _OF_NODES.items():
        given = options.pop(option.removeprefix("--").replace("-", "_"), ())
        names = [one for one in given if isinstance(one, str)]
        if names:
            yield option, {"op": op, "nodes": names}
        for one in given:
            if isinstance(one, dict):
                yield option, {"op": op, "nodes": {"selector": one}}
    count, like = options.pop("add_nodes", None), options.pop("like", None)
    if count is not None:
        yield "--add-nodes", {"op": "addNodes", "count": count, **({"like": like} if like else {})}
    elif like is not None:
        raise click.UsageError("--like requires --add-nodes")
    deleted = options.pop("delete_pod", ())
    if deleted:
        yield "--delete-pod", {"op": "deletePods", "pods": list(deleted)}


def _configuration(options: dict[str, Value]) -> Document:
    given = options.pop("configuration")
    configuration = {} if given is None else _json(given, "--configuration")
    weights = options.pop("weights")
    if weights:
        pairs = (_pair(text, "--weights") for text in weights)
        others = {plugin: number(weight, "--weights") for plugin, weight in pairs}
        configuration = _merged(configuration, {"weights": others})
    enabled = options.pop("enable")
    if enabled is not None:
        configuration["enabled"] = [name for name in enabled.split(",") if name]
    return configuration


def _merged(held: Value, given: Document, levels: int = 3) -> Document:
    """A configuration with the fields of another one, as the extender merges one into that of the process:
    weights and arguments replace those of the same name, and the others stay.

    ``levels``: the configuration, its fields, and the arguments of a plugin, whose values are replaced whole.
    """
    if not isinstance(held, dict):
        return given
    return held | {
        name: _merged(held.get(name), value, levels - 1) if isinstance(value, dict) and levels > 1 else value
        for name, value in given.items()
    }


def read(file: str) -> list[Document]:
    """The objects of a YAML or JSON file, those of Lists one by one; - is standard input.

    Raises Failed, also if there is none: a gate over the empty output of another command would pass.
    """
    where = "standard input" if file == "-" else file
    try:
        held = sys.stdin.buffer.read() if file == "-" else pathlib.Path(file).read_bytes()
        documents = yaml_documents.load_all(str(held, "utf-8-sig"))
    except OSError as error:
        raise exits.Failed(exit_codes.USAGE, f"cannot read {where}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise exits.Failed(
            exit_codes.USAGE, f"cannot read {where}: byte {error.start} is not UTF-8"
        ) from error
    except yaml_documents.NotYaml as error:
        raise exits.Failed(exit_codes.USAGE, f"{where} {error}") from None
    found: list[Document] = []
    for document in documents:
        if not isinstance(document, dict):
            raise exits.Failed(exit_codes.USAGE, f"{where} must contain objects")
        found += document["items"] if isinstance(document.get("items"), list) else [document]
    if not found:
        raise exits.Failed(exit_codes.USAGE, f"{where} contains no object")
    return found


def labels(selector: model.Selector | None, option: str = "-l") -> dict[str, str]:
    """``a=b,c=d`` as labels. Raises BadParameter, of that option, for what labels cannot express."""
    found: dict[str, str] = {}
    for one in selector.expressions if selector is not None else ():
        if one.operator != "In" or len(one.values) != 1 or found.get(one.key, one.values[0]) != one.values[0]:
            raise click.BadParameter(f"{one.key}: only a=b,c=d selects here", param_hint=option)
        found[one.key] = one.values[0]
    return found


def pod_name(name: str, namespace: str) -> str:
    """NAMESPACE/NAME of an object that may be named without its namespace, as in kubectl."""
    return name if "/" in name else f"{namespace}/{name}"


def in_namespace(manifest: Document, namespace: str | None) -> Document:
    """The manifest, in the namespace unless it names one."""
    metadata = manifest.get("metadata")
    if namespace is None or not isinstance(metadata, dict) or metadata.get("namespace"):
        return manifest
    return {**manifest, "metadata": {**metadata, "namespace": namespace}}


def candidates(text: str) -> str | list[str]:
    """A choice of candidates: a word, or names separated by commas."""
    return text if text in ("recorded", "all", "roomy") else text.split(",")


def answer(
    config: str | None, options: Mapping[str, str | None], path: str, question: Mapping[str, object]
) -> Document:
    """The answer of the extender to a question.

    It arrives whole, so that Ctrl-C finds no part to show: one line names what was interrupted.
    """
    try:
        return part(config, options, path, question)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {path} has not answered (--budget limits its time)", err=True)
        raise


def part(
    config: str | None,
    options: Mapping[str, str | None],
    path: str,
    question: Mapping[str, object],
    waiting: str = "waiting for the answer",
) -> Document:
    """The answer to a part of a question; ``waiting`` is shown on a terminal if it takes long."""
    extender = api_client.extender(config, options)
    with progress.shown(waiting):
        return extender.post(f"/apis/v1/{path}", question, timeout=MAX_WAIT)


def show(
    output: str,
    reply: Document,
    table: Callable[[Document], None],
    names: Callable[[Document], Sequence[str]] | None = None,
    wide: Callable[[Document], None] | None = None,
) -> None:
    """Write an answer in one of the formats; ``names``: those of -o name, if the command has it; ``wide``:
    the wide table, where it differs. Beside names, the limits of the answer are on standard error."""
    if formats.is_document(output):
        formats.show_document(reply, output)
    elif names is not None and output == formats.NAME:
        for name in names(reply):
            click.echo(name)
        show_limits(reply)
    else:
        (wide if wide is not None and output == formats.WIDE else table)(reply)


def show_limits(reply: Document, incomplete: str = "more time is needed (--budget)") -> None:
    """Write to standard error what changes nothing, what is not modelled, and that it is ``incomplete``."""
    show_idle(reply.get("situation"))
    for limit in reply.get("limits", ()):
        click.echo(f"note: {limit}", err=True)
    if reply.get("complete") is False:
        click.echo(f"incomplete: {incomplete}", err=True)


def show_idle(situation: Document | None, of: str = "") -> None:
    """Write which overrides of a situation change nothing to standard error; ``of``: which situation.

    An object that a file has beside its pods may exist already.
    """
    for index in situation["idle"] if situation is not None else ():
        if of or option_names.option_of(index) != _CREATED:
            name = f"override {index + 1}{of}" if of else option_names.override(index)
            click.echo(f"note: {name} changes nothing", err=True)


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text} is not NAME=VALUE", param_hint=option)
    return name, value


def number(text: str, option: str) -> int:
    """A whole number in the value of an option."""
    try:
        return int(text)
    except ValueError:
        raise click.BadParameter(f"{text} is not a number", param_hint=option) from None


def _json(text: str, option: str) -> Document:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint=option) from error
    if not isinstance(found, dict):
        raise click.BadParameter("must be an object", param_hint=option)
    return found
