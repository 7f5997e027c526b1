"""Requests to the REST API are counted by route and status; a caller cannot add series by its paths."""

import collections
from collections.abc import Iterator

import pytest

from app.serving import introspection
from app.telemetry import metrics
from tests.support.monitoring import installations

NAME = "topolog_http_requests_total"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[installations.Installation]:
    """An installation for this file."""
    with installations.running(tmp_path_factory.mktemp("http")) as made:
        yield made


def counted(found: installations.Installation) -> dict[tuple[str, str], float]:
    """Route and status -> requests."""
    return {
        (sample.labels["route"], sample.labels["code"]): sample.value
        for metric in found.scraped(metrics.EXTENDER)
        for sample in metric.samples
        if sample.name == NAME
    }


def test_each_request_is_counted_by_its_route_and_status(running: installations.Installation) -> None:
    before = counted(running)
    asked = {
        "/apis/v1/nodes": ("nodes", 200),
        "/apis/v1/nodes?limit=1": ("nodes", 200),
        "/apis/v1/nodes/absent": ("nodes", 404),
        "/apis/v1/pods/shop/absent": ("pods", 404),
        "/apis/v1/plugins/WorkloadPolicy/policies": ("plugins", 200),
        "/apis/v1/pending?limit=x": ("pending", 400),
        "/apis/v1/status": ("status", 200),
        "/openapi.json": ("other", 200),
    }
    viewer = running.stage.caller("viewer")
    expected: collections.Counter[tuple[str, str]] = collections.Counter()
    for path, (route, status) in asked.items():
        assert viewer.ask("GET", path).status == status, path
        expected[route, str(status)] += 1
    after = counted(running)
    assert {
        key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)
    } == expected


def test_invented_paths_share_one_series(running: installations.Installation) -> None:
    viewer = running.stage.caller("viewer")
    viewer.ask("GET", "/apis/v1/invented-0")
    before = set(counted(running))
    for number in range(20):
        viewer.ask("GET", f"/apis/v1/invented-{number}")
        viewer.ask("GET", f"/apis/v1/nodes/../invented-{number}")
    assert set(counted(running)) - before <= {("other", "404"), ("nodes", "404")}


def test_every_route_of_the_api_has_a_series_of_its_own(running: installations.Installation) -> None:
    viewer = running.stage.caller("viewer")
    rules = viewer.ask("GET", "/apis/v1/__services__").json["GET"]
    paths = [*rules, *viewer.ask("GET", "/openapi.json").json["paths"]]
    found = {path.split("/")[3] for path in paths if path.startswith("/apis/v1/")}
    # Some are answered by `topolog view` only.
    elsewhere = {word for word in found if b"topolog view" in viewer.ask("GET", f"/apis/v1/{word}").raw}
    assert found - elsewhere == set(metrics.HTTP_ROUTES)


@pytest.mark.parametrize(
    "path", ["/", "", "/apis/v1", "/apis/v1/", "/APIS/v1/nodes", "/bind", "/apis/v1//nodes"]
)
def test_other_paths_are_other(path: str) -> None:
    assert introspection.route_of(path) == metrics.OTHER
