"""The image: its Dockerfile, and the packages that it contains."""

import configparser
import pathlib
import re
from importlib import metadata

from packaging import requirements, utils

import app
from tests.support import manifests

ROOT = manifests.DEPLOY.parent


def test_images_have_a_registry_and_a_tag() -> None:
    images = {each["image"] for _, each in manifests.containers()}
    assert [
        each for each in images if not re.fullmatch(r"[a-z0-9.]+/([a-z0-9-]+/)*[a-z0-9-]+:[\w.]+", each)
    ] == []
    assert {each.rpartition("/")[2].partition(":")[0] for each in images} == {
        "topolog",
        "kube-scheduler",
        "valkey",
    }


def test_the_image_has_the_current_version() -> None:
    ours = {each["image"] for _, each in manifests.containers() if manifests.is_ours(each)}
    assert ours == {f"localhost/topolog:{app.__version__}"}


def test_the_image_pins_exact_versions() -> None:
    pinned = _pins(manifests.DEPLOY / "requirements.lock")
    everywhere = _pins(ROOT / "requirements.lock")
    text = (manifests.DEPLOY / "requirements.lock").read_text()
    exact = re.findall(r"^\S+==\S+(?: ; [^\\\n]+)? \\\n +--hash=sha256:", text, re.MULTILINE)
    assert len(exact) == len(pinned)
    assert {name: version for name, version in pinned.items() if everywhere.get(name) != version} == {}
    assert "pytest" not in pinned
    # Options here would point to a private index.
    assert not re.search(r"^-|://", text, re.MULTILINE)


def test_the_image_contains_every_dependency() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = (config["options"]["install_requires"] + config["options.extras_require"]["archive"]).split("\n")
    wanted = {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in lines if line}
    assert wanted <= _pins(manifests.DEPLOY / "requirements.lock").keys()


def test_the_image_contains_nothing_else() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["options"]["install_requires"] + config["options.extras_require"]["archive"]
    asked = [line for line in lines.split("\n") if line and line[0] != "#"]
    needed: set[tuple[str, str]] = set()
    where = {"python_full_version": "3.11.0", "python_version": "3.11"}
    while asked:
        one = requirements.Requirement(asked.pop())
        name = utils.canonicalize_name(one.name)
        for extra in {"", *one.extras} - {extra for known, extra in needed if known == name}:
            needed.add((name, extra))
            asked += [
                line
                for line in metadata.requires(name) or ()
                if (marker := requirements.Requirement(line).marker) is None
                or marker.evaluate({**where, "extra": extra})
            ]
    # setuptools builds Topolog itself, and is removed afterwards.
    pinned = _pins(manifests.DEPLOY / "requirements.lock").keys()
    assert pinned ^ {name for name, _ in needed} == {"setuptools"}


def test_the_image_is_labelled_as_the_program_describes_itself() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    text = (manifests.DEPLOY / "Dockerfile").read_text()
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', text))
    described = {"description": "description", "licenses": "license_expression"}
    assert {label: config["metadata"][field] for label, field in described.items()} | {
        "title": "Topolog",
        "version": "${VERSION}",
        "revision": "${REVISION}",
        "base.name": "${BASE}",
    } == labels


def test_the_base_of_the_image_can_be_given_by_digest() -> None:
    lines = (manifests.DEPLOY / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("FROM")] == ["FROM ${BASE} AS build", "FROM ${BASE}"]
    (base,) = [line.partition("=")[2] for line in lines if line.startswith("ARG BASE=")]
    # The lock has the packages of this version, and the name of the folder is in the file.
    version = base.partition(":")[2].partition("-")[0]
    assert any(f"/lib/python{version}/" in line for line in lines)


def test_the_image_runs_as_non_root() -> None:
    lines = (manifests.DEPLOY / "Dockerfile").read_text().splitlines()
    security = manifests.one("Deployment", "topolog-extender")["spec"]["template"]["spec"]["securityContext"]
    assert f"USER {security['runAsUser']}:{security['runAsGroup']}" in lines
    assert 'ENTRYPOINT ["topolog"]' in lines
    assert any("--require-hashes" in line for line in lines)


def _pins(path: pathlib.Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), re.MULTILINE))
