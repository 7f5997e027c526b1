"""The metrics of real processes: each has exactly those of its row in the reference."""

import pathlib
import re

import pytest
from prometheus_client import core

from app.domain import schema
from app.kube.watch import kinds
from app.telemetry import metrics
from tests.support import declared, polling
from tests.support.extender import stages
from tests.support.monitoring import installations, promtool

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
MAX_SERIES = 300
UNITS = ("seconds", "bytes", "ratio", "total", "info")
FOREIGN_UNITS = ("milliseconds", "ms", "minutes", "hours", "kilobytes", "mebibytes", "percent")
WATCHED = tuple(kind.name for kind in kinds.watched(declared.SCHEMA))
SERVED = (*schema.CORE, *installations.STOCK)
each_process = pytest.mark.parametrize("process", metrics.ALL)


def documented(process: str) -> set[tuple[str, str]]:
    """Name and type of the metrics that the reference lists for a process."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]+) \|", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 40
    return {(name, kind) for name, kind, where in rows if where == "all" or process in where.split(", ")}


@each_process
def test_a_process_has_the_metrics_of_its_role_and_no_others(
    healthy: installations.Installation, process: str
) -> None:
    shown = re.findall(r"^# TYPE (topolog_\w+) (\w+)$", healthy.text(process), re.MULTILINE)
    assert set(shown) == documented(process)
    assert len(shown) == len(set(shown))


@each_process
def test_an_idle_process_has_few_series_and_none_of_creation_times(
    healthy: installations.Installation, process: str
) -> None:
    samples = [sample for metric in healthy.scraped(process) for sample in metric.samples]
    assert [one.name for one in samples if one.name.endswith("_created")] == []
    assert 20 < len(samples) < MAX_SERIES
    assert "python_info" in {one.name for one in samples}


@each_process
def test_counters_with_a_closed_set_of_labels_exist_before_the_first_event(
    healthy: installations.Installation, process: str
) -> None:
    shown = {metric.name: metric for metric in healthy.scraped(process)}
    for name, metric in shown.items():
        # Users name the shadows.
        if metric.type == "counter" and name.startswith("topolog_") and "_shadow_" not in name:
            assert metric.samples, name
    if process == metrics.RECORDER:
        reasons = {sample.labels["reason"] for sample in shown["topolog_relists"].samples}
        assert {"first_list", "gone", "store_lost_events", "other"} <= reasons
        assert len(shown["topolog_quarantined"].samples) == len(WATCHED)
    if process == metrics.EXTENDER:
        verbs = {
            (sample.labels["verb"], sample.labels["outcome"])
            for sample in shown["topolog_verb_duration_seconds"].samples
        }
        assert {("bind", "refused"), ("filter", "error"), ("preempt", "kept")} <= verbs
        plugins = {sample.labels["plugin"] for sample in shown["topolog_refused_nodes"].samples}
        assert "WorkloadPolicy" in plugins


@pytest.mark.skipif(promtool.PATH is None, reason=promtool.MISSING)
@each_process
def test_promtool_has_nothing_to_report(healthy: installations.Installation, process: str) -> None:
    text = "".join(
        line
        for line in healthy.text(process).splitlines(keepends=True)
        # Metrics of prometheus_client itself have a name that promtool objects to.
        if "python_gc_" not in line
    )
    assert promtool.run("check", "metrics", given=text) == (0, "")


@each_process
def test_names_and_help_follow_the_rules_of_promtool(
    healthy: installations.Installation, process: str
) -> None:
    for metric in healthy.scraped(process):
        if metric.name.startswith("topolog_"):
            assert flaws(metric) == [], metric.name


def flaws(metric: core.Metric) -> list[str]:
    """What `promtool check metrics` reports (client_golang, promlint)."""
    words, found = metric.name.split("_"), []
    if not metric.documentation:
        found.append("no help text")
    if metric.name != metric.name.lower() or ":" in metric.name:
        found.append("not in snake case")
    if metric.type != "counter" and words[-1] == "total":
        found.append("only a counter ends in _total")
    if metric.type != "histogram" and words[-1] in ("bucket", "count", "sum"):
        found.append("a suffix of histograms")
    if metric.type in words:
        found.append("the type is part of the name")
    found += [f"not a base unit: {word}" for word in words if word in FOREIGN_UNITS]
    if words[-1] not in UNITS:
        found += [f"the unit {word} is not at the end" for word in words if word in UNITS]
    labels = {label for sample in metric.samples for label in sample.labels}
    found += [f"label {label} is in camel case" for label in labels if label != label.lower()]
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("topolog_calls_total", "gauge"),
        ("topolog_wait_ms", "gauge"),
        ("topolog_waitTime", "gauge"),
        ("topolog_pods_count", "gauge"),
        ("topolog_gauge_of_pods", "gauge"),
        ("topolog_seconds_waited", "gauge"),
    ],
)
def test_a_bad_name_is_a_flaw(name: str, kind: str) -> None:
    assert flaws(core.Metric(name, "help", kind))


def test_every_process_reports_the_same_versions_and_configuration(
    healthy: installations.Installation,
) -> None:
    builds, digests = set(), set()
    for process in metrics.ALL:
        shown = {metric.name: metric for metric in healthy.scraped(process)}
        (build,) = shown["topolog_build_info"].samples
        builds.add(tuple(sorted(build.labels.items())))
        if process in metrics.WRITERS:
            (configuration,) = shown["topolog_configuration_info"].samples
            digests.add(configuration.labels["digest"])
    assert len(builds) == len(digests) == 1
    assert dict(builds.pop()).keys() == {"version", "schema", "python"}


@pytest.mark.parametrize("process", metrics.ELECTED)
def test_the_only_replica_of_an_elected_process_leads(
    healthy: installations.Installation, process: str
) -> None:
    def status() -> float | None:
        return healthy.value(process, "topolog_leader_election_master_status", name=f"topolog-{process}")

    polling.eventually(lambda: status() == 1, "it holds its Lease", seen=status)


@pytest.mark.parametrize("kind", SERVED)
def test_a_bookmark_counts_as_progress_of_a_watch(healthy: installations.Installation, kind: str) -> None:
    def progress() -> float:
        name = "topolog_watch_last_progress_timestamp_seconds"
        return healthy.value(metrics.RECORDER, name, kind=kind) or 0

    before = progress()
    assert before
    polling.eventually(lambda: progress() > before, "the time moves", within=30)


def test_a_kind_that_is_not_served_has_no_progress(healthy: installations.Installation) -> None:
    """A cluster serves the kinds of some plugins only; an old time would be taken for a watch that hangs."""
    name = "topolog_watch_last_progress_timestamp_seconds"
    shown = next(one for one in healthy.scraped(metrics.RECORDER) if one.name == name)
    assert sorted(sample.labels["kind"] for sample in shown.samples) == sorted(SERVED)
    assert set(WATCHED) - set(SERVED)


def test_the_leading_controller_shows_the_pods_of_policies_by_domain(
    healthy: installations.Installation,
) -> None:
    stage = healthy.stage
    stage.node("n1", role="host")
    stage.policy("shop", "spread", stages.spec(host=3, member=2))
    for name in ("one", "two"):
        stage.pod("shop", name, {"app": "web", stages.POLICY_LABEL: "spread"}, nodeName="n1")

    def shown() -> dict[tuple[str, str], float]:
        return {
            (sample.name, sample.labels["domain"]): sample.value
            for metric in healthy.scraped(metrics.CONTROLLER)
            for sample in metric.samples
            if sample.labels.get("name") == "spread"
        }

    expected = {
        ("topolog_object_domain_pods", "host"): 2.0,
        ("topolog_object_domain_pods", "member"): 0.0,
        ("topolog_object_domain_desired_pods", "host"): 3.0,
        ("topolog_object_domain_desired_pods", "member"): 2.0,
    }
    polling.eventually(lambda: shown() == expected, "the counts are shown", within=30, seen=shown)
    assert healthy.value(metrics.CONTROLLER, "topolog_object_series_omitted") == 0


def test_store_up_follows_the_store_in_every_process(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own", view=True) as own:

        def up() -> dict[str, float | None]:
            return {process: own.value(process, "topolog_store_up") for process in metrics.ALL}

        polling.eventually(lambda: set(up().values()) == {1.0}, "every process reaches it", seen=up)
        own.server.kill()
        polling.eventually(lambda: set(up().values()) == {0.0}, "every process notices", within=30, seen=up)
        own.server.start()
        polling.eventually(lambda: set(up().values()) == {1.0}, "every process is back", within=60, seen=up)
