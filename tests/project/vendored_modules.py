"""Takes vendored modules from their packages: ``python -m tests.project.vendored_modules FOLDER...``.

For contributors only; needs npm. The integrity of each package is that of the registry, and every file taken
is listed with its SHA-256 in ``vendored.json`` of the folder, which a test compares.
"""

import base64
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from typing import Final

LIST: Final = "vendored.json"


def main(folders: Sequence[str]) -> int:
    """Take all files of the folders again, and list them; 1 if a package is not the one that is listed."""
    return 0 if all(_taken(pathlib.Path(folder)) for folder in folders) else 1


def _taken(folder: pathlib.Path) -> bool:
    listed = json.loads((folder / LIST).read_text())
    for package in listed:
        archive = _packed(f"{package['name']}@{package['version']}")
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
        if integrity != package["integrity"]:
            sys.stderr.write(f"{package['name']}: {integrity} is not the listed integrity\n")
            return False
        _take(archive, package, folder)
    (folder / LIST).write_text(json.dumps(listed, indent=2) + "\n")
    return True


def _packed(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", name], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = pathlib.Path(folder).iterdir()
        return archive.read_bytes()


def _take(archive: bytes, package: dict[str, object], folder: pathlib.Path) -> None:
    files = package["files"]
    if not isinstance(files, dict):
        raise TypeError("files: a mapping of a path to its source and hash")
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for path, held in files.items():
            found = packed.extractfile(f"package/{held['source']}")
            if found is None:
                raise FileNotFoundError(f"{package['name']} has no {held['source']}")
            content = found.read()
            target = folder / f"{package['name']}-{package['version']}" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            held["sha256"] = hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
