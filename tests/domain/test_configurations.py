"""The configurations of a snapshot: each digest once, the latest 32."""

from app.domain import events, model, projections, snapshots
from tests.support import declared


def after(*applied: str) -> snapshots.Snapshot:
    happened = [
        events.ConfigurationApplied(model.Configuration(digest, ("WorkloadPolicy",))) for digest in applied
    ]
    return projections.project_all(snapshots.empty(schema=declared.SCHEMA), happened)


def digests(*applied: str) -> list[str]:
    return [one.digest for one in after(*applied).configurations]


def test_each_digest_is_held_once_in_the_order_of_the_log() -> None:
    assert digests("a", "b", "a", "c") == ["a", "b", "c"]


def test_of_many_configurations_the_latest_are_held() -> None:
    names = [f"{number:02}" for number in range(40)]
    assert digests(*names) == names[8:]


def test_a_configuration_is_found_by_its_digest() -> None:
    snapshot = after("a", "b")
    assert snapshot.configuration("b") == model.Configuration("b", ("WorkloadPolicy",))
    assert snapshot.configuration("c") is None
