"""What ``topolog get`` prints of each kind in each format, committed in tests/cli/golden.

``python -m tests.support.extender.shown_kinds`` writes it again. A file has the commands of one kind, each
with what it prints. Times and ids that the store's clock gives differ in each run: as many zeros, or a number
in order, stand for them.
"""

import contextlib
import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final
from unittest import mock

import msgspec

from app import plugins
from app.cli.get import resources
from app.domain import events, model
from app.domain.audit import findings
from app.domain.fit import budgets
from app.framework import registry
from app.plugins.coscheduling import membership
from app.plugins.elastic_quota.sigs import namespace_quota
from app.store import audit_reports
from app.store.server import embedded
from app.store.state import followers
from tests.support import commands, declared
from tests.support.decisions import small_gangs, small_quotas
from tests.support.extender import api_worlds, http_servers

FOLDER: Final = pathlib.Path(__file__).parents[2] / "cli" / "golden"
COMMAND: Final = f"python -m {__spec__.name}"
FORMATS: Final = ("table", "wide", "name", "json", "yaml")
CHOSEN: Final = {
    "nodes": ("$.items[?@.unschedulable == true].name", "NAME:.name,ROLE:.labels.role,CPU:.remaining.cpu"),
    "pods": ('$.items[?@.state == "pending"].name', "POD:.name,CPU:.requests.cpu"),
    "pending": ('$.items[*]["name", "reason"]', "POD:.name,WHY:.reason"),
    "topology": ("$.items[*].counts[*]", "DOMAIN:.value,NODES:.nodes"),
    "decisions": ("$.items[*].outcome", "VERB:.verb,POD:.pod.name,REASONS:.reasons"),
    "events": ("$.items[*].type", "OFFSET:.offset,TYPE:.type"),
    "flags": ("$.items[?@.value != @.default].name", "FLAG:.name,VALUE:.value"),
    "shadows": ("$.items[*].configuration", "SHADOW:.name,NOTE:.note"),
    "consistency": ("$.state", "STATE:.state,FACTS:.facts"),
    "lag": ("$.behind", "BEHIND:.behind,VERSION:.version"),
    "budgets": ("$.items[*].budget", "BUDGET:.budget,ALLOWED:.allowed"),
    "gangs": ("$.items[*].state", "GANG:.name,CHILDREN:.children[*]"),
    "groups": ("$.items[*].size", "GROUP:.name,NODES:.nodes[*].name"),
    "nominations": ("$.items[*].node", "POD:.pod,NODE:.node"),
    "policies": ("$.items[*].count", "POLICY:.name,DESIRED:.desired"),
    "priorities": ("$.items[?@.eligible == true].name", "NODE:.name,SCORE:.score"),
    "quotas": ("$.items[*].min.cpu", "QUOTA:.name,MIN:.min"),
    "sigsquotas": ("$.items[*].headroom", "QUOTA:.name,MAX:.max.cpu"),
}
"""Kind -> a JSONPath and the columns that are asked of it."""
_FURTHER: Final = {"events": ("--at", "11")}
"""Kind -> options of its lists."""


def history() -> list[events.AnyEvent]:
    """That of api_worlds, and objects of the other kinds."""
    spare = msgspec.structs.replace(
        api_worlds.node("spare-1").node,
        labels={"role": "spare", "priority.lixueduan.com": "10"},
        taints=(model.Taint("spare", "NoSchedule", "yes"), model.Taint("slow", "PreferNoSchedule")),
        unschedulable=True,
    )
    urgent = msgspec.structs.replace(
        api_worlds.pod("urgent"), nominated="host-3", priority=100, labels={"app": "urgent"}
    )
    members = [
        small_gangs.pod(f"ring-{at}", namespace="shop", labels={membership.SIGS_LABEL: "ring"})
        for at in range(2)
    ]
    objects: list[model.DeclaredObject] = [
        budgets.DisruptionBudget(
            uid="uid-web",
            namespace="shop",
            name="web",
            selector=model.Selector(labels={"app": "web"}),
            allowed=1,
        ),
        small_gangs.sigs("ring", 3, namespace="shop"),
        small_quotas.quota("team", 2, 8, is_parent=True),
        small_quotas.quota("team-a", 1, 4, parent="team"),
        namespace_quota.NamespaceQuota(
            uid="uid-limit", namespace="ml", name="limit", min={"cpu": 1000}, max={"cpu": 4000}
        ),
    ]
    return [
        *api_worlds.history(),
        events.NodeSeen(node=spare),
        events.PodSeen(pod=api_worlds.pod("job-2", "host-4", rl_job_group="job")),
        *(declared.SCHEMA.of(one).observed(one) for one in objects),
        *(events.PodSeen(pod=pod) for pod in (urgent, *members)),
        events.FlagSet(
            flag=model.Flag(name="f", value="true", pod="shop/web-3", until="2026-07-01T10:15:00Z"),
            by="operator@example",
        ),
        events.ShadowSet(
            shadow=model.Shadow(
                name="larger",
                overrides=(
                    {"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": "+1"}},
                    {"op": "deletePods", "pods": ["shop/job-1", "shop/job-2"]},
                ),
                configuration={"weights": {"JobAffinity": 3}},
                note="before the sale",
                by="operator@example",
                until="2026-07-02T10:00:00Z",
            )
        ),
    ]


@contextlib.contextmanager
def served(server: embedded.Server, cluster: str) -> Iterator[str]:
    """The URL of an extender with at least one item of each kind, a minute after the start of the world."""
    chosen = registry.Registry([plugin() for plugin in plugins.IN_TREE], weights={"JobAffinity": 2})
    with api_worlds.processes(server, cluster, chosen) as start:
        world = api_worlds.world(start(), chosen)
        world.append(*history())
        pods = {pod.name: pod for pod in world.store.follower.catch_up().pods.values()}
        api_worlds.decide(world, pods["web-3"], pods["urgent"])
        world.now[0] += 60
        report = findings.Report(
            incarnation=world.store.follower.snapshot.position.incarnation,
            offset=20,
            at_ms=int(1000 * (api_worlds.START + 45)),
            by="auditor-1",
            every=30.0,
            facts={"pods": 20},
            passes=2,
            complete=True,
            checkpoints={"17": 20},
            total=1,
            differences=(
                findings.Difference(
                    kind="count",
                    key="shop/spread|role=host",
                    expected="2",
                    found="5",
                    first=8,
                    last=20,
                    blame="written bypassing the log",
                ),
            ),
            repairs=(
                findings.Repair(
                    offset=19,
                    at_ms=int(1000 * (api_worlds.START + 30)),
                    what="counts",
                    keys=("shop/spread|role=host", "shop/spread|role=member"),
                    reason="written bypassing the log",
                ),
            ),
        )
        audit_reports.Reports(world.store.client, world.store.keys).write(report)
        with (
            mock.patch.object(followers.Follower, "lag_seconds", 0.0),
            http_servers.serving_http(world.app) as url,
        ):
            yield url


def shown(url: str, kind: str) -> str:
    """The commands of a kind, and what they print."""
    path, columns = CHOSEN[kind]
    found: dict[tuple[str, ...], str] = {}
    for output in (*FORMATS, f"jsonpath={path}", f"custom-columns={columns}"):
        words = (kind, *_FURTHER.get(kind, ()), "-o", output)
        found[words] = printed(url, words)
    if resources.RESOURCES[kind].columns:
        one = (printed(url, (kind, *_FURTHER.get(kind, ()), "-o", "name")).split()[-1],)
        found[one] = printed(url, one)
    return masked("\n".join(f"$ topolog get {shlex.join(words)}\n{text}" for words, text in found.items()))


def printed(url: str, words: Sequence[str]) -> str:
    """What ``topolog get`` prints."""
    done = commands.called("get", *words, "--server", url)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


_LATER: Final = re.compile(r"\b20\d\d-\d\d-\d\dT[\d:.]+Z")
_INCARNATION: Final = re.compile(r"\b[0-9a-f]{12}-[0-9a-f]{8}\b")
_RECORD: Final = re.compile(r"\b\d{13}-\d+\b")
_OWN: Final = "2026-08"
"""All times of the world are before it, those of the store after it."""


def masked(text: str) -> str:
    """The text without what the clock of the store gave; ids of decisions are numbered, the oldest first."""
    text = _LATER.sub(lambda found: found[0] if found[0] < _OWN else re.sub(r"\d", "0", found[0]), text)
    text = _INCARNATION.sub(lambda found: re.sub(r"\w", "0", found[0]), text)
    records = sorted(set(_RECORD.findall(text)), key=lambda one: [int(part) for part in one.split("-")])
    return _RECORD.sub(lambda found: f"{records.index(found[0]) + 1:013}-0", text)


def path(kind: str) -> pathlib.Path:
    """The committed file of a kind."""
    return FOLDER / f"{kind}.txt"


def write() -> None:
    """Write every file again."""
    server = embedded.Server()
    try:
        with served(server, "golden") as url:
            for kind in resources.RESOURCES:
                path(kind).write_text(shown(url, kind))
    finally:
        server.stop()


if __name__ == "__main__":
    write()
