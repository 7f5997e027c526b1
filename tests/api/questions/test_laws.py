"""Laws of pictures and questions over generated histories, with gangs, quotas and decisions among them."""

import contextlib
import re
import secrets
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from app.domain import events
from app.store.server import embedded
from tests.support import declared
from tests.support.campaigns import sizes
from tests.support.extender import api_worlds, crowded_worlds, random_histories
from tests.support.extender.error_shape import Json, body
from tests.support.extender.questions import post

some = settings(max_examples=sizes.examples(6), deadline=None)
seeds, lengths = st.integers(0, 2**32), st.integers(5, 60)
SCALED = [{"op": "scalePolicy", "policy": "shop/spread", "allocations": {"host": 4, "role-0": 1}}]
_SPENT = re.compile(rb'"spentMs": ?[0-9]+')


@contextlib.contextmanager
def lived(server: embedded.Server, seed: int, length: int) -> Iterator[api_worlds.World]:
    """A crowded world, a random history behind it, and decisions before, within and after it."""
    chosen = crowded_worlds.configured()
    with api_worlds.processes(server, f"law{secrets.token_hex(4)}", chosen) as start:
        made = api_worlds.world(start(), chosen)
        made.append(*crowded_worlds.history())
        api_worlds.decide(made, api_worlds.pod("waiting"))
        for part in parts(seed, length):
            made.append(*part)
            api_worlds.decide(made, api_worlds.pod("waiting"))
        yield made


def parts(seed: int, length: int) -> tuple[list[events.AnyEvent], list[events.AnyEvent]]:
    """Both halves of a random history, behind the lists that it begins with."""
    happened = random_histories.history(seed, length)[len(declared.SCHEMA.names) :]
    return happened[: length // 2], happened[length // 2 :]


def get(world: api_worlds.World, path: str) -> TestResponse:
    response = world.client.get(f"/apis/v1/{path}")
    assert response.status_code == 200, (path, response.text)
    return response


def shown(picture: Json, values: str) -> dict[str, str]:
    """Node -> label of its class; nodes that do not exist are left out."""
    labels = {one["letter"]: one["label"] for one in picture["classes"]}
    return {
        name: labels[letter] for name, letter in zip(picture["nodes"], values, strict=True) if letter != "-"
    }


@some
@given(seed=seeds, length=lengths)
def test_a_frame_equals_the_map_at_its_offset(store_server: embedded.Server, seed: int, length: int) -> None:
    with lived(store_server, seed, length) as world:
        decisions = [one.id for one in world.store.decisions.latest()]
        colours = ("state", "resource:cpu", "quota:shop/spread", f"decision:{decisions[len(decisions) // 2]}")
        head = world.store.follower.catch_up().offset
        for colour in colours:
            found = body(get(world, f"frames?from=0&to={head}&count=12&color={colour}"))
            values = list(found["frames"][0]["values"])
            for frame in found["frames"]:
                for index, letter in frame["changes"]:
                    values[index] = letter
                picture = body(get(world, f"map?at={frame['offset']}&color={colour}"))
                assert shown(found, "".join(values)) == shown(picture, picture["values"])


def read(at: int, decision: str) -> list[str]:
    """Paths of pictures, lives and facets at an offset."""
    return [
        f"map?at={at}&color=decision:{decision}",
        f"map?at={at}&color=quota:shop/spread",
        f"frames?from=0&to={at}&count=9",
        f"series?of=gang:shop/gang-0&from=0&to={at}",
        f"moments?from=0&to={at}",
        f"pods/shop/waiting/life?at={at}",
        f"pods/shop/waiting/explain?at={at}",
        f"decisions/facets?at={at}",
        f"pending/reasons?at={at}",
        f"diff?from=3&to={at}&namespace=shop",
    ]


def asked(at: int) -> list[tuple[str, dict[str, object]]]:
    """Questions at an offset: about a pod, its preemption, a gang and all that waits."""
    situation = {"at": str(at), "overrides": SCALED}
    found: list[tuple[str, dict[str, object]]] = [
        ("simulate", {"pod": "shop/waiting", "situation": situation, "preemption": True}),
        ("simulate", {"pending": {}, "situation": situation}),
        ("simulate", {"group": "shop/gang-0", "situation": situation}),
        ("fit", {"pod": "shop/waiting", "situation": {"at": str(at)}, "candidates": "all"}),
        ("diff", {"from": {"at": "3"}, "to": situation}),
        ("replay", {"to": str(at), "overrides": SCALED}),
        ("replay", {"to": str(at), "overrides": SCALED, "mode": "chain"}),
        ("bisect", {"fits": "shop/waiting", "to": str(at)}),
    ]
    # Enough on a busy machine: an answer that is cut by its budget is not a function of the question.
    return [
        (question, wanted if question == "diff" else {**wanted, "budget": 20}) for question, wanted in found
    ]


@some
@given(seed=seeds, length=lengths)
def test_the_same_question_has_the_same_bytes_whatever_happens_later(
    store_server: embedded.Server, seed: int, length: int
) -> None:
    with lived(store_server, seed, length) as world:
        at = world.store.follower.catch_up().offset
        (decision,) = [one.id for one in world.store.decisions.latest(limit=1)]
        before = [get(world, path).data for path in read(at, decision)]
        answers = [post(world, question, wanted) for question, wanted in asked(at)]
        assert [one.status_code for one in answers] == [200] * len(answers), [one.text for one in answers]
        for part in parts(seed + 1, 20):
            world.append(*part)
        api_worlds.decide(world, api_worlds.pod("waiting"))
        world.now[0] += 1000
        world.store.histories._cache.clear()
        again = api_worlds.world(world.store, world.registry)
        for path, first in zip(read(at, decision), before, strict=True):
            assert get(again, path).data == first, path
        for (question, wanted), one in zip(asked(at), answers, strict=True):
            second = post(again, question, wanted)
            assert _SPENT.sub(b"", second.data) == _SPENT.sub(b"", one.data), question
