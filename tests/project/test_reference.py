"""The documentation matches the code and is complete."""

import re
import subprocess

import click
import pytest

from app import cli, settings
from tests.matrix import page as versions_page
from tests.matrix import results
from tests.project import reference_pages

DOCS = reference_pages.ROOT / "docs"


@pytest.mark.parametrize("name", list(reference_pages.PAGES))
def test_a_generated_page_is_current(name: str) -> None:
    assert (reference_pages.REFERENCE / name).read_text() == reference_pages.PAGES[name](), "run `make docs`"


def test_the_readme_names_no_version_on_which_nothing_was_run() -> None:
    assert versions_page.readme_table() == versions_page.summary(results.read()), "run `make docs`"


def test_every_setting_is_on_the_page_of_settings() -> None:
    text = (reference_pages.REFERENCE / "settings.md").read_text()
    for setting in settings.describe():
        assert f"### `{setting.name}`\n" in text
        assert setting.env in text


def test_no_page_names_a_setting_or_command_that_does_not_exist() -> None:
    variables = {setting.env for setting in settings.describe()} | {settings.FILE_VARIABLE, "TOPOLOG_"}
    names = set(cli.topolog.list_commands(click.Context(cli.topolog)))
    for page in [reference_pages.ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = page.read_text()
        assert set(re.findall(r"\bTOPOLOG_\w*", text)) <= variables, page
        # `topolog WORD` in code: inline, or in a block.
        called = set(re.findall(r"(?:`|^|\s\s|\$ )topolog ([a-z]+)", text, re.MULTILINE))
        assert called <= names, page


def test_no_page_names_a_metric_that_does_not_exist() -> None:
    listed = (reference_pages.REFERENCE / "metrics.md").read_text()
    exist = set(re.findall(r"^\| `(topolog_\w+)`", listed, re.MULTILINE))
    # Not metrics: the functions of the store, and families of names that end in an underscore.
    others = re.compile(r"topolog_(append|read|trim|rewind|attend|doubt)(_\d+)?|topolog_(\w+_)?")
    for page in [reference_pages.ROOT / "README.md", *DOCS.rglob("*.md")]:
        for name in set(re.findall(r"\btopolog_\w*", page.read_text())):
            family = re.sub(r"_(bucket|count|sum)$", "", name)
            assert exist & {name, family} or others.fullmatch(name), f"{page.name}: {name}"


def test_no_link_between_pages_is_broken() -> None:
    at_the_top = reference_pages.ROOT.glob("*.md")
    for page in [*at_the_top, *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(
    ("page", "least"),
    [("docs/architecture.md", 70), ("CONTRIBUTING.md", 20), ("docs/reference/campaigns.md", 5)],
)
def test_every_file_that_is_named_exists(page: str, least: int) -> None:
    """NAME and NNNN stand for what the reader chooses."""
    text = (reference_pages.ROOT / page).read_text()
    named = re.findall(r"`((?:app|workers|migrations|tests|deploy|docs)/[\w./-]+)`", text)
    assert len(named) >= least
    for name in named:
        assert "NAME" in name or "NNNN" in name or (reference_pages.ROOT / name).exists(), name


def _code() -> tuple[set[str], set[str]]:
    """Names of modules and packages, and words of the code, in app, workers and migrations."""
    files = [
        path
        for top in ("app", "workers", "migrations")
        for path in (reference_pages.ROOT / top).rglob("*.py")
    ]
    modules = {
        part for path in files for part in path.relative_to(reference_pages.ROOT).with_suffix("").parts
    }
    return modules, {word for path in files for word in re.findall(r"\w+", path.read_text())}


def test_every_module_that_the_architecture_describes_exists() -> None:
    text = (DOCS / "architecture.md").read_text()
    packages = (
        text.partition("## Packages")[2].partition("## Four journeys")[0].partition("**`migrations`**")[0]
    )
    named = set(re.findall(r"`([a-z_]+)/?`", packages))
    assert len(named) > 60
    assert named - _code()[0] == {"topolog"}  # the command


def test_every_folder_of_a_package_is_described_by_the_architecture() -> None:
    """Those of app/cli are named like their commands."""
    text = (DOCS / "architecture.md").read_text()
    folders = [path.parent for path in (reference_pages.ROOT / "app").glob("*/*/__init__.py")]
    assert len(folders) > 35
    for folder in folders:
        if folder.parent.name == "cli":
            continue
        assert f"`{folder.name}`" in text or f"{folder.name}/" in text, folder


@pytest.mark.parametrize("top", ["deploy", "tests"])
def test_every_folder_beside_the_packages_is_described_by_the_architecture(top: str) -> None:
    """Except those of tests that are named like the package that they test."""
    text = (DOCS / "architecture.md").read_text()
    paragraph = text.partition(f"**`{top}`**")[2].partition("\n\n")[0]
    command = ["git", "ls-files", top]
    files = subprocess.run(command, cwd=reference_pages.ROOT, capture_output=True, text=True, check=True)
    folders = {path.split("/")[1] for path in files.stdout.split() if path.count("/") > 1}
    assert len(folders) > 8
    mirrored = {*_code()[0], "deploy"} if top == "tests" else set()
    assert {name for name in folders - mirrored if f"`{name}/`" not in paragraph} == set()


def test_the_terms_of_the_glossary_are_in_alphabetical_order() -> None:
    rows = (DOCS / "glossary.md").read_text().partition("## Terms")[2].partition("## Former")[0]
    terms = [line.split("|")[1].strip().lower() for line in rows.splitlines() if line.startswith("| ")][1:]
    assert len(terms) > 40
    assert terms == sorted(set(terms))


def test_every_present_name_of_the_glossary_exists() -> None:
    former = (DOCS / "glossary.md").read_text().partition("## Former names")[2]
    rows = [line.strip("| ").split(" | ") for line in former.splitlines() if line.startswith("| ")]
    modules, words = _code()
    names = {
        part
        for row in rows
        for name in re.findall(r"`([^`]+)`", row[1])
        for part in re.findall(r"\w+", name.removeprefix("topolog.io/"))
    }
    assert len(names) > 100
    assert names - modules - words == set()


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    for page in DOCS.rglob("*.md"):
        inside = page.relative_to(DOCS).as_posix()
        if inside != "index.md" and not inside.startswith(("decisions/0", "site/")):
            assert inside in index, inside


def test_decisions_are_numbered_once_and_listed() -> None:
    records = sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))
    numbers = [name[:4] for name in records if name != "0000-template.md"]
    assert numbers == [f"{at:04d}" for at in range(1, len(numbers) + 1)]
    index = (DOCS / "decisions" / "README.md").read_text()
    for name in records:
        assert name in index
        text = (DOCS / "decisions" / name).read_text()
        for heading in ("Status", "Context", "Decision", "Consequences", "What would change our mind"):
            assert f"\n## {heading}\n" in text, name
