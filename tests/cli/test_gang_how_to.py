"""docs/how-to/gangs.md, tried as it is written."""

import pathlib

import msgspec
import pytest
import yaml

from app.plugins.coscheduling import decoding, membership, options
from app.plugins.coscheduling.plugin import Coscheduling
from tests.support import commands, how_to_pages

PAGE = "gangs.md"


@pytest.mark.parametrize(("minimum", "shown"), [("3", 0), ("4", 1)])
def test_the_file_gives_the_output_that_the_page_shows(
    tmp_path: pathlib.Path, minimum: str, shown: int
) -> None:
    found = how_to_pages.scored(PAGE, '"minMember": 3', f'"minMember": {minimum}', tmp_path)
    assert found == how_to_pages.blocks(PAGE, "text")[shown].splitlines()


def test_the_settings_and_manifests_of_the_page_are_valid(tmp_path: pathlib.Path) -> None:
    settings, manifests, rule = how_to_pages.blocks(PAGE, "yaml")
    file = tmp_path / "topolog.yaml"
    file.write_text(settings)
    done = commands.called("--config", str(file), "settings", "plugins.args")
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
