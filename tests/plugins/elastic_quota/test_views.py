"""The views of quotas: the fields of Koordinator's endpoint."""

from typing import Any

from app.framework import views
from app.plugins.elastic_quota.plugin import ElasticQuota
from app.plugins.elastic_quota.sigs import namespace_quota
from tests.support.decisions import small_quotas
from tests.support.decisions.small_quotas import node, pod, quota

KOORDINATORS = {
    *("name", "parentName", "tree", "isParent", "allowLentResource", "runtimeVersion", "max", "min"),
    *("autoScaleMin", "used", "nonPreemptibleUsed", "request", "nonPreemptibleRequest", "sharedWeight"),
    *("runtime", "childRequest", "allocated", "guaranteed", "selfUsed", "selfNonPreemptibleUsed"),
    *("selfRequest", "selfNonPreemptibleRequest"),
}
"""core/quota_summary.go without podCache, for which there is the view of pods."""


def test_a_quota_has_koordinators_fields_and_what_non_preemptible_pods_of_its_subtree_request() -> None:
    small = small_quotas.cluster(
        node("n1", 64),
        quota("team", 4, 32, is_parent=True),
        quota("blue", 2, 16, parent="team"),
        quota("green", 2, 16, parent="team"),
        pod("blue-runs", 1, "blue", node="n1", firm=True),
        pod("blue-waits", 2, "blue", firm=True),
        pod("green-waits", 4, "green", firm=True),
        pod("preemptible", 8, "green"),
    )
    view = {one.path: one for one in ElasticQuota().shown().endpoints}["quotas/<name>"]
    found: dict[str, Any] = {
        name: view.handle(small.snapshot, {"name": name}) for name in ("team", "blue", "green")
    }
    for shown in found.values():
        assert KOORDINATORS - shown.keys() == set()
    requested = {name: shown["nonPreemptibleRequest"] for name, shown in found.items()}
    assert requested == {"team": {"cpu": "7"}, "blue": {"cpu": "3"}, "green": {"cpu": "4"}}
    assert found["team"]["selfNonPreemptibleRequest"] == {"cpu": "0"}
    assert found["team"]["nonPreemptibleUsed"] == {"cpu": "1"}


def test_the_built_in_quotas_have_koordinators_fields_and_their_max_as_runtime() -> None:
    small = small_quotas.cluster(
        node("n1", 64),
        quota("blue", 2, 16),
        quota("koordinator-default-quota", 0, 8),
        pod("runs", 3, "", node="n1"),
        pod("waits", 4, ""),
    )
    view = {one.path: one for one in ElasticQuota().shown().endpoints}["quotas/<name>"]
    found: dict[str, Any] = {
        name: view.handle(small.snapshot, {"name": name})
        for name in ("koordinator-default-quota", "koordinator-system-quota")
    }
    for shown in found.values():
        assert KOORDINATORS - shown.keys() == set()
    default, system = found.values()
    assert {"used": default["used"], "request": default["request"], "runtime": default["runtime"]} == {
        "used": {"cpu": "3"},
        "request": {"cpu": "7"},
        "runtime": {"cpu": "8"},
    }
    assert system["runtime"] == {}


def test_each_of_two_quotas_of_one_name_is_shown_by_a_key_of_its_own() -> None:
    small = small_quotas.cluster(
        node("n1", 64),
        quota("team", 2, 8, namespace="z", created="2026-01-01T00:00:00Z"),
        quota("team", 1, 4, namespace="a", created="2026-01-02T00:00:00Z"),
        pod("runs", 6, "team", node="n1"),
    )
    shown = ElasticQuota().shown()
    endpoints = {one.path: one for one in shown.endpoints}
    listed = endpoints["quotas"].handle(small.snapshot, {})
    assert isinstance(listed, views.Listed)
    items: list[Any] = [listed.item(key) for key in sorted(listed.keys)]
    keys = [item["key"] for item in items if item["name"] == "team"]
    assert keys == ["a/team", "team"]
    one, within = endpoints["quotas/<name>"], endpoints["quotas/<namespace>/<name>"]
    used: Any = one.handle(small.snapshot, {"name": "team"})
    unused: Any = within.handle(small.snapshot, {"namespace": "a", "name": "team"})
    assert (used["key"], used["namespace"], used["used"]) == ("team", "z", {"cpu": "6"})
    assert within.handle(small.snapshot, {"namespace": "z", "name": "team"}) == used
    assert (unused["key"], unused["errors"]) == ("a/team", ["its name is used by the older quota z/team"])
    assert (unused["overuse"], unused["preemption"], unused["derivation"]) == ([], None, {})
    for wrong in (("b", "team"), ("a", "other"), ("", "koordinator-root-quota")):
        assert within.handle(small.snapshot, dict(zip(("namespace", "name"), wrong, strict=True))) is None
    followed = shown.followed[0]
    assert followed.named_by == "key"
    assert {key: bool(followed.numbers(small.snapshot, key)) for key in keys} == {
        "a/team": False,
        "team": True,
    }


def test_a_quota_is_followed_by_what_it_uses_and_what_waits_for_it() -> None:
    small = small_quotas.cluster(
        node("n1", 64),
        quota("team", 4, 32, is_parent=True),
        quota("blue", 2, 8, parent="team"),
        quota("green", 2, 16, parent="team"),
        pod("blue-runs", 6, "blue", node="n1"),
        pod("green-waits", 8, "green"),
    )
    followed = ElasticQuota().shown().followed[0]
    found = {name: followed.numbers(small.snapshot, name) for name in ("team", "blue", "green", "none")}
    assert found == {
        "team": {"cpu used, % of max": 18, "cpu waiting, % of max": 25, "cpu min, % of max": 12},
        "blue": {"cpu used, % of max": 75, "cpu waiting, % of max": 0, "cpu min, % of max": 25},
        "green": {"cpu used, % of max": 0, "cpu waiting, % of max": 50, "cpu min, % of max": 12},
        "none": {},
    }


def test_a_quota_of_a_namespace_is_followed_by_what_it_uses_and_may_borrow() -> None:
    def of(
        namespace: str, name: str, least: dict[str, int], most: dict[str, int] | None = None
    ) -> namespace_quota.NamespaceQuota:
        return namespace_quota.NamespaceQuota(
            uid=f"uid-{name}", namespace=namespace, name=name, min=least, max=most or {}
        )

    small = small_quotas.cluster(
        node("n1", 64),
        of("apps", "own", {"cpu": 4000}, {"cpu": 8000}),
        of("apps", "second", {"cpu": 4000}),
        of("batch", "open", {"cpu": 12000}),
        small_quotas.pod("runs", 6, namespace="apps", node="n1"),
        small_quotas.pod("waits", 2, namespace="apps"),
        small_quotas.pod("borrows", 4, namespace="batch", node="n1"),
    )
    followed = {one.kind: one for one in ElasticQuota().shown().followed}["sigsquota"]
    view = {one.path: one for one in ElasticQuota().shown().endpoints}[followed.table.path]
    listed = view.handle(small.snapshot, {})
    assert isinstance(listed, views.Listed)
    items = [listed.item(key) for key in listed.keys]
    assert followed.named_by == "namespace+name"
    names = ["{namespace}/{name}".format(**item) for item in items if isinstance(item, dict)]
    found = {name: followed.numbers(small.snapshot, name) for name in names}
    assert found == {
        "apps/own": {"cpu used, % of max": 75, "cpu min, % of max": 50},
        "apps/second": {},  # A namespace has one quota, the first by name.
        "batch/open": {"cpu used, % of all min": 25, "cpu min, % of all min": 75},
    }


def test_the_pods_above_a_runtime_are_those_that_go_beside_what_terminates() -> None:
    """As for the evictor: what terminates is about to free enough."""
    rules = ElasticQuota(runtime=False)
    view = {one.path: one for one in rules.shown().endpoints}["quotas/<name>"]
    small = small_quotas.cluster(
        node("n1", 64),
        quota("team", 0, 4),
        pod("least", 2, "team", node="n1"),
        pod("ends", 2, "team", node="n1", priority=5),
        pod("stays", 2, "team", node="n1", priority=9),
    )

    def shown() -> tuple[object, list[str]]:
        found: Any = view.handle(small.snapshot, {"name": "team"})
        return found["over"], [one["name"] for one in found["overuse"]]

    assert shown() == ({"cpu": "2"}, ["least"])
    small.see(pod("ends", 2, "team", node="n1", priority=5, terminating=True))
    assert shown() == ({"cpu": "2"}, [])
