"""The module files of the control plane: one version of Kubernetes each. Nothing is built here."""

import re

import pytest

from tests.e2e import control_plane_builds, modules

UPSTREAM = """
module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require (
\tgithub.com/spf13/cobra v1.9.1
\tgo.etcd.io/etcd/server/v3 v3.6.4 // indirect
\tk8s.io/api v0.0.0
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
)
"""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(control_plane_builds.VARIABLE, raising=False)
    return monkeypatch


@pytest.mark.parametrize("version", control_plane_builds.versions())
def test_all_modules_of_kubernetes_have_one_version(version: str, environment: pytest.MonkeyPatch) -> None:
    name = "go.mod" if version == control_plane_builds.newest() else f"{version}.mod"
    text = (control_plane_builds.SOURCE / name).read_text()
    assert f"\tk8s.io/kubernetes v{version}\n" in text
    published = "v0." + version.partition(".")[2]
    replaced = re.findall(r"^\t(\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    assert {(old, wanted) for old, _, wanted in replaced} == {(new, published) for _, new, _ in replaced}


def test_each_version_has_a_binary_of_its_own(environment: pytest.MonkeyPatch) -> None:
    def cache(version: str) -> str:
        environment.setenv(control_plane_builds.VARIABLE, version)
        return control_plane_builds.cache().name

    assert len({cache(version) for version in control_plane_builds.versions()}) == len(
        control_plane_builds.versions()
    )
    environment.setenv(control_plane_builds.VARIABLE, "")
    assert control_plane_builds.cache().name == cache(control_plane_builds.newest())


def test_an_unknown_version_is_refused_with_the_known_ones(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(control_plane_builds.VARIABLE, "1.2.3")
    with pytest.raises(control_plane_builds.UnknownVersion, match=control_plane_builds.newest()):
        control_plane_builds.built()


def test_a_new_module_file_follows_that_of_kubernetes() -> None:
    text = modules.text("1.34.4", UPSTREAM)
    assert "\ngo 1.24.0\n\ngodebug default=go1.24\n" in text
    for line in (
        "github.com/spf13/cobra v1.9.1",
        "go.etcd.io/etcd/server/v3 v3.6.4",
        "k8s.io/kubectl v0.34.4",
        "k8s.io/kubernetes v1.34.4",
        "k8s.io/api => k8s.io/api v0.34.4",
    ):
        assert f"\t{line}\n" in text
