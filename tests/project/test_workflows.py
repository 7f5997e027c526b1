"""The workflows of .github, as far as they can be checked without GitHub (schema: test_release.py)."""

import pathlib
import re
from typing import Any

import pytest
import yaml

from tests.e2e import control_plane_builds
from tests.matrix import dimensions, results

ROOT = pathlib.Path(__file__).parents[2]
WORKFLOWS = {path.name: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def jobs(name: str) -> dict[str, Any]:
    """The jobs of a workflow."""
    found: dict[str, Any] = yaml.safe_load(WORKFLOWS[name].read_text())["jobs"]
    return found


def steps(name: str) -> list[dict[str, Any]]:
    """The steps of all jobs of a workflow."""
    return [step for job in jobs(name).values() for step in job["steps"]]


@pytest.mark.parametrize("name", list(WORKFLOWS))
def test_a_workflow_has_few_rights_a_time_limit_and_actions_of_a_version(name: str) -> None:
    assert yaml.safe_load(WORKFLOWS[name].read_text())["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] < 360 for job in jobs(name).values()), "the most that GitHub gives"
    used = [step["uses"] for step in steps(name) if "uses" in step]
    assert [each for each in used if not re.search(r"@(v\d+|[0-9a-f]{40})$", each)] == []


@pytest.mark.parametrize("name", list(WORKFLOWS))
def test_no_command_contains_what_others_can_name(name: str) -> None:
    """A branch or tag may have the name of a command: values of GitHub reach a shell as variables."""
    commands = [step["run"] for step in steps(name) if "run" in step]
    assert {found for each in commands for found in re.findall(r"\$\{\{ *(\w+)\.", each)} <= {"matrix"}


@pytest.mark.parametrize("name", list(WORKFLOWS))
def test_the_targets_exist(name: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for step in steps(name):
        assert set(re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))) <= targets


def test_every_night_has_every_version() -> None:
    named = [each.partition("=") for each in jobs("nightly.yml")["matrix"]["strategy"]["matrix"]["version"]]
    assert [value for key, _, value in named if key == "KUBERNETES"] == control_plane_builds.versions()
    assert [value for key, _, value in named if key == "STORE"] == ["all"]
    run = {one.version.rpartition(".")[0] for one in results.read() if one.dimension == dimensions.PYTHON}
    assert [value for key, _, value in named if key == "PYTHON"] == sorted(run)


def test_the_image_is_built_as_a_release_prints_it() -> None:
    printed = (ROOT / "deploy" / "release" / "__main__.py").read_text()
    (build,) = [step["run"] for step in steps("release.yml") if "buildx build" in step.get("run", "")]
    given = re.compile(r"--(?:build-arg \w+|platform [\w/,]+|output [\w=,-]+)")
    assert set(given.findall(build)) == set(given.findall(printed))
    arguments = set(re.findall(r"^ARG (\w+)", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE))
    assert set(re.findall(r"--build-arg (\w+)", build)) == arguments


READ_BY = ("helm push ", "gh release create ")
"""Commands that only read what they are given of dist/."""


def test_the_digests_of_a_release_are_those_of_what_is_published() -> None:
    """Nothing is written below dist/ once SHA256SUMS has all files of it."""
    found = steps("release.yml")
    (last,) = [at for at, step in enumerate(found) if "deploy.release.sums dist" in step.get("run", "")]
    before, after = ("\n".join(step.get("run", "") for step in part) for part in (found[:last], found[last:]))
    assert "make artifacts " in before
    assert '"dist/topolog-$VERSION-base.cdx.json"' in before
    commands = [line.strip() for line in after.replace("\\\n", " ").splitlines()[1:] if "dist" in line]
    assert [each for each in commands if not each.startswith(READ_BY)] == []
    assert any(each.startswith("gh release create ") for each in commands)
    assert "make " not in after


def test_a_release_prints_that_the_digests_are_written_after_the_last_file() -> None:
    printed = (ROOT / "deploy" / "release" / "__main__.py").read_text()
    places = [printed.index(each) for each in ("release.debian_packages", "release.sums", "upload the files")]
    assert places == sorted(places)
