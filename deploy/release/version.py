"""The version of a release, in every file that names it."""

import datetime
import pathlib
import re
from collections.abc import Callable

_FORM = re.compile(r"\d+\.\d+\.\d+")


class Refused(Exception):
    """The release cannot be made; the message gives the reason, and what to do."""


def check(version: str, root: pathlib.Path) -> None:
    """Refuse a version that has another form, or that the changelog does not announce."""
    if not _FORM.fullmatch(version):
        raise Refused(f"{version!r} is not a version: use MAJOR.MINOR.PATCH, such as 0.2.0")
    newest = re.search(
        r"^## \[(.+?)\] - (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    if newest is None or newest[2] != "unreleased":
        raise Refused(
            f'the newest section of CHANGELOG.md is not unreleased: add "## [{version}] - unreleased"'
        )
    if tuple(map(int, newest[1].split("."))) > tuple(map(int, version.split("."))):
        raise Refused(f"CHANGELOG.md already announces {newest[1]}, which is newer than {version}")


def write(version: str, on: datetime.date, root: pathlib.Path) -> list[str]:
    """Write the version into the files that name it, and return their paths, relative to the root.

    The changelog's unreleased section becomes that of the version and the day.
    """
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
        "README.md": lambda text: _image(version, text),
        "docs/how-to/install.md": lambda text: _image(version, text),
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
