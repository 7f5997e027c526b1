"""The bill of materials of an image's base: what dpkg has installed there, with versions and licences."""

import hashlib
import json
import pathlib
import shutil
import subprocess

import packageurl
import pytest
from click import testing

from deploy.release import debian_packages, sums

STATUS = """\
Package: libssl3
Status: install ok installed
Architecture: amd64
Version: 3.0.17-1~deb12u2
Description: Secure Sockets Layer toolkit
 Version: of another field

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0

Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 1:12.2.0-14+deb12u1
"""


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file system with two packages, and one that was removed."""
    files = {
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "var/lib/dpkg/status": STATUS,
        "usr/share/doc/libssl3/copyright": "Files: *\nLicense: Apache-2.0\n\nLicense: Apache-2.0\n text\n",
        "usr/share/doc/libstdc++6/copyright": "In plain English.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_installed_packages_are_components_with_their_licences(root: pathlib.Path) -> None:
    output = root / "base.cdx.json"
    done = testing.CliRunner().invoke(debian_packages.write, [str(root), str(output)])
    assert done.exit_code == 0, done.output
    document = json.loads(output.read_text())
    assert valid(document)
    found = {one["name"]: one for one in document["components"]}
    assert {name: one["version"] for name, one in found.items()} == {
        "libssl3": "3.0.17-1~deb12u2",
        "libstdc++6": "1:12.2.0-14+deb12u1",
    }
    assert found["libssl3"]["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    assert found["libstdc++6"]["licenses"] == []
    for one in found.values():
        read = packageurl.PackageURL.from_string(one["purl"])
        assert (read.type, read.namespace, read.name, read.version) == (
            "deb",
            "debian",
            one["name"],
            one["version"],
        )
        assert read.qualifiers == {"arch": "amd64", "distro": "debian-12"}
    assert debian_packages.bill_of_materials(root) == document


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="this is not a Debian system")
def test_the_packages_are_those_that_dpkg_lists() -> None:
    command = ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}\t${Package}\t${Version}\n"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    listed = {tuple(line.split("\t")[1:]) for line in lines if line.startswith("ii")}
    document = debian_packages.bill_of_materials(pathlib.Path("/"))
    components = document["components"]
    assert isinstance(components, list)
    assert {(one["name"], one["version"]) for one in components} == listed
    assert valid(document)


def valid(document: object) -> bool:
    # Not at the top: every process collects this file, and the import takes more than a second of CPU time.
    from cyclonedx import schema
    from cyclonedx.validation import json as validation

    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    return validator.validate_str(json.dumps(document)) is None


def test_a_file_that_is_added_to_the_artifacts_is_among_the_digests(root: pathlib.Path) -> None:
    output = root / "dist"
    output.mkdir()
    (output / "SHA256SUMS").write_text("of former files\n")
    testing.CliRunner().invoke(debian_packages.write, [str(root), str(output / "base.cdx.json")])
    done = testing.CliRunner().invoke(sums.write, [str(output)])
    assert done.exit_code == 0, done.output
    (line,) = (output / "SHA256SUMS").read_text().splitlines()
    digest = hashlib.sha256((output / "base.cdx.json").read_bytes()).hexdigest()
    assert line == f"{digest}  base.cdx.json"
