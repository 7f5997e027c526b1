"""The artifacts of a release.

There is no wheel: its top-level packages would be app, workers and migrations, names that no distribution can
claim. An image, and a zipapp for the command alone, contain the same environment (docs/decisions/0035).
"""

import gzip
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from typing import Any

import yaml

PLUGIN = "kubectl-topolog"
_EPOCH = 0
_LICENCES = {"pysocks": "BSD-3-Clause"}
"""Of packages whose metadata declares no licence by its name in SPDX: the one that their licence file has."""

Document = dict[str, Any]


def environment(
    root: pathlib.Path, folder: pathlib.Path, python: str | pathlib.Path = sys.executable
) -> pathlib.Path:
    """Create the environment of the image (deploy/Dockerfile) and return its site-packages."""
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    install = [*pip, "install", "--quiet", "--quiet", "--disable-pip-version-check"]
    lock = str(root / "deploy" / "requirements.lock")
    subprocess.run([*install, "--require-hashes", "--only-binary", ":all:", "-r", lock], check=True)
    subprocess.run([*install, "--no-deps", "--no-build-isolation", str(root)], check=True)
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools", "pip"], check=True)
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    # It names the folder of this build, so that two builds would differ.
    for file in packages.glob("topolog-*.dist-info/direct_url.json"):
        file.unlink()
    return packages


def source(root: pathlib.Path, version: str, output: pathlib.Path) -> pathlib.Path:
    """Archive the files of HEAD, and return the archive. The same commit results in the same bytes."""
    made = output / f"topolog-{version}.tar.gz"
    prefix = f"--prefix=topolog-{version}/"
    subprocess.run(["git", "-C", root, "archive", "--format=tar.gz", prefix, "-o", made, "HEAD"], check=True)
    return made


def chart(root: pathlib.Path, version: str, output: pathlib.Path) -> pathlib.Path:
    """Archive the Helm chart of HEAD under the name by which a repository of charts lists it."""
    folder = root / "deploy" / "charts" / "topolog"
    listed = ["git", "-C", str(folder), "ls-tree", "-r", "--name-only", "HEAD", "."]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    files = {f"topolog/{name}": folder / name for name in sorted(names)}
    return _packed(output / f"topolog-{version}.tgz", files)


def zipapp(packages: pathlib.Path, script: str, made: pathlib.Path) -> pathlib.Path:
    """Write one executable file for the script of the environment. It needs a Python of its minor version.

    Child processes of the script find the packages, too (--extend-pythonpath).
    """
    shiv = [sys.executable, "-m", "shiv", "--compressed", "--reproducible", "--extend-pythonpath"]
    content = ["--site-packages", str(packages), "--console-script", script]
    start = ["--python", f"/usr/bin/env {packages.parent.name}", "--output-file", str(made)]
    earliest = "315532800"  # 1980, the first time that a ZIP file can hold
    subprocess.run([*shiv, *content, *start], check=True, env={**os.environ, "SOURCE_DATE_EPOCH": earliest})
    return made


def system() -> str:
    """Return operating system and architecture, as Go and krew name them: linux-amd64."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"


def plugin(packages: pathlib.Path, root: pathlib.Path, version: str, output: pathlib.Path) -> pathlib.Path:
    """Write the archive that krew installs: the zipapp of the kubectl plugin, and the licence."""
    program = zipapp(packages, PLUGIN, output / PLUGIN)
    files = {file.name: file for file in (program, root / "LICENSE")}
    made = _packed(output / f"{PLUGIN}-{version}-{system()}.tar.gz", files)
    program.unlink()
    return made


def manifest(archive: pathlib.Path, version: str, url: str, output: pathlib.Path) -> pathlib.Path:
    """Write krew's manifest of the plugin. ``url``: the folder from which the artifacts are downloaded."""
    name, _, architecture = system().partition("-")
    made = output / "topolog.krew.yaml"
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "topolog"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Explain and replay scheduling decisions",
            "description": (
                "Shows the state of the scheduler extender Topolog at any moment of the past, and why it\n"
                "decided as it did. Requires Topolog in the cluster.\n"
            ),
            "caveats": f"Requires {_python()} on PATH.\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": name, "arch": architecture}},
                    "uri": f"{url.rstrip('/')}/{archive.name}",
                    "sha256": digest(archive),
                    "bin": PLUGIN,
                }
            ],
        },
    }
    made.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return made


def bill_of_materials(
    folder: pathlib.Path, lock: pathlib.Path, version: str, output: pathlib.Path
) -> pathlib.Path:
    """Write the components of the environment in the folder (CycloneDX 1.6, JSON).

    Each has its licence, and the digests of the distributions that the lock allows it to be installed from.
    """
    made = output / f"topolog-{version}.cdx.json"
    document = with_digests(_components("environment", folder), _components("requirements", lock))
    document = with_licences(document)
    made.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return made


def with_digests(document: Document, lock: Document) -> Document:
    """Return a bill of materials whose components refer to the distributions that a lock's names."""
    allowed = {_package(one): one["externalReferences"] for one in lock["components"]}
    components = [
        {**one, "externalReferences": [*one.get("externalReferences", []), *allowed.get(_package(one), [])]}
        for one in document["components"]
    ]
    return {**document, "components": components}


def with_licences(document: Document) -> Document:
    """Return a bill of materials with the licences of packages that declare none by its name in SPDX."""
    components = [
        {"licenses": [{"license": {"id": _LICENCES[name]}}], **one}
        if (name := _package(one)[0]) in _LICENCES
        else one
        for one in document["components"]
    ]
    return {**document, "components": components}


def _package(component: Document) -> tuple[str, str]:
    """The name of a package in the spelling that its index uses, and the version."""
    return re.sub(r"[-_.]+", "-", component["name"]).lower(), component["version"]


def _components(kind: str, source: pathlib.Path) -> Document:
    """Return the bill of materials of an environment, or of a lock ("requirements")."""
    program = [sys.executable, "-m", "cyclonedx_py", kind, "--output-reproducible", str(source)]
    found: Document = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
    return found


def sums(output: pathlib.Path) -> pathlib.Path:
    """Write the SHA-256 digests of all artifacts, as sha256sum --check reads them."""
    made = output / "SHA256SUMS"
    lines = [f"{digest(file)}  {file.name}\n" for file in sorted(output.iterdir()) if file != made]
    made.write_text("".join(lines), encoding="utf-8")
    return made


def digest(file: pathlib.Path) -> str:
    """Return the SHA-256 digest of the file's content, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _packed(made: pathlib.Path, files: Mapping[str, pathlib.Path]) -> pathlib.Path:
    """Archive files by name; the same files result in the same bytes."""
    with (
        made.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=_EPOCH) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name, path in files.items():
            archive.add(path, name, filter=_anonymous)
    return made


def _python() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mtime = _EPOCH
    return info
