"""The law of shadows: however its work is cut up and repeated, a shadow equals a replay of the same range."""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, cast
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import events, model, snapshots
from app.store import errors as store_errors
from app.store.decisions import decision_log, records
from app.store.log import readers
from app.store.state import fold_limit, followers, histories
from app.verbs.questions import replays
from app.verbs.questions.shadows import shadow_comparison, shadowed
from tests.support.campaigns import sizes
from tests.support.decisions import decided_histories, small_clusters

NAME = "other"
POLICY = f"{small_clusters.NAMESPACE}/{small_clusters.POLICY}"
WEIGHTS = {plugin.name: 3 for plugin in decided_histories.RULES.plugins}


@dataclasses.dataclass
class Store:
    """The log and the records in memory, as much of both as is visible by now."""

    history: decided_histories.History
    written: Sequence[tuple[records.Decision, frozenset[str]]]
    """In the order of their ids."""
    trimmed: int
    """States before this offset can no longer be reconstructed."""
    offset: int = 0
    visible: int = 0
    """Records."""
    failing: int = 0
    """The number of a read of candidates from now on that fails; 0 for none."""

    @property
    def snapshot(self) -> snapshots.Snapshot:
        return self.history.at(self.offset)

    def catch_up(self, timeout: float = 0.0) -> snapshots.Snapshot:
        return self.snapshot

    def appended_ms(self, offset: int) -> int | None:
        return next((one.at_ms for one in self.history.entries if one.offset == offset), None)

    def offset_at(self, milliseconds: int) -> int:
        first = self.history.base.offset
        return max([first, *(one.offset for one in self.history.entries if one.at_ms <= milliseconds)])

    def at(self, offset: int, *, attended: fold_limit.Check) -> snapshots.Snapshot:
        if offset < self.trimmed:
            raise store_errors.Trimmed(self.trimmed)
        return self.history.at(offset)

    def entries(self, since: int, until: int, *, limit: int) -> list[readers.Entry]:
        return [one for one in self.history.entries if since <= one.offset <= until][:limit]

    def since(self, identity: str, *, limit: int) -> list[records.Decision]:
        found = [one for one, _ in self.written[: self.visible] if _order(one.id) > _order(identity)]
        return found[:limit]

    def oldest(self) -> str:
        return self.written[0][0].id if self.visible else ""

    def has_removed(self) -> bool:
        return False

    def candidates(self, decision: records.Decision, snapshot: snapshots.Snapshot) -> frozenset[str]:
        assert snapshot.position == decision.position
        self.failing -= 1
        if not self.failing:
            raise store_errors.StoreAway("the connection was reset")
        return next(offered for one, offered in self.written if one.id == decision.id)


def _order(identity: str) -> tuple[int, ...]:
    return tuple(int(part) for part in identity.split("-"))


SCALED = st.builds(
    lambda domain, quota: {"op": "scalePolicy", "policy": POLICY, "allocations": {domain: quota}},
    st.sampled_from(["a", "b"]),
    st.sampled_from([0, 9, "+1", "-1"]),
)
SHADOWS = st.one_of(
    st.lists(SCALED, min_size=1, max_size=3).map(lambda found: {"overrides": tuple(found)}),
    st.just({"configuration": {"weights": WEIGHTS}}),
    st.just({}),
)


@st.composite
def stores(draw: st.DrawFn) -> Store:
    """A shadow is set at some moment; records are written late, some of errors, some before it."""
    asked: dict[str, Any] = draw(SHADOWS)
    until = draw(st.sampled_from(["", "12", "20"]))
    set_ = events.ShadowSet(model.Shadow(NAME, until=until, **asked))
    history = draw(decided_histories.histories([set_], least=4, most=8))
    written = []
    for number, (decision, offered) in enumerate(history.decisions):
        late = draw(st.integers(0, 3000))
        changed = {"error": "the store is away", "outcome": "error"} if draw(st.integers(0, 9)) == 7 else {}
        identity = f"{1000 * decision.position.offset + late}-{number}"
        written.append((msgspec.structs.replace(decision, id=identity, **changed), offered))
    written.sort(key=lambda one: _order(one[0].id))
    first, last = history.base.offset, history.base.offset + len(history.entries)
    return Store(history, written, trimmed=draw(st.integers(first, last)) if draw(st.booleans()) else 0)


def milliseconds(until: str) -> int:
    """The end of a shadow, which is an offset here: an entry is appended each second."""
    return 1000 * int(until)


def started(store: Store) -> shadow_comparison.ShadowComparison:
    """What compares, in a process that starts now."""
    return shadow_comparison.ShadowComparison(
        follower=cast(followers.Follower, store),
        past=cast(histories.Histories, store),
        decisions=cast(decision_log.DecisionLog, store),
        recorded=decided_histories.recorded(store.history),
        known=decided_histories.KNOWN,
        milliseconds=milliseconds,
        wall=lambda: 0.0,
    )


def replayed(store: Store, shadow: model.Shadow, since: int) -> replays.Replay:
    """The same range, each decision on the state of its own fold."""
    run = replays.Replay(
        lambda plugins: shadowed.hypothesis(shadow, plugins, decided_histories.KNOWN),
        decided_histories.recorded(store.history),
        scores=True,
        limit=1000,
    )
    for decision, offered in store.written:
        offset = decision.position.offset
        late = bool(shadow.until) and _order(decision.id)[0] > milliseconds(shadow.until)
        if offset < since or (late and offset > store.offset_at(milliseconds(shadow.until))):
            continue
        cause = run.incomparable(decision)
        if not cause and offset < store.trimmed:
            cause = "trimmed"
        if cause:
            run.skip(decision, cause)
        else:
            run.compare(decision, offered, store.history.at(offset))
    return run


@pytest.mark.scenario("WI-9")
@settings(max_examples=sizes.examples(80), deadline=None)
@given(store=stores(), data=st.data())
def test_a_shadow_equals_a_replay_of_its_range(store: Store, data: st.DataObject) -> None:
    """Compared whenever, with any part of the log and of the records visible, by any number of processes."""
    found = next(one for one in store.history.entries if isinstance(one.event, events.ShadowSet))
    assert isinstance(found.event, events.ShadowSet)
    since, end = found.offset, store.history.base.offset + len(store.history.entries)
    store.offset = store.history.base.offset
    compared = started(store)
    page, latest = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    with (
        mock.patch.object(shadow_comparison, "_PAGE", page),
        mock.patch.object(shadow_comparison, "LATEST", latest),
    ):
        for _ in range(data.draw(st.integers(0, 6))):
            store.offset = data.draw(st.integers(store.offset, end))
            reached = sum(one.position.offset <= store.offset for one, _ in store.written)
            store.visible = data.draw(st.integers(store.visible, max(store.visible, reached)))
            if data.draw(st.integers(0, 3)) == 0:
                compared = started(store)
            store.failing = data.draw(st.integers(0, 4))
            with contextlib.suppress(store_errors.StoreAway):
                compared.step()
        store.offset, store.visible = end, len(store.written)
        store.failing = 0
        while compared.step():
            pass
    report = compared.report(NAME, model.Position(store.history.base.position.incarnation, since))
    assert report is not None
    expected = replayed(store, found.event.shadow, since)
    assert (report.examined, report.classes, report.skipped) == (
        expected.examined,
        expected.classes,
        expected.skipped,
    )
    assert {what: dict(numbers) for what, numbers in expected.by.items()} == report.by
    by_age = sorted(expected.items, key=lambda one: _order(one.decision.id))
    assert (report.items, report.idle) == (by_age[-latest:][::-1], expected.idle)
