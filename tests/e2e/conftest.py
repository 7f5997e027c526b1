"""The clusters that the end-to-end tests run on."""

import os
import pathlib
import time
from collections.abc import Iterator

import pytest

from tests.e2e import control_plane_builds
from tests.support.e2e import clusters, installations, native_groups

UNTIL = "E2E_UNTIL"
"""Variable with the time (seconds since 1970) after which no further test is started."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what the version or the time of this run lacks, before any cluster starts."""
    until = os.environ.get(UNTIL)
    if until and time.time() > float(until):
        pytest.skip("the time of this run is used up; `make e2e` has no limit")
    for marker in item.iter_markers("since"):
        version, feature = marker.args
        if control_plane_builds.minor() < tuple(map(int, version.split("."))):
            pytest.skip(f"Kubernetes before {version} has no {feature}")


@pytest.fixture(scope="session")
def binary() -> pathlib.Path:
    """The control plane's binary; `make e2e` has built it, or this takes minutes."""
    try:
        return control_plane_builds.built()
    except control_plane_builds.GoMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def form() -> native_groups.Form:
    """How the version of this run spells kube-scheduler's own gangs."""
    return native_groups.form(control_plane_builds.minor())


@pytest.fixture(scope="module")
def cluster(binary: pathlib.Path) -> Iterator[clusters.Cluster]:
    """A cluster for one file of tests: a control plane, its controllers and a kubelet, no nodes."""
    with clusters.Cluster(binary) as cluster:
        cluster.start_controller_manager()
        cluster.start_kubelet()
        yield cluster


@pytest.fixture(scope="module")
def topolog(cluster: clusters.Cluster) -> Iterator[installations.Installation]:
    """Topolog on that cluster, with one extender."""
    with installations.Installation(cluster) as installed:
        yield installed
