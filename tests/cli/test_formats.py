"""Output formats: every command has the same ones, and all formats show the same document."""

import json
import re
from collections.abc import Iterator

import click
import hypothesis
import pytest
import yaml
from click import testing
from hypothesis import strategies as st

from app import cli
from app.cli.output import formats
from tests.support import commands, how_to_pages


def with_output(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
    """Path and option of each command below this one that has ``-o``."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from with_output(found, f"{path} {name}".strip())
    for parameter in command.params:
        if "--output" in parameter.opts:
            yield path, parameter


def test_every_command_with_output_has_the_formats_of_documents() -> None:
    found = dict(with_output(cli.topolog, ""))
    # One writes manifests as YAML, several documents; the others write a file.
    page = how_to_pages.page("find-out-what-is-wrong.md")
    (sentence,) = re.findall(r"Every command with `-o`[^.]*\.", page)
    for path in ("bootstrap", "bundle create", "bundle pseudonymize"):
        assert f"`{path}`" in sentence
        assert not isinstance(found.pop(path).type, formats.Format), path
    assert {"get", "explain", "status", "doctor all", "settings", "version", "score", "fit"} <= set(found)
    for path, option in found.items():
        assert isinstance(option.type, formats.Format), path
        assert {"json", "yaml"} <= set(option.type.names)


@pytest.mark.parametrize("command", ["version", "settings", "settings store"])
def test_json_and_yaml_are_the_same_document(command: str) -> None:
    one = commands.called(*command.split(), "-o", "json")
    other = commands.called(*command.split(), "-o", "yaml")
    assert json.loads(one.stdout) == yaml.safe_load(other.stdout)


def test_a_jsonpath_selects_from_the_document() -> None:
    document = json.loads(commands.called("settings", "-o", "json").stdout)
    done = commands.called("settings", "-o", "jsonpath=$[?@.default == true].name")
    assert done.stdout.splitlines() == [one["name"] for one in document if one["default"] is True]
    assert commands.called("settings", "-o", "jsonpath=$[0]['name','default']").stdout == "cluster\ndefault\n"


@pytest.mark.parametrize(
    "path", ["$[0].name", "[0].name", "{[0].name}", "{$[0].name}", "$[?@.name!='{'].name"]
)
def test_a_path_may_be_written_as_for_kubectl(path: str) -> None:
    assert commands.called("settings", "-o", f"jsonpath={path}").stdout.splitlines()[0] == "cluster"


def test_a_text_is_on_one_line_of_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    """A search by line finds it whole, as in the output of kubectl."""
    formats.show_document({"reason": "0 of 6 nodes fit: " * 20}, formats.YAML)
    assert len(capsys.readouterr().out.splitlines()) == 1


WRONG = {
    **dict.fromkeys(
        (
            "jsonpath={range .items[*]}{.name}{end}",
            'jsonpath={.name}{"\\n"}',
            "jsonpath=name={.name}",
            "jsonpath=.name {.age}",
        ),
        "is a template of kubectl; write one path, such as .name, or format -o json by jq",
    ),
    "jsonpath=$.items[": "'$.items[' is not a path such as .name, or a JSONPath of RFC 9535",
    "jsonpath={.items[}": "'{.items[}' is not a path such as .name, or a JSONPath of RFC 9535",
    "jsonpath=topolog": "'topolog' is not a path; write .topolog",
    "jsonpath=": "'' is not a path; write .name",
    "xml": "'xml' is not one of table, json, yaml, jsonpath=EXPR",
}


@pytest.mark.parametrize("output", WRONG)
def test_a_wrong_format_is_a_usage_error(output: str) -> None:
    done = commands.called("version", "-o", output)
    assert done.returncode == 2
    assert WRONG[output] in " ".join(done.stderr.split())


# PyYAML does not read a key back that is a next-line character; names and messages have none.
TEXTS = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], include_characters="\n"), max_size=8
)


@hypothesis.given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    )
)
def test_yaml_and_the_whole_as_a_jsonpath_have_the_document(document: object) -> None:
    @click.command()
    @formats.option()
    def show(output: str) -> None:
        formats.show_document(document, output)

    def shown(output: str) -> str:
        return testing.CliRunner().invoke(show, ["-o", output]).output

    assert json.loads(shown("json")) == document
    assert yaml.safe_load(shown("yaml")) == document
    whole = shown("jsonpath=$")
    assert whole == f"{document}\n" if isinstance(document, str) else json.loads(whole) == document
