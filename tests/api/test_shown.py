"""What plugins show appears in the views of the core: fields of pods, counts of domains, remarks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import pytest

from app.domain import model, snapshots
from app.framework import cycles, registry, views
from app.store import stores
from tests.support.decisions import fake_plugins
from tests.support.extender import api_worlds


class Seat(msgspec.Struct, frozen=True):
    """A seat of the pod."""

    number: Annotated[int, msgspec.Meta(description="Its number.")]


@dataclass(frozen=True, slots=True)
class Seating(fake_plugins.Idle):
    """Gives every pod two seats and counts seven in each domain of a label."""

    name: str = "Seating"
    tables: ClassVar[tuple[views.Table, ...]] = ()

    def shown(self) -> views.Shown:
        return views.Shown(
            pod_fields=(views.PodField("seats", "The seats of the pod.", Seat, self._seats),),
            domain_counts=lambda _, __: {"role": self._counts},
            remarks=self._remarks,
        )

    @staticmethod
    def _seats(snapshot: snapshots.Snapshot, pod: model.Pod) -> Iterator[Seat]:
        return (Seat(number) for number in (1, 2))

    @staticmethod
    def _counts(value: str) -> Iterable[views.DomainCount]:
        return (views.DomainCount(f"hall/{value}", 7, None),)

    @staticmethod
    def _remarks(cycle: cycles.Cycle) -> Iterable[str]:
        return (f"{cycle.pod.name} may sit down",)


@pytest.fixture
def world(store: stores.Store) -> api_worlds.World:
    made = api_worlds.world(store, registry.Registry([Seating()]))
    made.append(*api_worlds.history())
    return made


def get(world: api_worlds.World, path: str) -> dict[str, Any]:
    reply = world.client.get(path)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.get_json()
    return found


def test_a_pod_has_the_fields_of_the_plugins(world: api_worlds.World) -> None:
    found = get(world, "/apis/v1/pods/shop/web-1")
    assert found["seats"] == [{"number": 1}, {"number": 2}]
    assert "policies" not in found, "the plugin that shows them is not enabled"


def test_the_document_describes_the_fields_of_the_plugins(world: api_worlds.World) -> None:
    document = get(world, "/openapi.json")
    detail = document["components"]["schemas"]["PodDetail"]["properties"]["seats"]
    assert detail == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Seat"},
        "description": "The seats of the pod.",
    }
    seat = document["components"]["schemas"]["Seat"]
    assert seat["properties"]["number"] == {"type": "integer", "description": "Its number."}
    assert seat["description"] == "A seat of the pod."


def test_domains_have_the_counts_of_the_plugins(world: api_worlds.World) -> None:
    found = get(world, "/apis/v1/topology?levels=role")["items"]
    assert found
    for domain in found:
        assert domain["counts"] == [{"policy": f"hall/{domain['value']}", "placed": 7, "desired": None}]


def test_a_label_key_that_a_plugin_counts_by_is_shown_as_a_tree(world: api_worlds.World) -> None:
    assert "role" in {domain["key"] for domain in get(world, "/apis/v1/topology")["items"]}


def test_remarks_are_explained(world: api_worlds.World) -> None:
    path = "/apis/v1/pods/shop/web-3/explain"
    assert get(world, path)["remarks"] == [{"plugin": "Seating", "text": "web-3 may sit down"}]
    page = world.client.get(f"{path}?format=markdown").text
    assert "## Remarks\n\n- Seating: web-3 may sit down\n" in page
