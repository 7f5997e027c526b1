"""The objects for the Prometheus operator and Grafana: they fit the alerts, the metrics and the processes."""

import json
import pathlib
import re

import pytest
import yaml

from tests.project import reference_pages
from tests.support import how_to_pages, kustomizations, manifests, polling
from tests.support.extender import stages
from tests.support.monitoring import alerts, dashboards, installations, promql, promtool

FOLDER = manifests.DEPLOY / "monitoring"
OF_TARGETS = {"cluster", "namespace", "pod", "le"}
"""Labels that Prometheus adds to those of the samples, and that of histograms."""

# The objects


def test_the_rule_object_has_the_rules_of_the_file() -> None:
    rules = (FOLDER / "rules.yaml").read_text()
    assert (FOLDER / "prometheusrule.yaml").read_text() == reference_pages.prometheus_rule(rules)
    (found,) = [one for one in kustomizations.render(FOLDER) if one["kind"] == "PrometheusRule"]
    assert found["spec"] == yaml.safe_load(rules)


def test_every_process_is_scraped_where_it_serves_metrics() -> None:
    (monitor,) = [one for one in kustomizations.render(FOLDER) if one["kind"] == "PodMonitor"]
    selector = monitor["spec"]["selector"]["matchLabels"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for overlay in manifests.OVERLAYS:
        scraped = {
            name
            for name, one in manifests.in_overlay(overlay, *manifests.WORKLOADS).items()
            if selector.items() <= one["spec"]["template"]["metadata"]["labels"].items()
            for container in one["spec"]["template"]["spec"]["containers"]
            if endpoint["port"] in {port["name"] for port in container.get("ports", [])}
        }
        # The overlay of the sidecar has no dashboard.
        expected = {f"topolog-{process}" for process in (*installations.COMMANDS, "extender", "view")}
        assert scraped | {"topolog-view"} == expected, overlay


@pytest.mark.parametrize("overlay", manifests.OVERLAYS)
def test_the_scrape_configuration_of_the_page_keeps_the_health_ports_alone(overlay: str) -> None:
    """Prometheus discovers all ports of a pod behind a Service: without a name of an endpoint the others."""
    configuration = yaml.safe_load(how_to_pages.blocks("monitoring.md", "yaml")[0])
    (job,) = configuration["scrape_configs"]
    service = manifests.in_overlay(overlay, "Service")["topolog-health"]["spec"]
    of_service = {one["targetPort"]: one["name"] for one in service["ports"]}
    ports = {
        port["name"]
        for one in manifests.in_overlay(overlay, *manifests.WORKLOADS).values()
        if service["selector"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
        for container in one["spec"]["template"]["spec"]["containers"]
        for port in container.get("ports", [])
    }
    assert ports > {"health"}

    def kept(port: str) -> bool:
        found = {
            "__meta_kubernetes_service_name": "topolog-health",
            "__meta_kubernetes_endpoint_port_name": of_service.get(port, ""),
        }
        return all(
            re.fullmatch(rule["regex"], found[rule["source_labels"][0]])
            for rule in job["relabel_configs"]
            if rule.get("action") == "keep"
        )

    assert set(filter(kept, ports)) == {"health"}


def test_grafana_finds_every_dashboard() -> None:
    (found,) = [one for one in kustomizations.render(FOLDER) if one["kind"] == "ConfigMap"]
    assert found["metadata"]["name"] == "topolog-dashboards"
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text)["uid"] for name, text in found["data"].items()} == {
        path.name: path.stem for path in dashboards.FILES
    }


@pytest.mark.skipif(manifests.KUBECTL is None, reason="kubectl is not installed")
def test_kubectl_renders_the_same() -> None:
    ours = {(one["kind"], one["metadata"]["name"]): one for one in kustomizations.render(FOLDER)}
    assert {(one["kind"], one["metadata"]["name"]): one for one in manifests.rendered(FOLDER)} == ours


# The dashboards


@pytest.mark.parametrize("path", dashboards.FILES, ids=lambda path: path.stem)
def test_a_dashboard_is_complete(path: pathlib.Path) -> None:
    text = path.read_text()
    dashboard = json.loads(text)
    assert text == json.dumps(dashboard, indent=2, sort_keys=True) + "\n"
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}
    assert variables.keys() == {"datasource", "cluster", "namespace"}
    assert {variables[name]["allValue"] for name in ("cluster", "namespace")} == {dashboards.ALL}
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert {each["datasource"]["uid"] for each in panel["targets"]} == {"${datasource}"}
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, f"{panel['title']} covers another panel"
        assert max(x for x, _ in cells) < 24
        taken |= cells
        for target in panel["targets"]:
            selected = re.findall(r"topolog_\w+(\{[^}]*\})?", target["expr"])
            assert set(selected) == {dashboards.SELECTED}, target["expr"]
    identifiers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identifiers)) == len(identifiers)
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("cluster", [dashboards.CLUSTER, dashboards.ALL])
@pytest.mark.skipif(promtool.PATH is None, reason=promtool.MISSING)
def test_prometheus_parses_every_query(tmp_path: pathlib.Path, cluster: str) -> None:
    rules = [
        {"record": f"topolog:query_{number}", "expr": query.expression}
        for number, query in enumerate(dashboards.queries(cluster=cluster))
    ]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    code, output = promtool.run("check", "rules", str(path))
    assert code == 0, output
    assert f"SUCCESS: {len(rules)} rules found" in output


def test_metrics_and_labels_of_panels_are_those_that_processes_expose() -> None:
    known = dashboards.documented()
    for query in dashboards.queries():
        labels = set()
        for name in query.metrics():
            assert dashboards.family(name) in known, f"{query.where}: {name} is not a metric"
            labels |= known[dashboards.family(name)]
        labels |= {"exported_namespace"} & {f"exported_{label}" for label in labels}
        grouped = {
            label for each in re.findall(r"by \(([^)]*)\)", query.expression) for label in each.split(", ")
        }
        assert grouped <= labels | OF_TARGETS, query.where


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {dashboards.family(name) for query in dashboards.queries() for name in query.metrics()}
    assert dashboards.documented().keys() - shown == set()


def as_stored(scraped: promql.Scrape, at: float, **external: str) -> promql.Scrape:
    """The samples with external labels, and the namespace of their target.

    Prometheus then renames a label of that name.
    """
    stored = []
    for name, labels, value in scraped.samples:
        renamed = {
            "exported_namespace" if label == "namespace" else label: each for label, each in labels.items()
        }
        stored.append((name, {**renamed, **external, "namespace": dashboards.NAMESPACE}, value))
    return promql.Scrape(at, stored)


def test_panels_show_what_real_processes_expose(tmp_path: pathlib.Path) -> None:
    with installations.running(tmp_path / "own", view=True) as own:
        stage = own.stage
        stage.node("n1", role="host")
        stage.policy("shop", "shown", stages.spec(host=1))
        pod = stage.pod("shop", "shown-1", {"app": "web", stages.POLICY_LABEL: "shown"})
        stage.seen()
        began = alerts.scrape(own)
        assert stage.caller().post("/filter", stages.request(pod, "n1")).status == 200
        asked = {name for query in dashboards.queries() for name in query.metrics()}

        def missing() -> set[str]:
            return asked - {name for name, _, _ in alerts.scrape(own).samples} - dashboards.SILENT

        polling.eventually(lambda: not missing(), "all samples are there", within=60, seen=missing)
        ended = alerts.scrape(own)
    exposed = {name for name, _, _ in ended.samples}

    def shown(query: dashboards.Query, **external: str) -> promql.Vector:
        points = [as_stored(began, 0, **external), as_stored(ended, 60, **external)]
        return promql.evaluate(query.expression, points, 60)

    for query in dashboards.queries():
        found = shown(query, cluster=dashboards.CLUSTER)
        if query.metrics() <= exposed:
            assert found, f"{query.where} shows nothing"
        for labels in found:
            assert query.labels() <= {name for name, _ in labels}, query.where
        assert not shown(query, cluster="staging"), f"{query.where} shows another cluster"
    # A single Prometheus often has no label for the cluster.
    for query in dashboards.queries(cluster=dashboards.ALL):
        if query.metrics() <= exposed:
            assert shown(query), f"{query.where} shows nothing without the label cluster"
