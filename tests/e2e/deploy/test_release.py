"""A release, made in a clone: its files, and that what it builds starts."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
from importlib import metadata
from typing import Any

import pytest
import yaml
from packaging import utils

from app.store.server import embedded
from deploy.release import artifacts
from tests.e2e import control_plane_builds, go_programs
from tests.matrix import dimensions

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

ROOT = pathlib.Path(__file__).parents[3]
URL = "https://downloads.example/v99.0.0"
ALLOWED = re.compile(r"(MIT(-0)?|BSD|Apache|ISC|PSF|Python-2\.0|MPL|Mozilla|CNRI-Python)")
"""Licences that an Apache-2.0 program may ship with."""


def run(*words: str | pathlib.Path, cwd: pathlib.Path, **variables: str) -> str:
    done = subprocess.run(
        list(words), cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A clone in which version 99.0.0 was released."""
    made = tmp_path_factory.mktemp("release") / "clone"
    run("git", "clone", "--quiet", ROOT, made, cwd=ROOT)
    for name, value in (("user.name", "Tests"), ("user.email", "tests@topolog.example")):
        run("git", "config", name, value, cwd=made)
    run(sys.executable, "-m", "deploy.release", "99.0.0", "--url", URL, cwd=made, PYTHONPATH=str(made))
    return made


@pytest.fixture
def empty(tmp_path: pathlib.Path) -> dict[str, str]:
    """An environment in which nothing of the repository can be found."""
    return {"HOME": str(tmp_path), "SHIV_ROOT": str(tmp_path / "shiv"), "PYTHONPATH": "", "VIRTUAL_ENV": ""}


def test_a_release_leaves_a_commit_a_tag_and_the_artifacts(clone: pathlib.Path) -> None:
    assert run("git", "status", "--porcelain", cwd=clone) == ""
    assert run("git", "tag", "--points-at", "HEAD", cwd=clone) == "v99.0.0"
    assert run("git", "log", "-1", "--format=%s", cwd=clone) == "Release 99.0.0"
    system = next(iter(clone.glob("dist/*.pyz"))).stem.removeprefix("topolog-99.0.0-")
    names = {"topolog-99.0.0.tar.gz", "topolog-99.0.0.cdx.json", "topolog.krew.yaml", "SHA256SUMS"}
    names |= {"topolog-99.0.0.tgz", f"topolog-99.0.0-{system}.pyz", f"kubectl-topolog-99.0.0-{system}.tar.gz"}
    assert {path.name for path in (clone / "dist").iterdir()} == names
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=clone / "dist")


@pytest.mark.parametrize("major", go_programs.HELM)
def test_helm_renders_the_chart_of_the_release(
    clone: pathlib.Path, tmp_path: pathlib.Path, major: int
) -> None:
    chart = clone / "dist" / "topolog-99.0.0.tgz"
    rendered = run(
        go_programs.HELM[major].built(), "template", "t", chart, "--kube-version", "1.37.0", cwd=tmp_path
    )
    assert "image: localhost/topolog:99.0.0\n" in rendered
    shown = yaml.safe_load(run(go_programs.HELM[major].built(), "show", "chart", chart, cwd=tmp_path))
    changes = yaml.safe_load(shown["annotations"]["artifacthub.io/changes"])
    assert {one["kind"] for one in changes} >= {"added"}


def test_the_tests_of_the_chart_pass_after_a_release(clone: pathlib.Path) -> None:
    """The stored output of Helm and the files that are made depend on no version."""
    checked = ["tests/deploy/charts/test_chart.py", "-k", "current or golden_output or same_objects"]
    run(sys.executable, "-m", "pytest", "-q", *checked, cwd=clone, PYTHONPATH=str(clone))


def test_artifacts_that_are_made_again_have_the_same_bytes(
    clone: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    packages = next((clone / "build" / "release" / "lib").glob("python*")) / "site-packages"
    made = [
        artifacts.source(clone, "99.0.0", tmp_path),
        artifacts.chart(clone, "99.0.0", tmp_path),
        artifacts.plugin(packages, clone, "99.0.0", tmp_path),
        artifacts.zipapp(packages, "topolog", tmp_path / f"topolog-99.0.0-{artifacts.system()}.pyz"),
    ]
    for again in made:
        assert artifacts.digest(again) == artifacts.digest(clone / "dist" / again.name), again.name


BUDGETS = {".pyz": 40, ".tar.gz": 40, ".tgz": 1}
"""End of the name -> megabytes."""


def test_no_artifact_is_larger_than_its_budget(clone: pathlib.Path) -> None:
    sizes = {path.name: path.stat().st_size / 1e6 for path in (clone / "dist").iterdir()}
    for name, size in sorted(sizes.items()):
        print(f"{name}: {size:.1f} MB")
    for end, most in BUDGETS.items():
        assert [name for name, size in sizes.items() if name.endswith(end) and size > most] == []


def test_the_zipapp_runs_in_an_empty_directory(
    clone: pathlib.Path, tmp_path: pathlib.Path, empty: dict[str, str]
) -> None:
    program = tmp_path / "topolog"
    shutil.copy(next(iter(clone.glob("dist/*.pyz"))), program)
    assert run(program, "--version", cwd=tmp_path, **empty) == "topolog 99.0.0"
    assert "Usage: topolog score" in run(program, "score", "--help", cwd=tmp_path, **empty)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each Python of this machine; a run without these tests does not ask two dozen of them for a version."""
    if "program" in metafunc.fixturenames:
        left_out = "not e2e" in metafunc.config.getoption("markexpr")
        found = [] if left_out else dimensions.pythons()
        names = [version.name for version in found]
        metafunc.parametrize("program", found, indirect=True, ids=names, scope="module")


@pytest.fixture(scope="module")
def program(
    request: pytest.FixtureRequest, clone: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """The zipapp for a Python of this machine, beside that Python on a path of its own."""
    folder = tmp_path_factory.mktemp("zipapp")
    (folder / "bin").mkdir()
    python = request.param.path
    packages = artifacts.environment(clone, folder / "environment", python)
    interpreter = run(python, "-c", "import sys; print(sys.executable)", cwd=folder)
    (folder / "bin" / packages.parent.name).symlink_to(interpreter)
    return artifacts.zipapp(packages, "topolog", folder / "bin" / "topolog")


def test_a_zipapp_works_in_an_empty_home_on_each_python(
    program: pathlib.Path, tmp_path: pathlib.Path, empty: dict[str, str], store_server: embedded.Server
) -> None:
    found = {**empty, "PATH": f"{program.parent}:/usr/bin:/bin", "TOPOLOG_STORE_URL": store_server.url}
    found["TOPOLOG_CLUSTER"] = f"zipapp-{program.parent.parent.name}"
    run(program, "migrate", "up", cwd=tmp_path, **found)
    assert "current" in run(program, "migrate", "status", cwd=tmp_path, **found)
    (tmp_path / "cluster.json").write_text('{"pod": {"name": "a"}, "nodes": [{"name": "n1"}]}')
    assert "1 of 1 nodes are left" in run(program, "score", "cluster.json", cwd=tmp_path, **found)


def test_kubectl_finds_the_plugin_of_the_manifest(
    clone: pathlib.Path, tmp_path: pathlib.Path, empty: dict[str, str]
) -> None:
    manifest = yaml.safe_load((clone / "dist" / "topolog.krew.yaml").read_text())
    assert manifest["metadata"]["name"] == "topolog"
    assert manifest["spec"]["version"] == "v99.0.0"
    [platform] = manifest["spec"]["platforms"]
    folder, _, name = platform["uri"].rpartition("/")
    archive = clone / "dist" / name
    assert folder == URL
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as opened:
        assert {(member.name, member.uid, member.mtime) for member in opened} == {
            (platform["bin"], 0, 0),
            ("LICENSE", 0, 0),
        }
    (tmp_path / "bin").mkdir()
    run("tar", "-xzf", archive, "-C", tmp_path / "bin", cwd=tmp_path)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert "kubectl-topolog" in run(
        control_plane_builds.built(), "kubectl", "plugin", "list", cwd=tmp_path, PATH=path, **empty
    )
    shown = run(tmp_path / "bin" / platform["bin"], "--version", cwd=tmp_path, PATH=path, **empty)
    assert shown.endswith("99.0.0")


def test_every_file_of_the_environment_belongs_to_a_component(clone: pathlib.Path) -> None:
    listed = json.loads((clone / "dist" / "topolog-99.0.0.cdx.json").read_text())["components"]
    packages = next((clone / "build" / "release" / "lib").glob("python*")) / "site-packages"
    installed = {
        utils.canonicalize_name(one.name): one for one in metadata.distributions(path=[str(packages)])
    }
    owned: set[pathlib.Path] = set()
    for component in listed:
        files = installed[utils.canonicalize_name(component["name"])].files
        assert files, component["name"]
        owned |= {pathlib.Path(os.path.normpath(packages / file)) for file in files}
    present = {path for path in packages.rglob("*") if path.is_file()}
    assert len(present) > 1000
    assert sorted(present - owned) == []


def locked_digests() -> dict[str, set[str]]:
    """Package -> digests of the image's lock."""
    text = (ROOT / "deploy" / "requirements.lock").read_text()
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    return {one.partition("==")[0].lower(): set(re.findall(r"sha256:(\w+)", one)) for one in entries}


def digests(component: dict[str, Any]) -> set[str]:
    """Those of the distributions that a component may have been installed from."""
    references = component.get("externalReferences", [])
    found = [one for one in references if one["type"] == "distribution"]
    return {each["content"] for one in found for each in one.get("hashes", [])}


def test_the_bill_of_materials_names_every_package_and_its_licence(clone: pathlib.Path) -> None:
    text = (clone / "dist" / "topolog-99.0.0.cdx.json").read_text()
    components = {one["name"].lower().replace("_", "-"): one for one in json.loads(text)["components"]}
    locked = re.findall(
        r"^([\w.-]+)==(\S+)", (ROOT / "deploy" / "requirements.lock").read_text(), re.MULTILINE
    )
    expected = {name.lower(): version for name, version in locked if name not in ("pip", "setuptools")}
    hashes = locked_digests()
    assert hashes.keys() >= expected.keys()
    assert {name: one["version"] for name, one in components.items()} == {**expected, "topolog": "99.0.0"}
    for name, component in components.items():
        licences = [
            one.get("expression") or one["license"].get("id") or one["license"]["name"]
            for one in component.get("licenses", [])
        ]
        assert licences, name
        assert all(ALLOWED.search(licence) for licence in licences), (name, licences)
        assert digests(component) == hashes.get(name, set()), name
    assert str(clone) not in text
