"""Every route: its answer, and its error for an object that does not exist.

Out of scope: the plugins' views themselves (tests/plugins), who may ask (tests/serving).
"""

import re
from typing import Any

import flask
import pytest

from app import plugins
from app.api import routes
from app.domain import events, model
from app.framework import registry
from app.store.server import embedded
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import assert_problem, assert_stamped, body, items

LISTS = (
    "/apis/v1/nodes",
    "/apis/v1/pending",
    "/apis/v1/topology",
    "/apis/v1/decisions",
    "/apis/v1/events",
    "/apis/v1/flags",
    "/apis/v1/plugins/WorkloadPolicy/policies",
    "/apis/v1/plugins/WorkloadPolicy/policies/shop/spread/quotas",
    "/apis/v1/plugins/JobAffinity/groups",
    "/apis/v1/plugins/NodeLabelPriority/nodes",
)
OBJECTS = (
    "/apis/v1/__services__",
    "/apis/v1/nodes/host-1",
    "/apis/v1/pods/shop/web-1",
    "/apis/v1/pods/shop/web-3/explain",
    "/apis/v1/plugins/WorkloadPolicy/policies/shop/spread",
    "/apis/v1/plugins/JobAffinity/groups/shop/job",
    "/apis/v1/settings",
    "/apis/v1/status",
    "/apis/v1/lag",
    "/apis/v1/transformers",
    "/apis/v1/overrides",
    "/apis/v1/diff",
    "/apis/v1/consistency",
    "/apis/v1/store",
    "/debug/flags/s",
    "/openapi.json",
)


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_the_one_envelope(still: api_worlds.World, path: str) -> None:
    assert len(items(still.client.get(path))) <= 100


@pytest.mark.parametrize("path", OBJECTS)
def test_an_object_is_stamped(still: api_worlds.World, path: str) -> None:
    response = still.client.get(path)
    assert response.status_code == 200
    assert response.mimetype == "application/json"
    assert_stamped(response)


@pytest.mark.parametrize(
    "path",
    [
        "/apis/v1/nodes/nowhere",
        "/apis/v1/pods/shop/absent",
        "/apis/v1/pods/shop/absent/explain",
        "/apis/v1/decisions/1-1",
        "/apis/v1/decisions/nonsense",
        "/apis/v1/plugins/WorkloadPolicy/policies/shop/nothing",
        "/apis/v1/plugins/WorkloadPolicy/policies/shop/nothing/quotas",
        "/apis/v1/plugins/JobAffinity/groups/shop/nothing",
        "/apis/v1/plugins/Nothing/at/all",
        "/apis/v1/",
        "/debug/flags/x",
        "/nothing",
    ],
)
def test_what_does_not_exist_is_404_everywhere(still: api_worlds.World, path: str) -> None:
    assert_problem(still.client.get(path), 404, "NotFound")


@pytest.mark.parametrize("path", [*LISTS, *OBJECTS])
def test_a_wrong_method_is_405_and_lists_the_allowed_ones(still: api_worlds.World, path: str) -> None:
    response = still.client.delete(path)
    assert_problem(response, 405, "MethodNotAllowed")
    assert "GET" in response.headers["Allow"]


@pytest.mark.scenario("TR-16")
def test_services_lists_every_view_in_koordinators_shape(still: api_worlds.World) -> None:
    listed = body(still.client.get("/apis/v1/__services__"))
    assert all(paths == sorted(paths) for paths in listed.values())
    assert listed["PUT"] == listed["DELETE"] == ["/apis/v1/shadows/:name"]
    assert {
        "/apis/v1/__services__",
        "/apis/v1/nodes/:name",
        "/apis/v1/pods/:namespace/:name/explain",
        "/apis/v1/plugins/WorkloadPolicy/policies/:namespace/:name/quotas",
    } <= set(listed["GET"])


@pytest.mark.scenario("TR-16")
@pytest.mark.parametrize("viewed", [True, False])
def test_services_lists_what_the_process_answers(still: api_worlds.World, viewed: bool) -> None:
    """An extender answers 404 at the paths of `topolog view`."""
    app = flask.Flask("process", static_folder=None)
    routes.register(app, still.app.extensions["topolog"], viewed=viewed)
    client = app.test_client()
    listed = body(client.get("/apis/v1/__services__"))
    documented: dict[str, list[str]] = {method: [] for method in listed}
    for path, item in sorted(body(client.get("/openapi.json"))["paths"].items()):
        for method in documented.keys() & {name.upper() for name in item} if "/apis/v1/" in path else ():
            documented[method].append(path.replace("{", ":").replace("}", ""))
    assert listed == {method: sorted(paths) for method, paths in documented.items()}
    assert ("/apis/v1/frames" in listed["GET"]) == viewed


@pytest.mark.scenario("TR-16")
def test_every_path_of_a_plugin_is_answered_now_and_in_the_past(
    store_server: embedded.Server, cluster: str
) -> None:
    chosen = registry.Registry([plugin() for plugin in plugins.IN_TREE])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        made = api_worlds.world(start(), chosen)
        made.append(*api_worlds.history())
        listed = body(made.client.get("/apis/v1/__services__"))["GET"]
        paths = [re.sub(r":[a-z_]+", "absent", path) for path in listed if "/plugins/" in path]
        assert {path.split("/")[4] for path in paths} == {plugin.name for plugin in plugins.IN_TREE}
        for path in paths:
            for moment in ("", "?at=1", "?at=yesterday"):
                response = made.client.get(path + moment)
                assert response.status_code in (200, 400, 404), path
                assert response.mimetype in ("application/json", "application/problem+json"), path
                assert made.client.head(path + moment).status_code == response.status_code


def test_transformers_are_listed_by_phase(still: api_worlds.World) -> None:
    shown = body(still.client.get("/apis/v1/transformers"))
    assert shown["items"] == [{"phase": phase, "plugins": []} for phase in ("filter", "node", "score")]


def test_a_node_has_koordinators_fields_with_sane_values(still: api_worlds.World) -> None:
    node = body(still.client.get("/apis/v1/nodes/host-2"))
    assert node["node"]["metadata"]["name"] == "host-2"
    assert node["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "110"}
    assert node["requested"] == {"cpu": "500m", "memory": "1Gi", "pods": "1"}
    assert node["remaining"] == {"cpu": "7500m", "memory": "31Gi", "pods": "109"}
    assert [pod["name"] for pod in node["pods"]] == ["job-1"]
    assert node["generation"] > 0


def test_nodes_are_listed_by_name_with_what_remains(still: api_worlds.World) -> None:
    found = items(still.client.get("/apis/v1/nodes"))
    assert [one["name"] for one in found] == sorted(one["name"] for one in found)
    # In-flight placements count: their capacity is not free.
    assert {one["name"]: one["pods"] for one in found}["member-1"] == 1


@pytest.mark.parametrize(
    ("name", "state", "node", "count"),
    [
        ("web-1", "bound", "host-1", "shop/spread|role=host"),
        ("web-2", "placed", "member-1", "shop/spread|role=member"),
        ("web-3", "pending", "", None),
    ],
)
def test_a_pod_shows_its_node_and_its_counts(
    still: api_worlds.World, name: str, state: str, node: str, count: str | None
) -> None:
    pod = body(still.client.get(f"/apis/v1/pods/shop/{name}"))
    assert (pod["state"], pod["node"]) == (state, node)
    assert pod["policies"] == [{"policy": "shop/spread", "valid": True, "count": count}]
    assert (pod["placement"] is not None) == (state == "placed")
    assert not {"env", "args", "containers", "spec"} & set(pod)


def test_a_placement_shows_what_was_decided_for_the_pod(world: api_worlds.World) -> None:
    written: dict[str, Any] = {
        "data": {"Devices": {"gpu": [0, 3]}},
        "annotations": {"a.example/b": "1"},
        "labels": {"c": "2"},
    }
    pods = [model.Pod(uid=name, namespace="shop", name=name) for name in ("one", "two")]
    world.append(
        events.PlacementsCommitted(
            placements=(
                model.Placement(pods[0], "host-1", resource_version="47", **written),
                model.Placement(pods[1], "host-2", planned=True),
            ),
            at="2026-07-01T10:00:01Z",
        )
    )
    found = [body(world.client.get(f"/apis/v1/pods/shop/{pod.name}"))["placement"] for pod in pods]
    common = {"at": "2026-07-01T10:00:01Z"}
    assert found == [
        {"node": "host-1", "planned": False, **written, **common},
        {"node": "host-2", "planned": True, "data": {}, "annotations": {}, "labels": {}, **common},
    ]
    # Each of the pods finds the event.
    for asked in ("pod:two", "pod:shop/two"):
        (event,) = items(world.client.get(f"/apis/v1/events?object={asked}"))
        assert (event["type"], event["object"]) == ("PlacementsCommitted", "pod:one")


def test_a_pending_pod_shows_its_age_reason_and_changes(world: api_worlds.World) -> None:
    world.append(api_worlds.policy(host=2))
    world.append(api_worlds.pod_seen("web-4", "host-3"))
    (waiting,) = items(world.client.get("/apis/v1/pending"))
    assert waiting["name"] == "web-3"
    assert waiting["age"] == pytest.approx(0, abs=5)
    assert waiting["attempts"] == 0
    assert "0 of 6 nodes fit" in waiting["reason"]
    assert waiting["change"]


def test_topology_is_a_tree_with_counts(world: api_worlds.World) -> None:
    roles = items(world.client.get("/apis/v1/topology"))
    assert [(one["key"], one["value"], one["nodes"]) for one in roles] == [
        ("role", "host", 4),
        ("role", "member", 2),
    ]
    assert roles[0]["counts"] == [{"policy": "shop/spread", "placed": 2, "desired": 1}]

    world.append(
        api_worlds.node("far-1", topology_kubernetes_io_zone="b", role="host"),
    )
    (inner,) = items(world.client.get("/apis/v1/topology?levels=role,priority-lixueduan-com"))[1]["domains"]
    assert (inner["value"], inner["nodes"]) == ("10", 2)


def test_one_domain_has_only_those_inside_it(world: api_worlds.World) -> None:
    ask = "/apis/v1/topology?levels=role,priority-lixueduan-com&within="
    whole = items(world.client.get("/apis/v1/topology?levels=role,priority-lixueduan-com"))
    assert items(world.client.get(f"{ask}member")) == [one for one in whole if one["value"] == "member"]
    (member,) = items(world.client.get(f"{ask}member,10"))
    assert [one["value"] for one in member["domains"]] == ["10"]
    for nowhere in ("host,10", "none", "host,none"):
        assert items(world.client.get(f"{ask}{nowhere}")) == []
    assert_problem(
        world.client.get(f"{ask}member,10,3"),
        400,
        "BadRequest",
        "within: 3 values, and levels has 2 label keys",
    )
    assert_problem(
        world.client.get("/apis/v1/topology?within=a"), 400, "BadRequest", "levels has 0 label keys"
    )


def test_nodes_without_a_label_are_a_domain_that_can_be_asked_for(world: api_worlds.World) -> None:
    ask = "/apis/v1/topology?levels=role,priority-lixueduan-com&within="
    (host,) = items(world.client.get(f"{ask}host,-"))
    assert [(one["key"], one["value"], one["nodes"]) for one in host["domains"]] == [
        ("priority-lixueduan-com", "", 4)
    ]
    for nowhere in ("-", "member,-"):
        assert items(world.client.get(f"{ask}{nowhere}")) == []
    world.append(api_worlds.node("bare"), api_worlds.node("blank", role=""))
    (bare,) = items(world.client.get(f"{ask}-"))
    assert (bare["value"], bare["nodes"], bare["counts"]) == ("", 2, [])


def test_settings_and_lag_are_answered_from_the_state_of_the_process(still: api_worlds.World) -> None:
    settings = body(still.client.get("/apis/v1/settings"))
    assert settings["settings"]["cluster"] == "test"
    assert settings["plugins"] == ["NodeLabelPriority", "JobAffinity", "WorkloadPolicy", "PreemptionRules"]
    assert settings["weights"] == {"JobAffinity": 2}
    lag = body(still.client.get("/apis/v1/lag"))
    assert lag["behind"] >= 0
    assert lag["error"] is None
    assert lag["identity"] == "operator@example"
