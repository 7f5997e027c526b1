"""A simulation at the position of a recorded filter, with its candidates, equals its explanation."""

import random
import secrets
from collections.abc import Iterator

import pytest

from app.store.decisions import records
from app.store.server import embedded
from tests.support.campaigns import sizes
from tests.support.extender import api_worlds, random_histories
from tests.support.extender.error_shape import Json, body
from tests.support.extender.questions import ask, manifest

LISTS, EVERY = 40, 3
"""Events before the first decision, so that there are nodes, and from one to the next."""
OF_A_WORLD = 25
"""Filters of one cluster."""
OF_THE_RECORD = ("source", "decision", "attempt", "attempts", "attemptsComplete")
"""Fields about the decision record: an answer that is computed has none."""


def live(world: api_worlds.World, filters: int, seed: int) -> None:
    """A random past with so many filters, of pods of the cluster and of others, with some of the nodes."""
    happened = random_histories.history(seed, LISTS + EVERY * filters)
    chosen = random.Random(seed)
    start = len(happened) - EVERY * filters
    world.append(*happened[:start])
    for number in range(filters):
        begin = start + EVERY * number
        world.append(*happened[begin : begin + EVERY])
        snapshot = world.store.follower.catch_up()
        waiting = sorted(uid for uid in snapshot.waiting)
        pod = snapshot.pod(chosen.choice(waiting)) if waiting and chosen.random() < 0.7 else None
        nodes = sorted(snapshot.nodes)
        offered = nodes if chosen.random() < 0.5 else chosen.sample(nodes, chosen.randint(1, len(nodes)))
        labels = {"rl_job_group": "job"} if number % 2 else {}
        api_worlds.decide(world, pod or api_worlds.pod(f"new-{number}", **labels), offered=offered)


def filters_of(world: api_worlds.World) -> Iterator[records.Decision]:
    """All recorded filters, the newest first."""
    before: str | None = ""
    while before is not None:
        wanted = records.DecisionQuery(verb="filter")
        found = world.store.decisions.search(wanted, limit=500, before=before or None)
        yield from found.records
        before = found.behind


def compare(world: api_worlds.World, record: records.Decision) -> None:
    """The explanation of the record and the simulation have the same fields with the same values."""
    at = str(record.position)
    path = f"pods/{record.pod.key}/explain?decision={record.id}&at={at}&limit=100"
    explained: Json = body(world.client.get(f"/apis/v1/{path}"))
    known = world.store.histories.at(record.position.offset).pod(record.pod.uid)
    pod = manifest(record.pod.name)
    pod["metadata"] |= {"labels": dict(record.pod.labels), "uid": record.pod.uid}
    answer = ask(
        world,
        "simulate",
        pod=pod if known is None else known.key,
        situation={"at": at},
        candidates=body(world.client.get(f"/apis/v1/decisions/{record.id}"))["nodes"],
        top=100,
    )["explanation"]
    assert explained["decision"]["id"] == record.id
    assert (answer["source"], answer["decision"]) == ("computed", None)
    for field in OF_THE_RECORD:
        explained.pop(field), answer.pop(field, None)
    assert answer == explained


def compare_all(server: embedded.Server, filters: int, seed: int) -> None:
    """All filters of a cluster of this seed, some of which refuse the pod."""
    with api_worlds.processes(server, f"filters{secrets.token_hex(4)}") as start:
        world = api_worlds.world(start())
        live(world, filters, seed)
        found = list(filters_of(world))
        assert len(found) == filters
        for record in found:
            compare(world, record)


@pytest.mark.scenario("WI-1")
def test_a_simulation_with_the_candidates_of_a_filter_is_its_explanation(
    store_server: embedded.Server,
) -> None:
    compare_all(store_server, OF_A_WORLD, 1)


@pytest.mark.campaign
@pytest.mark.scenario("WI-1")
def test_simulations_of_very_many_filters_are_their_explanations(store_server: embedded.Server) -> None:
    worlds = -(-sizes.of("FILTERS", 1_000) // OF_A_WORLD)
    for seed in range(sizes.first_seed(), sizes.first_seed() + worlds):
        print("seed", seed)
        compare_all(store_server, OF_A_WORLD, seed)
