"""Asks hypothetical questions of an API, and the F6 world of the scenarios."""

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from werkzeug.test import TestResponse

from app.api.v1.questions import simulations
from app.domain import events
from tests.support import commands, declared
from tests.support.extender import api_worlds
from tests.support.extender.error_shape import Json, body


def post(world: api_worlds.World, question: str, asked: Mapping[str, Any]) -> TestResponse:
    """The response to a question."""
    return world.client.post(f"/apis/v1/{question}", json=asked)


def ask(world: api_worlds.World, question: str, **asked: object) -> Json:
    """The answer to a question."""
    response = post(world, question, asked)
    assert response.status_code == 200, response.text
    found = body(response)
    if (
        question == "simulate"
    ):  # Not serialised by its schema: it could have other fields than the documented.
        assert not simulations.Simulated().validate(found)
    return found


LISTED = sorted(declared.SCHEMA.names)
"""The kinds that are watched."""


def f6() -> list[events.AnyEvent]:
    """Six nodes, Required + Fill with member 1 and host 3: four pods are placed, two wait."""
    return [
        *(api_worlds.node(f"member-{at}", role="member") for at in (1, 2)),
        *(api_worlds.node(f"host-{at}", role="host") for at in (1, 2, 3, 4)),
        api_worlds.policy(host=3, member=1),
        api_worlds.pod_seen("a-1", "member-1"),
        *(api_worlds.pod_seen(f"a-{at}", f"host-{at - 1}") for at in (2, 3, 4)),
        *(api_worlds.pod_seen(f"a-{at}") for at in (5, 6)),
        *(
            events.Relisted(kind, since="", until="77", reason="start")
            for kind in sorted(declared.SCHEMA.names)
        ),
    ]


def manifest(name: str, **labels: str) -> dict[str, Any]:
    """The manifest of api_worlds.pod."""
    pod = api_worlds.pod(name, **labels)
    return {
        "metadata": {"name": name, "namespace": pod.namespace, "labels": dict(pod.labels)},
        "spec": {
            "containers": [{"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
        },
    }


def scale(**quotas: str | int) -> dict[str, Any]:
    """The override that gives the policy of F6 these replicas in each domain; "+1" is one more."""
    return {"op": "scalePolicy", "policy": "shop/spread", "allocations": quotas}


class Run:
    """Runs commands against an API."""

    def __init__(self, url: str, world: api_worlds.World) -> None:
        self.url = url
        self.world = world

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return commands.called(*arguments, "--server", self.url, stdin=stdin)


def differing(run: Run, *words: str) -> list[str]:
    """SECTION/NAME of each row of ``topolog diff``, with those words."""
    sections = json.loads(run("diff", *words, "-o", "json").stdout)["sections"]
    return [f"{section}/{row['name']}" for section, found in sections.items() for row in found["rows"]]


def live(world: api_worlds.World) -> list[str]:
    """F6 as it came about: each pod is filtered once and the first four are bound, the member first.

    Returns the ids of the records, oldest first: filter and prioritize of a-1 to a-4, filter of a-5 and a-6.
    """
    nodes = [event for event in f6() if not isinstance(event, events.PodSeen)]
    world.append(*nodes)
    ids: list[str] = []
    for name, node in zip(("a-1", "a-2", "a-3", "a-4", "a-5", "a-6"), PLACED, strict=True):
        world.append(api_worlds.pod_seen(name))
        ids = api_worlds.decide(world, api_worlds.pod(name))
        if node:
            world.append(api_worlds.pod_seen(name, node))
    return ids


PLACED = ("member-1", "host-1", "host-2", "host-3", "", "")
