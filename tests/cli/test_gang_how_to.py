"""docs/how-to/gangs.md, tried as it is written."""

import pathlib
import re

import msgspec
import pytest
import yaml

import app
from app.plugins.coscheduling import decoding, membership, options
from app.plugins.coscheduling.plugin import Coscheduling
from tests.support import commands

PAGE = pathlib.Path(app.__file__).parent.parent / "docs" / "how-to" / "gangs.md"


def blocks(kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [text for language, text in found if language == kind]


@pytest.mark.parametrize(("minimum", "shown"), [("3", 1), ("4", 2)])
def test_the_file_gives_the_output_that_the_page_shows(
    tmp_path: pathlib.Path, minimum: str, shown: int
) -> None:
    (cluster,), plain = blocks("json"), blocks("")
    setting, program, command, name = plain[0].split()
    assert program == "topolog"
    variable, _, value = setting.partition("=")
    file = tmp_path / name
    file.write_text(cluster.replace('"minMember": 3', f'"minMember": {minimum}'))
    done = commands.topolog(command, str(file), **{variable: value})
    assert [line.rstrip() for line in done.stdout.splitlines()] == plain[shown].splitlines()


def test_the_settings_and_manifests_of_the_page_are_valid(tmp_path: pathlib.Path) -> None:
    settings, manifests, rule = blocks("yaml")
    file = tmp_path / "topolog.yaml"
    file.write_text(settings)
    done = commands.topolog("--config", str(file), "settings", "plugins.args")
    assert done.returncode == 0
    assert "example.com/rack" in done.stdout
    assert Coscheduling.name in yaml.safe_load(settings)["plugins"]["enabled"]
    group, job = yaml.safe_load_all(manifests)
    group["metadata"]["uid"] = "u"
    read = decoding.sigs(msgspec.json.encode(group))
    assert (read.minimum, read.timeout, read.errors) == (3, 120, ())
    assert job["spec"]["template"]["metadata"]["labels"] == {membership.SIGS_LABEL: group["metadata"]["name"]}
    assert job["spec"]["parallelism"] == read.minimum
    annotations = yaml.safe_load(rule)["metadata"]["annotations"]
    assert options.read(annotations, {}).gather == (options.Gather("example.com/rack", must=True),)
