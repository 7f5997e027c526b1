"""Requests to the REST API are counted by route and status; a caller cannot add series by its paths.

By the extender as by ``topolog view``, each in its own metrics.
"""

import collections
from collections.abc import Iterator

import pytest

from app.serving.http import request_counts
from app.telemetry import metrics
from tests.support.extender import stages
from tests.support.monitoring import installations

NAME = "topolog_http_requests_total"
SERVING = (metrics.EXTENDER, metrics.VIEW)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """An installation for this file."""
    with installations.running(tmp_path_factory.mktemp("http"), view=True) as made:
        yield made


def caller(found: installations.Installation, process: str) -> stages.Caller:
    return found.stage.caller("viewer", server=found.processes[process])


def counted(found: installations.Installation, process: str) -> dict[tuple[str, str], float]:
    """Route and status -> requests."""
    return {
        (sample.labels["route"], sample.labels["code"]): sample.value
        for metric in found.scraped(process)
        for sample in metric.samples
        if sample.name == NAME
    }


@pytest.mark.parametrize("process", SERVING)
def test_each_request_is_counted_by_its_route_and_status(
    running: installations.Installation, process: str
) -> None:
    before = counted(running, process)
    asked = {
        "/apis/v1/nodes": ("nodes", 200),
        "/apis/v1/nodes?limit=1": ("nodes", 200),
        "/apis/v1/nodes/absent": ("nodes", 404),
        "/apis/v1/pods/shop/absent": ("pods", 404),
        "/apis/v1/plugins/WorkloadPolicy/policies": ("plugins", 200),
        "/apis/v1/pending?limit=x": ("pending", 400),
        "/apis/v1/status": ("status", 200),
        "/apis/v1/lag": ("lag", 200),
        "/apis/v1/moments": ("moments", 200 if process == metrics.VIEW else 404),
        "/openapi.json": ("other", 200),
    }
    viewer = caller(running, process)
    expected: collections.Counter[tuple[str, str]] = collections.Counter()
    for path, (route, status) in asked.items():
        assert viewer.ask("GET", path).status == status, path
        expected[route, str(status)] += 1
    after = counted(running, process)
    assert {
        key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)
    } == expected


@pytest.mark.parametrize("process", SERVING)
def test_invented_paths_share_one_series(running: installations.Installation, process: str) -> None:
    viewer = caller(running, process)
    viewer.ask("GET", "/apis/v1/invented-0")
    before = set(counted(running, process))
    for number in range(20):
        viewer.ask("GET", f"/apis/v1/invented-{number}")
        viewer.ask("GET", f"/apis/v1/nodes/../invented-{number}")
    assert set(counted(running, process)) - before <= {("other", "404"), ("nodes", "404")}


def test_every_route_of_the_api_has_a_series_of_its_own(running: installations.Installation) -> None:
    found: dict[str, set[str]] = {}
    for process in SERVING:
        listed = caller(running, process).ask("GET", "/apis/v1/__services__").json
        found[process] = {path.split("/")[3] for paths in listed.values() for path in paths}
    assert found[metrics.EXTENDER] < found[metrics.VIEW] == set(request_counts.ROUTES)


@pytest.mark.parametrize(
    "path", ["/", "", "/apis/v1", "/apis/v1/", "/APIS/v1/nodes", "/bind", "/apis/v1//nodes"]
)
def test_other_paths_are_other(path: str) -> None:
    assert request_counts.route_of(path) == metrics.OTHER
