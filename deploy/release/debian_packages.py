"""Writes the Debian packages of an image's base as components.

`python -m deploy.release.debian_packages FOLDER OUTPUT`: FOLDER is the file system of the image, as `docker
export` writes it into an archive. The licences are the names that the packages' own copyright files have in
the form of DEP-5; a package whose file has another form has none.
"""

import json
import pathlib
import re
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from typing import Final

import click

_INSTALLED: Final = "install ok installed"
_LICENCE: Final = re.compile(r"^License: *(\S.*)$", re.MULTILINE)
_NAMESPACE: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""That of URLs in RFC 4122."""


@click.command(name="debian_packages")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
@click.argument("output", type=click.Path(dir_okay=False, path_type=pathlib.Path))
def write(folder: pathlib.Path, output: pathlib.Path) -> None:
    """Write the bill of materials (CycloneDX 1.6, JSON) of the Debian packages in FOLDER to OUTPUT."""
    output.write_text(json.dumps(bill_of_materials(folder), indent=2) + "\n", encoding="utf-8")


def bill_of_materials(folder: pathlib.Path) -> dict[str, object]:
    """The document; the same for the same packages."""
    components = sorted(_components(folder), key=lambda one: str(one["bom-ref"]))
    identity = uuid.uuid5(_NAMESPACE, "\n".join(str(one["bom-ref"]) for one in components))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "components": components,
    }


def _components(folder: pathlib.Path) -> Iterator[dict[str, object]]:
    distribution = _fields((folder / "etc/os-release").read_text(), "=")
    suffix = f"{distribution['ID']}-{distribution['VERSION_ID']}".replace('"', "")
    for paragraph in (folder / "var/lib/dpkg/status").read_text().split("\n\n"):
        package = _fields(paragraph, ": ")
        if package.get("Status") != _INSTALLED:
            continue
        name, version = package["Package"], package["Version"]
        qualifiers = urllib.parse.urlencode({"arch": package["Architecture"], "distro": suffix})
        purl = f"pkg:deb/debian/{urllib.parse.quote(name)}@{urllib.parse.quote(version)}?{qualifiers}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
            "licenses": [{"license": {"name": licence}} for licence in _licences(folder, name)],
        }


def _licences(folder: pathlib.Path, name: str) -> list[str]:
    try:
        text = (folder / "usr/share/doc" / name / "copyright").read_text(errors="replace")
    except OSError:
        return []
    return sorted({found.strip() for found in _LICENCE.findall(text)})


def _fields(text: str, separator: str) -> Mapping[str, str]:
    """The fields of a paragraph, without the further lines of long ones."""
    lines = (line.partition(separator) for line in text.splitlines() if not line.startswith((" ", "\t")))
    return {name: value for name, found, value in lines if found}


if __name__ == "__main__":
    write()
