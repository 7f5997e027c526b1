"""The page of the dashboard: its files, its headers, and what its modules must not contain."""

import gzip
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

from app.api.dashboard import assets
from tests.project import reference_pages
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem

FOLDER = assets.FOLDER
OWN = sorted((FOLDER / "static").rglob("*.js"))
LICENCES = {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "0BSD"}
TESTS = reference_pages.ROOT / "tests" / "support" / "browser" / "vendor"
VIEWS = ("", "pending", "pods", "pods/shop/web-1", "workloads", "decisions", "compare", "health")


@pytest.mark.parametrize(
    ("folder", "licences"),
    [(FOLDER / "vendor", LICENCES), (TESTS, LICENCES | {"MPL-2.0"})],
    ids=["shipped", "for tests"],
)
def test_vendored_files_are_those_of_the_list(folder: pathlib.Path, licences: set[str]) -> None:
    listed = json.loads((folder / "vendored.json").read_text())
    expected = {
        f"{one['name']}-{one['version']}/{path}": held["sha256"]
        for one in listed
        for path, held in one["files"].items()
    }
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "vendored.json"
    }
    assert found == expected
    assert {one["licence"] for one in listed} <= licences
    assert all(f"{one['name']}-{one['version']}/LICENSE" in found for one in listed)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_a_module_of_ours_has_nothing_that_the_policy_forbids(path: pathlib.Path) -> None:
    text = path.read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|unsafeHTML|\beval\(|new Function|style=|document\.write|https?://"
    assert re.findall(forbidden, text) == []
    for name in re.findall(r'from "([^"]+)"', text):
        assert (path.parent / name).resolve().is_file(), name


def test_the_modules_use_every_file_and_no_other() -> None:
    used = {
        (path.parent / name).resolve()
        for path in OWN
        for name in re.findall(r'from "([^"]+)"', path.read_text())
    }
    assert {path.resolve() for path in OWN} - used == {(FOLDER / "static" / "main.js").resolve()}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_the_one_page_with_its_policy(still: api_worlds.World, view: str) -> None:
    response = still.client.get(f"/dashboard/{view}")
    assert response.status_code == 200
    assert response.mimetype == "text/html"
    policy = response.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in response.headers
    files = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    assert len(files) == 5
    for name in files:
        asset = still.client.get(name)
        assert asset.status_code == 200, name
        assert "immutable" in asset.headers["Cache-Control"]
    assert not re.search(r"<style|style=|<script>|\son\w+=", response.text)


def test_a_view_that_does_not_exist_is_named(still: api_worlds.World) -> None:
    assert_problem(still.client.get("/dashboard/nonsense"), 404, "NotFound", "nonsense")


def test_the_way_to_the_dashboard_leads_there(still: api_worlds.World) -> None:
    for path in ("/", "/dashboard"):
        response = still.client.get(path)
        assert (response.status_code, response.headers["Location"]) == (302, "/dashboard/")


@pytest.mark.parametrize(
    "name",
    ["../pages.py", "static/../pages.py", "static/%2e%2e/pages.py", "vendor/vendored.json", "static/none.js"],
)
def test_no_other_file_is_sent(still: api_worlds.World, name: str) -> None:
    digest = assets.read().digest
    assert still.client.get(f"/dashboard/static/{digest}/{name}").status_code == 404


def test_files_of_another_version_are_not_sent(still: api_worlds.World) -> None:
    assert_problem(still.client.get("/dashboard/static/0123/static/main.js"), 404, "NotFound", "main.js")


def test_a_compressed_file_is_the_same_file(still: api_worlds.World) -> None:
    path = f"/dashboard/static/{assets.read().digest}/static/main.js"
    plain = still.client.get(path)
    zipped = still.client.get(path, headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in plain.headers
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped.data) == plain.data


@pytest.mark.parametrize(
    ("code", "sent"),
    [
        (b"// one\nconst a = 1; // two\n", b"\nconst a = 1; // two\n"),
        (b"/** A text. */\nf();\n", b"\nf();\n"),
        (b"  /**\n   * A text.\n   */\n  f();\n/** B. */\n", b"\n\n\n  f();\n\n"),
        (b"const a = '/** b */'; /* c */\n", b"const a = '/** b */'; /* c */\n"),
        (b"const a = x\n  / y;\n", b"const a = x\n  / y;\n"),
        (b"/** @type {A} */ (a).f();\ng();\n/** B. */\n", b"/** @type {A} */ (a).f();\ng();\n\n"),
    ],
)
def test_code_is_sent_without_comments_in_the_lines_of_its_source(code: bytes, sent: bytes) -> None:
    assert assets.uncommented(code) == sent
    assert sent.count(b"\n") == code.count(b"\n")


def test_nothing_but_comments_is_left_out() -> None:
    for path in (assets.FOLDER / "static").rglob("*.js"):
        sent = assets.read().files[path.relative_to(assets.FOLDER).as_posix()].content.decode()
        for line, found in zip(path.read_text().splitlines(), sent.splitlines(), strict=True):
            if line != found:
                text = line.strip()
                assert (found, text[:2] in ("//", "/*", "* ", "*/", "*")) == ("", True), (path, line)
                assert "*/" not in text or text.endswith("*/"), (path, line)


def test_the_code_of_the_page_is_small() -> None:
    sizes = [len(file.gzipped) for file in assets.read().files.values()]
    assert sum(sizes) < 90_000


def test_the_wheel_has_every_file(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source"
    subprocess.run(["cp", "-r", str(reference_pages.ROOT / "app"), f"{source}-app"], check=True)
    source.mkdir()
    (tmp_path / "source-app").rename(source / "app")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "workers", "migrations"):
        subprocess.run(["cp", "-r", str(reference_pages.ROOT / name), str(source)], check=True)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            tmp_path,
            source,
        ],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"app/api/dashboard/{name}" for name in assets.read().files} - held == set()
    assert "app/api/dashboard/vendor/lit-html-3.3.3/LICENSE" in held
