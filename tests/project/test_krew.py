"""The manifest of the kubectl plugin: what krew demands of one."""

import copy
import pathlib
from collections.abc import Callable
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from deploy.release import artifacts

Json = dict[str, Any]


def _object(required: Json, optional: Json | None = None) -> Json:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


_LINE: Final[Json] = {"type": "string", "minLength": 1, "pattern": r"^[^\n]+$"}
_TEXT: Final[Json] = {"type": "string", "minLength": 1}
_PLATFORM: Final = _object(
    {
        "selector": _object(
            {
                "matchLabels": _object(
                    {"os": {"enum": ["linux", "darwin", "windows"]}, "arch": {"enum": ["amd64", "arm64"]}}
                )
            }
        ),
        "uri": {"type": "string", "pattern": r"^https://[^\s]+\.(tar\.gz|zip)$"},
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "bin": {"type": "string", "pattern": r"^(?!/)(?!.*\.\.).+$"},
    },
    {"files": {"type": "array", "items": _object({"from": _TEXT, "to": _TEXT})}},
)
SCHEMA: Final = _object(
    {
        "apiVersion": {"const": "krew.googlecontainertools.github.com/v1alpha2"},
        "kind": {"const": "Plugin"},
        "metadata": _object({"name": {"type": "string", "pattern": r"^[a-z0-9][a-z0-9-]*$"}}),
        "spec": _object(
            {
                "version": {"type": "string", "pattern": r"^v\d+\.\d+\.\d+(-[\w.]+)?$"},
                "shortDescription": {**_LINE, "maxLength": 50},
                "platforms": {"type": "array", "minItems": 1, "items": _PLATFORM},
            },
            {"description": _TEXT, "homepage": _LINE, "caveats": _TEXT},
        ),
    }
)
"""What krew validates (pkg/index/validation), and its index asks for: krew itself is on no registry here."""


@pytest.fixture
def manifest(tmp_path: pathlib.Path) -> Json:
    """That of a release."""
    archive = tmp_path / f"kubectl-topolog-1.2.3-{artifacts.system()}.tar.gz"
    archive.write_bytes(b"an archive")
    made = artifacts.manifest(archive, "1.2.3", "https://downloads.example/v1.2.3/", tmp_path)
    found: Json = yaml.safe_load(made.read_text())
    return found


def test_the_manifest_fits_the_schema(manifest: Json) -> None:
    assert [error.message for error in jsonschema_rs.validator_for(SCHEMA).iter_errors(manifest)] == []


def platform(**fields: object) -> Callable[[Json], object]:
    return lambda document: document["spec"]["platforms"][0].update(fields)


MISTAKES: dict[str, Callable[[Json], object]] = {
    "no platform": lambda document: document["spec"].update(platforms=[]),
    "a version without v": lambda document: document["spec"].update(version="1.2.3"),
    "a long description": lambda document: document["spec"].update(shortDescription="x" * 51),
    "a field of another case": lambda document: document["spec"].update(shortdescription="x"),
    "plain HTTP": platform(uri="http://downloads.example/a.tar.gz"),
    "a digest that is cut off": platform(sha256="ab"),
    "a program outside of the archive": platform(bin="../topolog"),
    "a system by Python's name": platform(selector={"matchLabels": {"os": "Linux", "arch": "x86_64"}}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_schema_refuses_what_krew_would(manifest: Json, name: str) -> None:
    document = copy.deepcopy(manifest)
    MISTAKES[name](document)
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(document)
