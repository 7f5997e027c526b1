"""A world with several of everything that is kept in a set, and what the API answers about it.

As a program (URL of the store, cluster): the answers of a process of its own, one in a line. Strings are
hashed with a seed of the process (PYTHONHASHSEED), so that a set has another order in each.
"""

import contextlib
import re
import sys
from collections.abc import Iterator

import msgspec

from app import plugins, settings
from app.domain import events, model
from app.framework import registry
from app.plugins.coscheduling import membership
from app.plugins.workload_policy import policy_model
from app.store import stores
from tests.support import declared
from tests.support.decisions import small_gangs, small_quotas
from tests.support.extender import api_worlds, questions

SEVERAL = 7
_ELSEWHERE = re.compile(
    "/(watch|export|settings|lag|store|shadows/<name>|decisions/<identifier>)$|^/(?!apis)"
)
"""A stream, a file, what a process is, and what has to be created first."""
_CLOCK = re.compile(rb'"(spentMs|age|asOf)": ?("[^"]*"|[0-9.]+)')
"""What depends on the moment of the question."""
_NAMES = {"nodes": "node-0", "policies": "spread", "quotas": "quota-0", "gangs": "gang-0", "gang": "gang-0"}
"""Collection -> one of it; another path names a pod."""


def configured() -> registry.Registry:
    """All plugins of the tree."""
    return registry.Registry([plugin() for plugin in plugins.IN_TREE])


def history() -> list[events.AnyEvent]:
    """Nodes in zones, policies that overlap, nominated pods, gangs, and quotas that lend to one another."""
    found: list[events.AnyEvent] = []
    for at in range(SEVERAL):
        labels = {"role": f"role-{at % 3}", small_gangs.ZONE: f"zone-{at % 2}"}
        found.append(events.NodeSeen(node=small_gangs.node(f"node-{at}", labels=labels)))
    for at in range(SEVERAL):
        nominated = msgspec.structs.replace(
            api_worlds.pod(f"nominated-{at}"), nominated=f"node-{at}", priority=at
        )
        running = msgspec.structs.replace(api_worlds.pod(f"running-{at}", f"node-{at}"), phase="Running")
        members = [
            small_gangs.pod(
                f"member-{at}-{of}", namespace="shop", labels={membership.SIGS_LABEL: f"gang-{at}"}
            )
            for of in range(2)
        ]
        objects: list[model.DeclaredObject] = [
            _policy(f"spread-{at}"),
            small_gangs.sigs(f"gang-{at}", 2, namespace="shop"),
            small_quotas.quota(f"quota-{at}", 1, 8, namespace="shop"),
        ]
        found += [events.PodSeen(pod=pod) for pod in (nominated, running, *members)]
        found += [declared.SCHEMA.of(one).observed(one) for one in objects]
    found.append(events.PodSeen(pod=api_worlds.pod("waiting")))
    found.append(declared.POLICIES.observed(_policy("spread")))
    names = sorted(declared.SCHEMA.names)
    return [*found, *(events.Relisted(kind, since="", until="77", reason="start") for kind in names)]


def _policy(name: str) -> policy_model.WorkloadPolicy:
    """Required, with places in one of three domains that each has pods."""
    return policy_model.WorkloadPolicy(
        uid=f"uid-{name}",
        namespace="shop",
        name=name,
        topology_key="role",
        selector=model.Selector(labels={"app": "web"}),
        allocations=tuple(policy_model.Allocation(f"role-{at}", 1) for at in range(2)),
        type="Required",
        method="Balance",
    )


def answers(world: api_worlds.World) -> Iterator[tuple[str, bytes]]:
    """Question -> answer, of every path that can be read and of the questions about situations."""
    at = world.store.follower.catch_up().position.offset
    for rule in world.app.url_map.iter_rules():
        if "GET" in (rule.methods or ()) and not _ELSEWHERE.search(rule.rule):
            name = next((_NAMES[part] for part in rule.rule.split("/") if part in _NAMES), "waiting")
            path = rule.rule.replace("<namespace>", "shop").replace("<name>", name)
            for of in ("", f"?at={at}"):
                yield path + of, world.client.get(path + of).data
    situation = {"at": str(at), "overrides": []}
    pods: list[dict[str, object]] = [{"pod": f"shop/{name}"} for name in ("waiting", "member-0-0")]
    asked: dict[str, list[dict[str, object]]] = {"simulate": [*pods, {"pending": {}}], "fit": [*pods]}
    for question, bodies in asked.items():
        for body in bodies:
            for candidates in ("recorded", "all", "roomy"):
                whole = {**body, "situation": situation, "candidates": candidates}
                yield f"{question} {whole}", questions.post(world, question, whole).data


def main(url: str, cluster: str) -> None:
    """Write all answers about a world that is there."""
    opened = stores.open_store(
        settings.Store(url=url), schema=declared.SCHEMA, cluster=cluster, indexed=configured().indexed()
    )
    with contextlib.closing(opened) as store:
        store.start()
        for question, answer in answers(api_worlds.world(store, configured())):
            line = _CLOCK.sub(b"", answer).replace(b"\n", b" ")
            sys.stdout.buffer.write(question.encode() + b" " + line + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
