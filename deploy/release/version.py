"""The version of a release, in every file that names it, and what the chart lists of its changes."""

import datetime
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping

import yaml

_FORM = re.compile(r"\d+\.\d+\.\d+")
_CHART = "deploy/charts/topolog/Chart.yaml"
_CHANGES = "artifacthub.io/changes"
_KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""Of Keep a Changelog and of Artifact Hub."""
_MOST = 500
"""Characters of one change in the chart; the changelog has all of it."""


class Refused(Exception):
    """The release cannot be made; the message gives the reason, and what to do."""


def check_newer(version: str, tags: Iterable[str]) -> None:
    """Refuse a version that is not newer than each one with a tag: a changed chart has a higher version."""
    released = [tag.removeprefix("v") for tag in tags if _FORM.fullmatch(tag.removeprefix("v"))]
    for other in released:
        if _number(other) >= _number(version):
            raise Refused(f"v{other} was released already: choose a later version")


def check(version: str, root: pathlib.Path) -> None:
    """Refuse a version that has another form, or that the changelog does not announce."""
    _check_form(version)
    newest = _newest((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if newest is None or newest[2] != "unreleased":
        raise Refused(
            f'the newest section of CHANGELOG.md is not unreleased: add "## [{version}] - unreleased"'
        )
    if _number(newest[1]) > _number(version):
        raise Refused(f"CHANGELOG.md already announces {newest[1]}, which is newer than {version}")


def check_released(version: str, root: pathlib.Path) -> None:
    """Refuse a version that has another form, or that is not the one that the files name.

    Otherwise a tag that was made by hand would publish the chart of the former version again.
    """
    _check_form(version)
    newest = _newest((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    chart = yaml.safe_load((root / _CHART).read_text(encoding="utf-8"))
    init = (root / "app" / "__init__.py").read_text(encoding="utf-8")
    named = {
        "CHANGELOG.md": newest[1] if newest and newest[2] != "unreleased" else "unreleased",
        _CHART: chart["version"],
        "app/__init__.py": found[0] if (found := re.search(r'(?<=__version__ = ")[^"]+', init)) else "",
    }
    for path, other in named.items():
        if other != version:
            raise Refused(
                f"{path} names {other}, not {version}: make the release by `make release VERSION={version}`,"
                " which writes the version before it tags"
            )


def write(version: str, on: datetime.date, root: pathlib.Path) -> list[str]:
    """Write the version into the files that name it, and return their paths, relative to the root.

    The changelog's unreleased section becomes that of the version and the day.
    """
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    edits: dict[str, Callable[[str], str]] = {
        "CHANGELOG.md": lambda text: re.sub(
            r"^## \[.+?\] - unreleased$",
            f"## [{version}] - {on.isoformat()}",
            text,
            count=1,
            flags=re.MULTILINE,
        ),
        "app/__init__.py": lambda text: re.sub(r'(?<=__version__ = ")[^"]+', version, text),
        "deploy/components/images/kustomization.yaml": lambda text: re.sub(
            r"(?<=newName: localhost/topolog\n    newTag: )\S+", version, text
        ),
        _CHART: lambda text: with_changes(
            re.sub(r"(?m)^((?:app)?[vV]ersion): .*$", rf"\1: {version}", text), section(changelog)
        ),
        "README.md": lambda text: _image(version, text),
        "docs/how-to/install.md": lambda text: _image(version, text),
        "docs/how-to/monitoring.md": lambda text: re.sub(r"(?<=/blob/v)\d+\.\d+\.\d+", version, text),
    }
    edited = {path: edit((root / path).read_text(encoding="utf-8")) for path, edit in edits.items()}
    for path, text in edited.items():
        if version not in text:
            raise Refused(
                f"{path} does not name the version where it is expected: adapt deploy/release/version.py"
            )
    for path, text in edited.items():
        (root / path).write_text(text, encoding="utf-8")
    return list(edits)


def _image(version: str, text: str) -> str:
    return re.sub(r"(?<=localhost/topolog:)\d+\.\d+\.\d+", version, text)


def section(changelog: str) -> list[tuple[str, str]]:
    """(kind, sentence) of each entry in the newest section of the changelog, without links."""
    newest = re.split(r"(?m)^## ", changelog)[1]
    found: list[tuple[str, str]] = []
    kind = ""
    for part in re.split(r"(?m)^(?=### |#### |- )", newest):
        if match := re.match(r"### (\w+)", part):
            kind = match[1].lower()
        elif part.startswith("- ") and kind in _KINDS:
            text = " ".join(part[2:].split())
            found.append((kind, re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text)))
    return found


def with_changes(chart: str, changes: Iterable[tuple[str, str]]) -> str:
    """The text of Chart.yaml with these changes, as Artifact Hub reads them, in place of others."""
    listed: list[Mapping[str, str]] = [
        {"kind": kind, "description": text if len(text) <= _MOST else f"{text[:_MOST]}..."}
        for kind, text in changes
    ]
    text = yaml.safe_dump(listed, sort_keys=False, width=10_000, allow_unicode=True)
    block = "".join(f"    {line}\n" for line in text.splitlines())
    without = re.sub(rf"(?m)^  {_CHANGES}: \|\n(?:    .*\n)*", "", chart)
    return f"{without}  {_CHANGES}: |\n{block}" if listed else without


def _check_form(version: str) -> None:
    if not _FORM.fullmatch(version):
        raise Refused(f"{version!r} is not a version: use MAJOR.MINOR.PATCH, such as 0.2.0")


def _newest(changelog: str) -> re.Match[str] | None:
    """The heading of the newest section: its version, and its day or ``unreleased``."""
    return re.search(r"^## \[(.+?)\] - (.+)$", changelog, re.MULTILINE)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
