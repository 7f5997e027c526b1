"""The laws of the pictures: each against the plain lists of the API at the same offset."""

import json
import random
from typing import Any

import pytest

from tests.support.extender import api_worlds, error_shape
from tests.support.extender.error_shape import body, items

ZONE, RACK = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
COLOURS = ("state", "pods", "resource:cpu", "quota:shop/spread")


def ask(world: api_worlds.World, path: str) -> error_shape.Json:
    """The JSON at a path below /apis/v1."""
    response = world.client.get(f"/apis/v1/{path}")
    assert response.status_code == 200, response.text
    return body(response)


def classes(picture: dict[str, Any], values: str) -> dict[str, str]:
    """Node -> label of its class; nodes that do not exist are left out."""
    labels = {one["letter"]: one["label"] for one in picture["classes"]}
    return {
        name: labels[letter] for name, letter in zip(picture["nodes"], values, strict=True) if letter != "-"
    }


def state(node: dict[str, Any]) -> str:
    """The class of a row of /nodes, by the rule on the legend; its quantities are whole numbers here."""
    if not node["ready"]:
        return "not ready"
    if node["unschedulable"]:
        return "cordoned"
    if not node["pods"]:
        return "no pods"
    units = {"m": 0.001, "Gi": 2.0**30, "Mi": 2.0**20, "Ki": 2.0**10}

    def amount(text: str) -> float:
        unit = next((unit for unit in units if text.endswith(unit)), "")
        return float(text.removesuffix(unit)) * units.get(unit, 1)

    share = max(
        amount(node["requested"].get(key, "0")) / amount(node["allocatable"][key])
        for key in ("cpu", "memory", "pods")
    )
    return "full" if share >= 0.95 else "half in use or more" if share >= 0.5 else "less than half in use"


def test_the_map_has_every_node_once_in_its_class(past: api_worlds.World, head: int) -> None:
    seen = set()
    for offset in random.Random(1).sample(range(10, head), 40):
        picture = ask(past, f"map?at={offset}")
        expected = {
            node["name"]: state(node) for node in items(past.client.get(f"/apis/v1/nodes?at={offset}"))
        }
        assert classes(picture, picture["values"]) == expected
        assert len(picture["nodes"]) == len(expected)
        assert {one["label"]: one["count"] for one in picture["classes"] if one["count"]} == {
            label: list(expected.values()).count(label) for label in set(expected.values())
        }
        seen |= set(expected.values())
    assert len(seen) >= 5


def test_a_domain_of_the_map_is_the_run_of_its_nodes(past: api_worlds.World, head: int) -> None:
    for offset in range(20, head, 37):
        picture = ask(past, f"map?at={offset}")
        assert picture["levels"] == [ZONE, RACK] or not picture["domains"]
        labels = {
            node["name"]: node["labels"] for node in items(past.client.get(f"/apis/v1/nodes?at={offset}"))
        }
        paths: list[tuple[str, ...]] = []
        runs: dict[tuple[str, ...], list[str]] = {}
        for value, parent, first, count in picture["domains"]:
            path = (*(paths[parent] if parent >= 0 else ()), value)
            paths.append(path)
            runs[path] = picture["nodes"][first : first + count]
        expected: dict[tuple[str, ...], list[str]] = {}
        for name in sorted(labels):
            zone, rack = labels[name].get(ZONE, ""), labels[name].get(RACK, "")
            expected.setdefault((zone,), []).append(name)
            expected.setdefault((zone, rack), []).append(name)
        assert {path: sorted(names) for path, names in runs.items()} == expected


@pytest.mark.parametrize("colour", COLOURS)
def test_a_frame_equals_the_map_at_its_offset(past: api_worlds.World, head: int, colour: str) -> None:
    found = ask(past, f"frames?from=0&to={head}&count=60&color={colour}")
    assert [one["offset"] for one in found["frames"]][:: len(found["frames"]) - 1] == [0, head]
    assert len(found["frames"]) == 60
    values = list(found["frames"][0]["values"])
    for frame in found["frames"]:
        for index, letter in frame["changes"]:
            values[index] = letter
        offset = frame["offset"]
        picture = ask(past, f"map?at={offset}&color={colour}")
        assert classes(found, "".join(values)) == classes(picture, picture["values"])
        cluster = ask(past, f"cluster?at={offset}")
        assert frame["at"] == cluster["metadata"]["asOf"]
        assert (frame["nodes"], frame["ready"]) == (cluster["nodes"]["total"], cluster["nodes"]["ready"])
        assert (frame["pods"], frame["waiting"], frame["inFlight"]) == tuple(
            cluster["pods"][name] for name in ("onNodes", "waiting", "inFlight")
        )


def test_the_figures_of_the_cluster_are_the_sums_of_its_lists(past: api_worlds.World, head: int) -> None:
    for offset in random.Random(2).sample(range(10, head), 30):
        cluster = ask(past, f"cluster?at={offset}")
        nodes = items(past.client.get(f"/apis/v1/nodes?at={offset}"))
        assert cluster["nodes"] == {
            "total": len(nodes),
            "ready": sum(node["ready"] and not node["unschedulable"] for node in nodes),
            "cordoned": sum(node["unschedulable"] for node in nodes),
            "notReady": sum(not node["ready"] for node in nodes),
        }
        assert cluster["pods"]["onNodes"] == sum(node["pods"] for node in nodes)
        waiting = items(past.client.get(f"/apis/v1/pending?at={offset}&limit=1000"))
        assert cluster["pods"]["waiting"] == len(waiting)
        topology = items(past.client.get(f"/apis/v1/topology?at={offset}&levels=role"))
        assert {(one["of"], one["value"], one["placed"], one["desired"]) for one in cluster["quotas"]} == {
            (one["policy"], domain["value"], one["placed"], one["desired"])
            for domain in topology
            for one in domain["counts"]
        }


def value(points: list[list[int]], offset: int) -> int | None:
    """The value of a line after the event of the offset."""
    return next((each[2] for each in reversed(points) if each[0] <= offset), None)


def test_a_series_has_the_value_of_the_cluster_after_every_event(past: api_worlds.World, head: int) -> None:
    lines = ask(past, f"series?of=quota:shop/spread&from=0&to={head}&points=2000")["lines"]
    waiting = ask(past, f"series?of=waiting&from=0&to={head}&points=2000")["lines"][0]["points"]
    assert waiting[0][0] == 0
    for offset in random.Random(3).sample(range(30, head), 40):
        cluster = ask(past, f"cluster?at={offset}")
        assert value(waiting, offset) == cluster["pods"]["waiting"]
        expected: dict[str, int | None] = {}
        for quota in cluster["quotas"]:
            name = f"{quota['key']}={quota['value']}"
            expected |= {f"{name} placed": quota["placed"], f"{name} desired": quota["desired"]}
        found = {
            line["name"]: value(line["points"], offset)
            for line in lines
            if line["points"][0][0] <= offset and not line["name"].endswith(" in flight")
        }
        assert {name: count for name, count in found.items() if count is not None} == {
            name: count for name, count in expected.items() if count is not None
        }


def test_what_a_quota_counts_is_bound_or_in_flight_after_every_event(
    past: api_worlds.World, head: int
) -> None:
    found = ask(past, f"series?of=quota:shop/spread&from=0&to={head}&points=2000")["lines"]
    lines = {line["name"]: line["points"] for line in found}
    seen = set()
    for offset in range(head + 1):
        snapshot = past.store.histories.at(offset)
        roles = {name: node.labels["role"] for name, node in snapshot.nodes.items()}
        bound = [roles.get(pod.node) for pod in snapshot.pods.values() if pod.node]
        flying = [roles.get(one.node) for one in snapshot.placements.values()]
        for role in ("host", "member"):
            placed = value(lines[f"role={role} placed"], offset)
            # There is none before the first placement, and none of a domain without nodes.
            in_flight = value(lines[f"role={role} in flight"], offset) or 0
            if placed is None:
                assert in_flight == 0
                continue
            assert in_flight == flying.count(role), offset
            assert placed == bound.count(role) + in_flight, offset
            seen.add((bool(placed - in_flight), bool(in_flight)))
    assert len(seen) == 4


def test_a_thinned_series_keeps_its_extremes(past: api_worlds.World, head: int) -> None:
    whole = ask(past, f"series?of=waiting&from=0&to={head}&points=2000")["lines"][0]["points"]
    thinned = ask(past, f"series?of=waiting&from=0&to={head}&points=16")["lines"][0]["points"]
    assert len(thinned) < len(whole) / 2
    assert all(point in whole for point in thinned)
    for pick in (min, max):
        assert pick(point[2] for point in thinned) == pick(point[2] for point in whole)
    assert (thinned[0], thinned[-1]) == (whole[0], whole[-1])


@pytest.mark.parametrize("buckets", [1, 7, 400])
def test_the_time_axis_counts_every_event_once(past: api_worlds.World, head: int, buckets: int) -> None:
    found = ask(past, f"moments?from=0&to={head}&buckets={buckets}")
    assert len(found["buckets"]) <= buckets
    offsets = [at for one in found["buckets"] for at in range(one["first"], one["last"] + 1)]
    assert offsets == list(range(1, head + 1))
    listed = items(past.client.get("/apis/v1/events?limit=1000"))
    for one in found["buckets"]:
        part = [event["type"] for event in listed if one["first"] <= event["offset"] <= one["last"]]
        assert one["types"] == {name: part.count(name) for name in set(part)}
    assert [one["offset"] for one in found["marks"] if one["text"] == "policy:shop/spread changed"] == [
        event["offset"] for event in listed if event["object"] == "policy:shop/spread"
    ]


PATHS = (
    "cluster",
    "map?color=quota:shop/spread",
    "frames?from=5",
    "series?of=waiting&from=5",
    "moments?from=5",
    "pending/reasons",
)


@pytest.mark.parametrize("path", PATHS)
def test_the_same_question_at_a_resolved_position_has_the_same_bytes(
    past: api_worlds.World, head: int, path: str
) -> None:
    moment = "to" if path.startswith(("frames", "series", "moments")) else "at"
    at = f"{path}{'&' if '?' in path else '?'}{moment}={head - 30}"
    first = past.client.get(f"/apis/v1/{at}")
    past.now[0] += 1000
    past.store.histories._cache.clear()
    again = api_worlds.world(past.store).client.get(f"/apis/v1/{at}")
    assert first.status_code == 200
    assert (first.data, first.headers["ETag"]) == (again.data, again.headers["ETag"])
    assert first.headers["X-Topolog-Position"].endswith(f"/{head - 30}")
    unchanged = past.client.get(f"/apis/v1/{at}", headers={"If-None-Match": first.headers["ETag"]})
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    other = past.client.get(f"/apis/v1/{at.replace(str(head - 30), str(head - 90))}")
    assert other.headers["ETag"] != first.headers["ETag"]


def test_a_known_layout_is_not_sent_again(past: api_worlds.World, head: int) -> None:
    picture = ask(past, f"map?at={head}")
    known = ask(past, f"map?at={head}&layout={picture['layout']}")
    assert (known["nodes"], known["domains"]) == (None, None)
    assert known["values"] == picture["values"]
    assert json.dumps(ask(past, f"map?at={head}&layout=other")) == json.dumps(picture)


@pytest.mark.parametrize("path", ["moments?buckets=1", "frames?count=2", "series?of=waiting"])
def test_an_answer_about_a_window_stays_the_same_when_the_log_is_trimmed(
    world: api_worlds.World, path: str
) -> None:
    present = world.store.follower.catch_up()
    last = present.offset

    def ask(asked: api_worlds.World) -> tuple[bytes, str]:
        response = asked.client.get(f"/apis/v1/{path}&from={last}&to={last}")
        assert response.status_code == 200
        return response.data, response.headers["X-Topolog-Oldest"]

    body, oldest = ask(world)
    assert oldest == "0"
    world.store.checkpoints.write(present, world.store.histories.appended_ms(last) or 0)
    world.store.client.delete(world.store.keys.readers)
    world.store.log.trim(last, last, reader_timeout=60)
    # The first has the answer kept, and the second computes it.
    for asked in (world, api_worlds.world(world.store)):
        assert ask(asked) == (body, str(world.store.histories.reachable()))
    assert world.store.histories.reachable() == last
