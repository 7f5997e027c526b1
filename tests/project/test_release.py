"""What a release changes, what it refuses, and the forms for contributors."""

import datetime
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
from importlib import metadata

import pytest
import yaml

import app
from deploy.release import __main__ as command
from deploy.release import version
from tests.matrix import dimensions, results

ROOT = pathlib.Path(__file__).parent.parent.parent
DAY = datetime.date(2030, 1, 2)


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    """The files that name the version."""
    folders = ("app", "deploy/components/images", "deploy/charts/topolog", "docs/how-to")
    for name in ("CHANGELOG.md", "README.md", *folders):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def texts(root: pathlib.Path) -> dict[str, str]:
    """Each file of the tree with its text."""
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*")
        if path.suffix in (".md", ".py", ".yaml")
    }


def test_a_release_changes_the_version_and_nothing_else(copy: pathlib.Path) -> None:
    before = texts(copy)
    named = version.write("7.8.9", DAY, copy)
    after = texts(copy)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == set(named)
    assert "## [7.8.9] - 2030-01-02\n" in after["CHANGELOG.md"]
    assert '__version__ = "7.8.9"\n' in after["app/__init__.py"]
    for name in changed - {"CHANGELOG.md"}:
        assert version.with_changes(after[name], ()).replace("7.8.9", app.__version__) == before[name]
    assert "newTag: 7.8.9\n" in after["deploy/components/images/kustomization.yaml"]
    assert after["deploy/components/images/kustomization.yaml"].count("7.8.9") == 1


def test_no_how_to_leads_to_the_former_version(copy: pathlib.Path) -> None:
    """But for the history of the schema, and a sample of what the doctor prints."""
    version.write("7.8.9", DAY, copy)
    pages = {path.name: path.read_text() for path in (copy / "docs" / "how-to").glob("*.md")}
    assert "/blob/v7.8.9/docs/" in pages["monitoring.md"]
    former = {name for name, text in pages.items() if app.__version__ in text}
    assert former <= {"upgrade.md", "find-out-what-is-wrong.md"}


def test_the_chart_lists_the_changes_of_its_version(copy: pathlib.Path) -> None:
    (copy / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [7.8.9] - unreleased\n\n### Added\n\n#### Log\n\n- A word\n  ([how](docs/a.md)).\n"
        '- Another: "quoted".\n\n### Fixed\n\n- A bug.\n\n## [7.8.8] - 2029-01-01\n\n### Added\n\n- Old.\n'
    )
    expected = [
        {"kind": "added", "description": "A word (how)."},
        {"kind": "added", "description": 'Another: "quoted".'},
        {"kind": "fixed", "description": "A bug."},
    ]
    for _ in range(2):  # the list of a former release is replaced
        version.write("7.8.9", DAY, copy)
        chart = yaml.safe_load((copy / "deploy/charts/topolog/Chart.yaml").read_text())
        assert (chart["version"], chart["appVersion"]) == ("7.8.9", "7.8.9")
        assert yaml.safe_load(chart["annotations"]["artifacthub.io/changes"]) == expected


def test_the_chart_is_that_of_the_newest_section_of_the_changelog(copy: pathlib.Path) -> None:
    assert flaws_of_the_chart(ROOT) == []
    version.write("7.8.9", DAY, copy)
    assert flaws_of_the_chart(copy) == []


def test_a_chart_that_changed_has_a_later_version(copy: pathlib.Path) -> None:
    values, changelog = copy / "deploy/charts/topolog/values.yaml", copy / "CHANGELOG.md"
    version.write("7.8.9", DAY, copy)
    git(copy, "init", "--quiet")
    git(copy, "add", ".")
    git(
        copy, "-c", "user.name=t", "-c", "user.email=t@t.example", "commit", "--quiet", "--message", "Release"
    )
    git(copy, "tag", "v7.8.9")
    (copy / "README.md").write_text("Not of the chart.\n")
    assert flaws_of_the_chart(copy) == []
    values.write_text(f"{values.read_text()}# changed\n")
    assert flaws_of_the_chart(copy) == ["changed since v7.8.9: deploy/charts/topolog/values.yaml"]
    released = changelog.read_text()
    for announced, flaws in (("7.8.10", []), ("7.8.8", ["v7.8.9 was released already"])):
        changelog.write_text(released.replace("## [7.8.9]", f"## [{announced}] - unreleased\n\n## [7.8.9]"))
        assert [flaw.partition(":")[0] for flaw in flaws_of_the_chart(copy)] == flaws


def test_a_chart_whose_list_of_changes_is_another_is_found(copy: pathlib.Path) -> None:
    version.write("7.8.9", DAY, copy)
    changelog = copy / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("### Added\n", "### Added\n\n- Late.\n", 1))
    assert flaws_of_the_chart(copy) == ["its list of changes is not that of 7.8.9"]


def flaws_of_the_chart(root: pathlib.Path) -> list[str]:
    """What is wrong with version and list of changes. They are written by a release, and announced before."""
    changelog = (root / "CHANGELOG.md").read_text()
    newest = re.search(r"(?m)^## \[(.+?)\] - (.+)$", changelog)
    assert newest is not None
    number, tags = newest[1], git(root, "tag", "--list", "v*").split()
    if newest[2] == "unreleased":
        try:
            version.check_newer(number, tags)
        except version.Refused as refused:
            return [str(refused)]
        return []
    text = (root / "deploy/charts/topolog/Chart.yaml").read_text()
    flaws = []
    if yaml.safe_load(text)["version"] != number:
        flaws.append(f"its version is not {number}")
    if version.with_changes(text, version.section(changelog)) != text:
        flaws.append(f"its list of changes is not that of {number}")
    if (tag := f"v{number}") in tags:
        changed = git(root, "diff", "--name-only", tag, "--", "deploy/charts").split()
        flaws += [f"changed since {tag}: {path}" for path in changed]
    return flaws


def git(root: pathlib.Path, *words: str) -> str:
    """What git prints; nothing outside of a repository."""
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout


def test_who_takes_part_finds_the_rules_and_the_people() -> None:
    for name in ("CONTRIBUTING.md", "SUPPORT.md", "CODE_OF_CONDUCT.md", "SECURITY.md"):
        assert (ROOT / name).exists()
        assert f"]({name})" in (ROOT / "README.md").read_text()
    lines = (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    assert rules[0][0] == "*", "every file has an owner"
    # Teams of the project: people come and go without a commit.
    assert {owner for _, *owners in rules for owner in owners} == {"@topolog/maintainers"}
    for pattern, *_ in rules[1:]:
        assert list(ROOT.glob(pattern.strip("/"))), pattern


@pytest.mark.parametrize("released", ["v1.2.3", "v1.2.4", "v1.10.0"])
def test_a_version_that_is_not_newer_than_a_released_one_is_refused(released: str) -> None:
    version.check_newer("1.2.3", ["v1.2.2", "v1.1.10", "other"])
    with pytest.raises(version.Refused, match=f"{released} was released already"):
        version.check_newer("1.2.3", ["v1.0.0", released])


@pytest.mark.parametrize(
    ("asked", "changelog", "sentence"),
    [
        ("1.2", "## [1.2.0] - unreleased\n", "use MAJOR.MINOR.PATCH"),
        ("v1.2.3", "## [1.2.3] - unreleased\n", "use MAJOR.MINOR.PATCH"),
        ("1.2.0", "## [1.2.0] - 2026-01-01\n", "is not unreleased"),
        ("1.2.0", "", "is not unreleased"),
        ("1.9.0", "## [1.10.0] - unreleased\n", "already announces 1.10.0"),
    ],
)
def test_a_version_that_cannot_be_released_is_refused(
    tmp_path: pathlib.Path, asked: str, changelog: str, sentence: str
) -> None:
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    with pytest.raises(version.Refused, match=sentence):
        version.check(asked, tmp_path)


def test_artifacts_are_built_of_the_tag_of_a_release_only(
    copy: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROOT", copy)
    dist = copy / "dist"
    git(copy, "init", "--quiet")
    author = ("-c", "user.name=t", "-c", "user.email=t@t.example")
    version.write("7.8.9", DAY, copy)
    git(copy, "add", ".")
    git(copy, *author, "commit", "--quiet", "--message", "Release 7.8.9")
    for name in ("v7.8.9", "v7.9.0", "vendor"):
        git(copy, "tag", name)
    command.check_tagged("7.8.9", dist)
    with pytest.raises(version.Refused, match=r"HEAD has no tag v7\.8\.8: .*git checkout v7\.8\.8"):
        command.check_tagged("7.8.8", dist)
    with pytest.raises(version.Refused, match=r"CHANGELOG\.md names 7\.8\.9, not 7\.9\.0: make"):
        command.check_tagged("7.9.0", dist)
    with pytest.raises(version.Refused, match="'endor' is not a version"):
        command.check_tagged("endor", dist)
    git(copy, *author, "commit", "--quiet", "--allow-empty", "--message", "Later")
    with pytest.raises(version.Refused, match=r"HEAD has no tag v7\.8\.9"):
        command.check_tagged("7.8.9", dist)
    (copy / "new").touch()
    with pytest.raises(version.Refused, match="working tree has changes"):
        command.check_tagged("7.8.9", dist)


def test_a_tag_of_a_version_that_no_file_names_is_no_release(copy: pathlib.Path) -> None:
    with pytest.raises(version.Refused, match=r"CHANGELOG\.md names unreleased, not "):
        version.check_released(app.__version__, copy)


def test_a_file_that_no_longer_names_the_version_is_reported(copy: pathlib.Path) -> None:
    (copy / "README.md").write_text("nothing\n")
    with pytest.raises(version.Refused, match=r"README\.md does not name the version"):
        version.write("7.8.9", DAY, copy)
    assert "7.8.9" not in (copy / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", "workflows/*.yml"),
        ("vendor.github-issue-forms", "ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", "ISSUE_TEMPLATE/config.yml"),
        ("vendor.dependabot", "dependabot.yml"),
    ],
)
def test_a_form_of_the_repository_fits_its_schema(
    schema: str, pattern: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(path) for path in (ROOT / ".github").glob(pattern)]
    assert files
    monkeypatch.setattr(sys, "argv", ["check-jsonschema", "--builtin-schema", schema, *files])
    # In this process: it is imported once for all schemas.
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("check_jsonschema", run_name="__main__")
    assert ended.value.code == 0, capsys.readouterr()


def test_the_metadata_of_the_distribution_are_whole(tmp_path: pathlib.Path) -> None:
    """The image and the bill of materials have them from there."""
    code = (
        "import sys; from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel(sys.argv[1])"
    )
    shutil.copytree(ROOT / "app", tmp_path / "app", ignore=shutil.ignore_patterns("*.js", "__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    subprocess.run([sys.executable, "-c", code, tmp_path], cwd=tmp_path, capture_output=True, check=True)
    found = metadata.Distribution.at(next(tmp_path.glob("*.dist-info"))).metadata
    assert (found["Version"], found["License-Expression"]) == (app.__version__, "Apache-2.0")
    assert "scheduler extender" in found["Keywords"]
    kinds = [each.partition(" :: ")[0] for each in found.get_all("Classifier") or []]
    assert kinds.count("Development Status") == 1
    assert "License" not in kinds, "superseded by the expression"
    versions = [one.version for one in results.read() if one.dimension == dimensions.PYTHON]
    minors = {version.rpartition(".")[0] for version in versions}
    named = {each.rpartition(" :: ")[2] for each in found.get_all("Classifier") or [] if "Python ::" in each}
    assert named - {"3"} == minors, "a version is named if a run on it is recorded"
