"""The image, built without a container runtime: its configuration, its layer, and that it runs as a pod does.

The base is the system of this machine in place of that of a registry (tests/support/image_builds.py).
"""

import json
import pathlib
import stat

import pytest

import app
from app.store.server import embedded
from tests.support import child_processes, how_to_pages, image_builds

LACKING = image_builds.lacking()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

BUDGET = 170
"""Megabytes of the layer above the base."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> image_builds.Build:
    folder = tmp_path_factory.mktemp("image")
    context = image_builds.context(how_to_pages.ROOT, folder / "context")
    dockerfile = how_to_pages.ROOT / "deploy" / "Dockerfile"
    return image_builds.Build(dockerfile, context, folder / "build", {"SOURCE_DATE_EPOCH": "1767225600"})


def test_it_starts_the_command_as_a_user_without_rights(image: image_builds.Build) -> None:
    made = image.last
    assert (made.user, made.entrypoint, made.command) == ("10001:10001", ["topolog"], ["--help"])
    assert made.ports == ["8443", "8081"]
    assert made.labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert made.labels["org.opencontainers.image.base.name"].startswith("python:")
    assert all(name.startswith("org.opencontainers.image.") for name in made.labels)


def test_the_layer_holds_the_environment_and_nothing_else(image: image_builds.Build) -> None:
    files = dict(image.last.files())
    assert {path.split("/")[1] for path in files} == {"opt"}
    assert {path.split("/")[2] for path in files if path.count("/") > 1} == {"topolog"}
    names = {path.rpartition("/")[2] for path in files}
    assert not [
        name for name in names if name.startswith(("pip", "setuptools")) and name.endswith(("-info", "pip"))
    ]
    assert not names & {".bash_history", ".ash_history", ".python_history", ".cache", ".git"}
    assert "/opt/topolog/lib/python3.11/site-packages/kubernetes/aio" not in files
    assert "/opt/topolog/lib/python3.11/site-packages/kubernetes/client" in files


def test_its_byte_code_holds_whatever_times_its_files_get(image: image_builds.Build) -> None:
    compiled = [path for path in image.last.layer.rglob("*.pyc")]
    assert len(compiled) > 1000
    # PEP 552: the second word has bit 0 for a hash in place of time and size, bit 1 for one that is compared.
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x03\x00\x00\x00"}


def test_nothing_in_it_grants_rights_or_can_be_written(image: image_builds.Build) -> None:
    for path, status in image.last.files():
        assert (status.st_uid, status.st_gid) == (0, 0), path
        assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID), path
        assert stat.S_ISLNK(status.st_mode) or not status.st_mode & stat.S_IWOTH, path


def test_the_layer_keeps_its_budget(image: image_builds.Build) -> None:
    size = sum(status.st_size for _, status in image.last.files()) / 1e6
    print(f"layer: {size:.0f} MB of {BUDGET}")
    assert size < BUDGET


def test_it_runs_on_a_root_that_cannot_be_written(image: image_builds.Build) -> None:
    touched = image.run("touch", "/opt/topolog/x", user="10001", read_only=True)
    assert "Read-only file system" in touched.stderr
    done = image.run("topolog", "version", user="10001", read_only=True)
    assert (done.returncode, app.__version__ in done.stdout) == (0, True), done.stderr
    found = image.run("python", "-c", "import app; print(app.__file__)", user="10001", read_only=True)
    assert found.stdout.startswith("/opt/topolog/lib/"), found.stderr


def test_its_doctor_examines_a_store(image: image_builds.Build) -> None:
    port = child_processes.free_port()
    server = child_processes.Process(
        "valkey",
        [embedded.find_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
        log=pathlib.Path("/dev/null"),
    )
    server.start()
    try:
        variables = {"TOPOLOG_STORE_URL": f"redis://127.0.0.1:{port}"}
        up = image.run("topolog", "migrate", "up", user="10001", read_only=True, variables=variables)
        assert up.returncode == 0, up.stderr
        done = image.run(
            "topolog", "doctor", "store", "-o", "json", user="10001", read_only=True, variables=variables
        )
        found = {one["id"]: one["verdict"] for one in json.loads(done.stdout)["checks"]}
        # A server without an append-only file.
        assert (found["Q22"], found["Q23"], found["Q04"]) == ("ok", "ok", "problem"), done.stdout
    finally:
        server.stop()


def test_a_program_that_grants_rights_would_be_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "ARG NAME=a\nFROM base AS one\nWORKDIR /src\n# A comment.\nCOPY given \\\n  ./\n"
        "RUN install -m 4755 given /opt/run\n"
        'FROM base\nARG NAME\nLABEL x.y="of ${NAME}"\nCOPY --from=one /opt /opt\n'
    )
    (tmp_path / "given").write_text("#!/bin/sh\n")
    made = image_builds.Build(tmp_path / "Dockerfile", tmp_path, tmp_path / "build").last
    assert {path: bool(status.st_mode & stat.S_ISUID) for path, status in made.files()} == {
        "/opt": False,
        "/opt/run": True,
    }
    assert made.labels == {"x.y": "of a"}
