"""The shipped alerts: none fires for healthy processes, and each fires for its fault, on real processes."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import sys

import pytest

from app.domain import schema
from app.serving.tls import certificate_issuer
from app.store.server import connections
from app.telemetry import metrics
from tests.support import child_processes, declared, documented_commands, polling
from tests.support.extender import stages
from tests.support.monitoring import alerts, installations, promql, promtool

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "monitoring.md"
WITHIN = 60.0
SERVED = (*schema.CORE, *installations.STOCK)
PROGRESS = "topolog_watch_last_progress_timestamp_seconds"
CHECKED = "topolog_consistency_last_check_timestamp_seconds"
STATUS = "topolog_leader_election_master_status"
Installation = installations.Installation


def judged(
    first: promql.Scrape, last: promql.Scrape, folder: pathlib.Path, minutes: int = alerts.HORIZON
) -> set[str]:
    """The alerts that fire so many minutes later if it goes on as it did between the scrapes."""
    points = alerts.continued(first, last)[: minutes + 1]
    found = alerts.firing(points)
    if promtool.PATH is not None:
        assert alerts.firing_by_promtool(points, folder, found) == ""
    return found


def without(scraped: promql.Scrape, process: str) -> promql.Scrape:
    """The samples of the other processes."""
    return promql.Scrape(scraped.at, [one for one in scraped.samples if one[1]["pod"] != process])


def moved(one: Installation, since: promql.Scrape) -> promql.Scrape:
    """A scrape after every watch and the auditor have made progress."""

    def times(scraped: promql.Scrape) -> dict[alerts.Series, float]:
        wanted = (PROGRESS, CHECKED)
        return {
            (name, frozenset(labels.items())): value
            for name, labels, value in scraped.samples
            if name in wanted
        }

    def later() -> promql.Scrape | None:
        scraped = alerts.scrape(one)
        before, after = times(since), times(scraped)
        assert len(before) == len(SERVED) + 1
        return scraped if all(after.get(key, 0) > value for key, value in before.items()) else None

    found = polling.eventually(later, "all of them move", within=WITHIN)
    assert found is not None
    return found


# -- healthy -----------------------------------------------------------------------------------


def test_no_alert_fires_for_healthy_processes(healthy: Installation, tmp_path: pathlib.Path) -> None:
    first = alerts.scrape(healthy)
    assert judged(first, moved(healthy, first), tmp_path) == set()


def test_no_alert_fires_for_replicas_on_standby(healthy: Installation, tmp_path: pathlib.Path) -> None:
    """As in the overlay ha: two replicas of the elected processes and of the extender."""
    stage = healthy.stage
    replicas = {
        "recorder-2": stage.worker("record"),
        "controller-2": stage.worker("control"),
        "extender-2": stage.extend("extender-2"),
    }
    with contextlib.ExitStack() as running:
        for name, process in replicas.items():
            running.enter_context(healthy.beside(name, process))
            process.ready()
        first = alerts.scrape(healthy)
        found = judged(first, moved(healthy, first), tmp_path)
        for role in metrics.ELECTED:
            assert healthy.value(f"{role}-2", STATUS, name=f"topolog-{role}") == 0
    assert found == set()


def test_every_alert_is_brought_about_by_a_test_of_this_file() -> None:
    source = pathlib.Path(__file__).read_text()
    for rule in alerts.rules():
        assert f'"{rule.name}"' in source, rule.name


# -- faults ------------------------------------------------------------------------------------


def test_a_store_that_is_away(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own") as own:
        stage = own.stage
        stage.node("n1", role="host")
        stage.policy("shop", "spread", stages.spec(host=1))
        pod = stage.pod("shop", "web", {"app": "web", stages.POLICY_LABEL: "spread"})
        stage.seen()
        caller = stage.caller()
        assert caller.post("/filter", stages.request(pod, "n1")).json["Error"] == ""
        polling.eventually(lambda: own.value(metrics.AUDITOR, CHECKED), "a comparison", within=WITHIN)
        own.server.kill()
        first = alerts.scrape(own)  # Behind the last comparison, which would count as progress.
        for _ in range(3):
            assert caller.post("/filter", stages.request(pod, "n1")).json["Error"]

        def failed() -> bool:
            lag = own.value(metrics.EXTENDER, "topolog_snapshot_lag_seconds") or 0
            failures = own.value(metrics.COMPACTOR, "topolog_failed_compactions_total", step="store") or 0
            ready = [own.value(one, "topolog_ready", process=one) for one in metrics.PROCESSES]
            return lag > 5 and failures > 0 and not any(ready)

        polling.eventually(failed, "the processes notice", within=WITHIN)
        found = judged(first, alerts.scrape(own), tmp_path)
    assert found == {
        "TopologStoreAway",
        "TopologSnapshotBehind",
        "TopologCompactionFails",
        "TopologVerbErrors",
        "TopologVerbSlow",
        "TopologAuditStale",
        "TopologExtenderNotReady",
        "TopologProcessNotReady",
    }


def test_a_store_that_was_emptied(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own", TOPOLOG_BUDGETS_BIND="0.5") as own:
        first = alerts.scrape(own)
        # A process that begins on an empty store ends: that of introspection is ready later than the others.
        viewer = own.stage.caller("viewer")
        polling.eventually(
            lambda: viewer.ask("GET", "/apis/v1/nodes").status == 200, "introspection answers", within=WITHIN
        )
        with connections.connect(own.server.url) as client:
            client.flushall()
        polling.eventually(
            lambda: own.value(metrics.RECORDER, "topolog_rewinds_total"), "a new incarnation", within=WITHIN
        )
        last = alerts.scrape(own)
    assert "TopologStoreLostEvents" in judged(first, last, tmp_path)
    # A recorder that starts with the store had no samples before.
    assert "TopologStoreLostEvents" in judged(without(first, metrics.RECORDER), last, tmp_path, minutes=10)


def test_a_count_that_is_wrong(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own", TOPOLOG_AUDIT_REPAIR="false") as own:
        first = alerts.scrape(own)
        with connections.connect(own.server.url) as client:
            client.hset(declared.names(stages.CLUSTER).counts, "shop/spread|zone=a", 7)
        name = "topolog_consistency_differences"
        polling.eventually(
            lambda: own.value(metrics.AUDITOR, name, kind="count"), "it is found", within=WITHIN
        )
        polling.eventually(
            lambda: own.value(metrics.EXTENDER, "topolog_ready", process=metrics.EXTENDER) == 0,
            "no extender relies on it",
            within=WITHIN,
        )
        last = moved(own, alerts.scrape(own))
        assert judged(first, last, tmp_path) == {"TopologInconsistent", "TopologExtenderNotReady"}


def test_processes_that_have_ended_but_the_one_for_people(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own", view=True) as own:
        first = alerts.scrape(own)
        for name, process in own.processes.items():
            if name != metrics.VIEW:
                process.process.kill()
        found = judged(first, alerts.scrape(own), tmp_path)
    assert found == {"TopologExtenderDown", "TopologAuditStale", "TopologProcessDown"}


@pytest.mark.parametrize("process", [metrics.RECORDER, metrics.CONTROLLER, metrics.COMPACTOR])
def test_one_kind_of_process_that_has_ended(
    healthy: Installation, tmp_path: pathlib.Path, process: str
) -> None:
    first = alerts.scrape(healthy)
    found = judged(without(first, process), without(moved(healthy, first), process), tmp_path)
    assert found == {"TopologProcessDown"}


def test_processes_that_run_and_are_not_ready(healthy: Installation, tmp_path: pathlib.Path) -> None:
    """Nothing probes them here: each runs its checks by itself."""

    def ready() -> dict[str, float | None]:
        return {
            process: healthy.value(process, "topolog_ready", process=process) for process in metrics.PROCESSES
        }

    first = alerts.scrape(healthy)
    with connections.connect(healthy.server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            polling.eventually(lambda: set(ready().values()) == {0}, "all notice", within=WITHIN, seen=ready)
            last = moved(healthy, first)
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    assert judged(first, last, tmp_path) == {"TopologExtenderNotReady", "TopologProcessNotReady"}
    polling.eventually(lambda: set(ready().values()) == {1}, "all are ready", within=WITHIN, seen=ready)
    assert judged(first, moved(healthy, last), tmp_path) == set()


def test_an_api_server_that_is_away(tmp_path: pathlib.Path) -> None:
    with installations.running(
        tmp_path / "own", TOPOLOG_ELECTION_LEASE="3", TOPOLOG_ELECTION_RENEW="2", TOPOLOG_ELECTION_RETRY="0.1"
    ) as own:
        first = alerts.scrape(own)
        own.stage.api.stop()

        def leading() -> list[float | None]:
            return [own.value(process, STATUS, name=f"topolog-{process}") for process in metrics.ELECTED]

        polling.eventually(lambda: leading() == [0, 0], "both give up", within=WITHIN, seen=leading)
        assert "TopologNoLeader" in judged(first, alerts.scrape(own), tmp_path)


def test_two_recorders_with_leases_in_two_namespaces(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own") as own:
        first = alerts.scrape(own)
        another = own.stage.worker("record", TOPOLOG_ELECTION_NAMESPACE="elsewhere")
        with own.beside("another", another):
            polling.ready(
                another.process,
                lambda: own.value("another", STATUS, name="topolog-recorder") == 1,
                within=WITHIN,
            )
            assert "TopologTwoLeaders" in judged(first, alerts.scrape(own), tmp_path)


def test_an_api_server_that_sends_nothing_on_its_watches(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own", bookmarks=3600.0) as own:
        first = alerts.scrape(own)
        at = own.value(metrics.AUDITOR, CHECKED) or 0
        polling.eventually(
            lambda: (own.value(metrics.AUDITOR, CHECKED) or 0) > at, "the rest works", within=WITHIN
        )
        assert judged(first, alerts.scrape(own), tmp_path) == {"TopologWatchStale"}


def test_an_object_that_cannot_be_decoded(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own") as own:
        first = alerts.scrape(own)
        poison = {"metadata": {"namespace": "shop", "name": "poison", "uid": "u", "labels": {"a": ["b"]}}}
        own.stage.api.objects.send_raw("pods", json.dumps({"type": "ADDED", "object": poison}).encode())
        polling.eventually(
            lambda: own.value(metrics.RECORDER, "topolog_quarantined_total", kind="pods"),
            "it is counted",
            within=WITHIN,
        )
        last = moved(own, alerts.scrape(own))
    assert judged(first, last, tmp_path) == {"TopologObjectQuarantined"}
    # A recorder that starts with such an object had no samples before.
    assert "TopologObjectQuarantined" in judged(without(first, metrics.RECORDER), last, tmp_path, minutes=10)


def test_certificates_that_expire_and_a_damaged_file(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own") as own:
        tls = own.stage.folder / "tls"
        first = alerts.scrape(own)
        certificate_issuer.issue(
            tls, ["127.0.0.1", "localhost"], days=3, replace=certificate_issuer.Replace.SIGNED
        )
        polling.eventually(
            lambda: own.value(metrics.EXTENDER, "topolog_certificate_renewals_total"),
            "they are served",
            within=WITHIN,
        )
        assert judged(first, moved(own, first), tmp_path) == {"TopologCertificateExpiresSoon"}
        (tls / "server.crt").write_text("damaged")
        polling.eventually(
            lambda: own.value(metrics.EXTENDER, "topolog_certificate_files_bad") == 1,
            "it is noticed",
            within=WITHIN,
        )
        found = judged(first, moved(own, first), tmp_path)
    assert found == {"TopologCertificateExpiresSoon", "TopologCertificateFilesBad"}


def test_a_store_that_is_nearly_full(healthy: Installation, tmp_path: pathlib.Path) -> None:
    def limit() -> float | None:
        return healthy.value(metrics.COMPACTOR, "topolog_store_memory_limit_bytes")

    first = alerts.scrape(healthy)
    used = healthy.value(metrics.COMPACTOR, "topolog_store_memory_used_bytes")
    assert used
    with connections.connect(healthy.server.url) as client:
        client.config_set("maxmemory", int(used * 1.1))
        try:
            polling.eventually(limit, "it is measured", within=WITHIN)
            found = judged(first, alerts.scrape(healthy), tmp_path)
        finally:
            client.config_set("maxmemory", 0)
    assert "TopologStoreMemory" in found
    polling.eventually(lambda: not limit(), "the store has no limit again", within=WITHIN)


def test_a_pod_that_waits_for_half_an_hour(healthy: Installation, tmp_path: pathlib.Path) -> None:
    """The age is that of tests/workers/controller/test_pending_metrics.py."""

    def waiting(scraped: promql.Scrape) -> promql.Scrape:
        aged = [
            (name, labels, 1801.0 if labels.get("by") == "none" and "oldest" in name else value)
            for name, labels, value in scraped.samples
        ]
        assert aged != scraped.samples
        return promql.Scrape(scraped.at, aged)

    first = alerts.scrape(healthy)
    found = judged(waiting(first), waiting(moved(healthy, first)), tmp_path)
    assert found == {"TopologPodsWaitLong"}


def test_half_an_upgrade(healthy: Installation, tmp_path: pathlib.Path) -> None:
    later = tmp_path / "later"
    for folder in ("app", "workers", "migrations"):
        shutil.copytree(ROOT / folder, later / folder, ignore=shutil.ignore_patterns("__pycache__"))
    version = later / "app" / "__init__.py"
    changed = re.sub(r'__version__ = "[^"]+"', '__version__ = "9.9.9"', version.read_text())
    assert changed != version.read_text()
    version.write_text(changed)
    first = alerts.scrape(healthy)
    environ = healthy.stage.environment()
    one = stages.Extender("later", environ, tmp_path, command="compact")
    one.process = child_processes.Process(
        "later",
        [sys.executable, "-m", "workers", "compact"],
        log=tmp_path / "later.log",
        env=os.environ | environ | {"PYTHONPATH": str(later)},
        cwd=later,
    )
    one.process.start()
    with healthy.beside("later", one):
        one.ready()
        assert judged(first, moved(healthy, first), tmp_path) == {"TopologMixedVersions"}


def test_a_process_with_other_plugin_settings(healthy: Installation, tmp_path: pathlib.Path) -> None:
    first = alerts.scrape(healthy)
    other = healthy.stage.extend("other", TOPOLOG_PLUGINS_SCORE_MAX="50")
    with healthy.beside("other", other):
        other.ready()
        assert judged(first, moved(healthy, first), tmp_path) == {"TopologMixedConfiguration"}


# -- the rules themselves ----------------------------------------------------------------------


@pytest.mark.skipif(promtool.PATH is None, reason=promtool.MISSING)
def test_promtool_accepts_the_rules() -> None:
    code, output = promtool.run("check", "rules", "--lint=all", str(alerts.RULES))
    assert code == 0, output


def test_every_alert_has_a_severity_a_text_and_a_section_in_the_guide() -> None:
    sections = {
        name: text
        for name, text in re.findall(r"^### (Topolog\w+)\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.M | re.S)
    }
    assert sections.keys() == {rule.name for rule in alerts.rules()}
    for rule in alerts.rules():
        document = rule.document
        assert document["labels"]["severity"] in ("critical", "warning", "info")
        assert document["annotations"]["summary"].endswith(".")
        assert document["annotations"]["description"].endswith(".")
        # A path of the repository, and so not the URL that runbook_url would be.
        assert "runbook_url" not in document["annotations"]
        assert document["annotations"]["runbook"] == f"docs/how-to/monitoring.md#{rule.name.lower()}"
        # tests/project/test_code_blocks.py compares them with the program.
        assert list(documented_commands.named(sections[rule.name])), f"{rule.name} names no command"


def test_every_metric_of_a_rule_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    exist = set(re.findall(r"^\| `(topolog_\w+)`", page, re.MULTILINE))
    for rule in alerts.rules():
        named = set(re.findall(r"topolog_\w+", rule.expression))
        assert named, rule.name
        assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= exist, rule.name
