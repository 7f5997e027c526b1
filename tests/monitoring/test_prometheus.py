"""A real Prometheus with the shipped rules, unchanged, that scrapes one real process of each kind."""

import pathlib
from collections.abc import Iterator

import pytest

from tests.support import polling
from tests.support.extender import stages
from tests.support.monitoring import alerts, dashboards, installations, prometheus

pytestmark = [
    pytest.mark.skipif(prometheus.PATH is None, reason=prometheus.MISSING),
    pytest.mark.timeout(400),
]
WITHIN = 60.0


@pytest.fixture(scope="module")
def watched(
    installed: installations.Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[prometheus.Prometheus]:
    """The Prometheus of the one installation."""
    with prometheus.scraping(installed, tmp_path_factory.mktemp("prometheus") / "own") as started:
        yield started


@pytest.mark.usefixtures("healthy")
def test_every_rule_is_evaluated_and_no_alert_is_active_for_healthy_processes(
    watched: prometheus.Prometheus,
) -> None:
    assert watched.rules() == {rule.name: "ok" for rule in alerts.rules()}
    # Not even pending: an expression that always holds would wait for its time only.
    polling.eventually(
        lambda: not watched.alerts("pending", "firing"),
        "no alert is active",
        within=WITHIN,
        seen=lambda: watched.alerts("pending", "firing"),
    )


def test_every_panel_shows_what_the_processes_expose(
    healthy: installations.Installation, watched: prometheus.Prometheus
) -> None:
    """The operator gives targets no label for the cluster, so All is chosen."""
    stage = healthy.stage
    stage.node("scraped", role="host")
    stage.policy("scraped", "shown", stages.spec(host=1))
    pod = stage.pod("scraped", "web", {"app": "web", stages.POLICY_LABEL: "shown"})
    stage.seen()
    assert stage.caller().post("/filter", stages.request(pod, "scraped")).status == 200
    asked = {name for query in dashboards.queries(cluster=dashboards.ALL) for name in query.metrics()}

    def missing() -> set[str]:
        return asked - watched.names() - dashboards.SILENT

    polling.eventually(lambda: not missing(), "all metrics are stored", within=WITHIN, seen=missing)
    stored = watched.names()
    shown = [query for query in dashboards.queries(cluster=dashboards.ALL) if query.metrics() <= stored]
    assert len(shown) > 40

    def empty() -> list[str]:
        return [query.where for query in shown if not watched.query(query.expression)]

    # A rate needs two samples.
    polling.eventually(lambda: not empty(), "every panel shows something", within=WITHIN, seen=empty)
    for query in dashboards.queries(cluster=dashboards.ALL):
        for labels in watched.query(query.expression):
            assert query.labels() <= labels.keys(), query.where


def test_a_store_that_is_killed_is_reported_for_every_process_until_it_is_back(
    tmp_path: pathlib.Path,
) -> None:
    with (
        installations.running(tmp_path / "own", view=True) as own,
        prometheus.scraping(own, tmp_path / "prometheus") as started,
    ):
        own.server.kill()

        def away(state: str) -> set[str]:
            return started.alerts(state).get("TopologStoreAway", set())

        polling.eventually(
            lambda: away("firing") == own.processes.keys(),
            "the alert fires for each of them",
            within=120,
            every=0.5,
            seen=lambda: started.alerts("pending", "firing"),
        )
        own.server.start()
        polling.eventually(
            lambda: not away("firing"),
            "the alert ends",
            within=WITHIN,
            every=0.5,
            seen=lambda: started.alerts("firing"),
        )
