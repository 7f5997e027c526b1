"""How the limit of a quota and the plan of a gang came about, as operators see them."""

from collections.abc import Iterator

import pytest

from app import plugins
from app.cli.output import tables
from app.domain import events
from app.framework import registry
from app.plugins.elastic_quota import kinds
from app.store.server import embedded
from tests.support.decisions import small_quotas
from tests.support.decisions.small_quotas import pod, quota
from tests.support.extender import api_worlds, http_servers
from tests.support.extender.error_shape import body
from tests.support.extender.questions import Run

GANG = "gang.scheduling.koordinator.sh/"
DERIVED = {
    "divided": "90",
    "among": ["a", "b", "c"],
    "request": "80",
    "scaledMin": "30",
    "base": "30",
    "weight": 90_000,
    "rounds": [{"left": "20", "share": "12", "open": True}],
    "runtime": "42",
}
"""EQ-1: of the 20 cores that are left, a gets 12 by its weight."""


@pytest.fixture
def run(store_server: embedded.Server, cluster: str) -> Iterator[Run]:
    """Two nodes, three quotas of EQ-1, and a gang in one of them, for which there is capacity."""
    annotations = {f"{GANG}name": "train", f"{GANG}min-available": "2"}
    pods = [
        *(pod(f"train-{number}", 20, "a", annotations=annotations) for number in range(2)),
        pod("large", 40, "a"),
        pod("b", 10, "b"),
        pod("c", 50, "c"),
    ]
    nodes = [
        small_quotas.node(name, cpu, allocatable={"cpu": cpu * small_quotas.CORE, "pods": 110})
        for name, cpu in (("n1", 60), ("n2", 30))
    ]
    happened: list[events.AnyEvent] = [
        *(events.NodeSeen(node=node) for node in nodes),
        *map(kinds.QUOTAS.observed, (quota("a", 30, 90), quota("b", 30, 90), quota("c", 30, 60))),
        *(events.PodSeen(pod=one) for one in pods),
    ]
    chosen = registry.Registry([plugin() for plugin in plugins.IN_TREE])
    with api_worlds.processes(store_server, cluster, chosen) as start:
        made = api_worlds.world(start(), chosen)
        made.append(*happened)
        with http_servers.serving_http(made.app) as url:
            yield Run(url, made)


def test_the_rounds_of_a_runtime_are_shown(run: Run) -> None:
    shown = body(run.world.client.get("/apis/v1/plugins/ElasticQuota/quotas/a"))
    assert shown["derivation"] == {"cpu": DERIVED}
    printed = run("get", "quotas", "a")
    assert printed.returncode == 0, printed.stderr
    fields = dict(line.split(maxsplit=1) for line in printed.stdout.splitlines())
    derived = {name: tables.cell(value) for name, value in shown["derivation"]["cpu"].items()}
    assert {name: fields[f"derivation.cpu.{name}"] for name in derived} == derived
    assert fields["runtime"] == "cpu=42"


def test_the_explanation_of_a_member_has_the_plan_of_its_gang_and_its_quota(run: Run) -> None:
    printed = run("explain", "apps/train-0")
    assert printed.returncode == 0, printed.stderr
    assert (
        "- Coscheduling: gang koordinator/apps/train: plan in the cluster:"
        " apps/train-0 on n1, apps/train-1 on n1\n"
    ) in printed.stdout
    assert "- ElasticQuota: elastic quota a: cpu used 0 + requested 20 <= limit 42\n" in printed.stdout


def test_a_gang_for_which_its_quota_has_too_little_left_waits_with_that_reason(run: Run) -> None:
    assert body(run.world.client.get("/apis/v1/plugins/Coscheduling/gangs/apps/train"))["state"] == "ready"
    run.world.append(kinds.QUOTAS.observed(quota("a", 30, 39)))
    shown = body(run.world.client.get("/apis/v1/plugins/Coscheduling/gangs/apps/train"))
    reason = "gang koordinator/apps/train: elastic quota a: no capacity in cpu"
    assert (shown["state"], shown["reason"], shown["plan"]["members"]) == ("waiting", reason, [])
    (listed,) = body(run.world.client.get("/apis/v1/plugins/Coscheduling/gangs"))["items"]
    assert (listed["state"], listed["reason"]) == ("waiting", reason)
