"""A compactor of another version than the recorder takes no checkpoint that lacks what is recorded."""

import dataclasses

from structlog import testing

from app import settings
from app.kube.watch import kinds
from app.store import stores
from tests.support import declared
from tests.support.monitoring import samples
from tests.support.workers.schema_versions import (
    FORMER,
    OF_NARROW,
    OF_WIDE,
    PRESENT,
    Narrow,
    Opened,
    Wide,
    record,
)
from workers.compactor import compactors

MARK = kinds.declared(OF_WIDE)
OPTIONS = settings.Compaction(events=5, keep=0, checkpoints=3)


def offsets(store: stores.Store) -> list[int]:
    return [header.offset for header in store.checkpoints.headers()]


def test_a_former_compactor_waits_while_the_recorder_keeps_a_field_that_it_lacks(opened: Opened) -> None:
    recorder, former = opened(PRESENT), opened(FORMER)
    compactor = compactors.Compactor(former, OPTIONS)
    record(recorder, kinds.declared(OF_NARROW), OF_NARROW.observed(Narrow("u", "shop", "web", per_node=2)))
    compactor.run_once()
    assert (offsets(recorder), recorder.log.oldest()) == ([7], 7), "as long as both keep the same"
    wide = Wide("u", "shop", "web", per_node=2, protected=True)
    record(recorder, MARK, OF_WIDE.observed(wide))
    before = samples.value("topolog_failed_compactions_total", step="form") or 0
    with testing.capture_logs() as lines:
        for _ in range(3):
            compactor.run_once()
    assert (offsets(recorder), recorder.log.oldest()) == ([7], 7)
    assert [line["step"] for line in lines if line["log_level"] == "warning"] == ["form"]
    assert "podlimits" in str(compactor.checks()["form"])
    assert samples.value("topolog_failed_compactions_total", step="form") == before + 3
    assert opened(PRESENT).follower.catch_up().get(OF_WIDE, "shop/web") == wide
    compactors.Compactor(opened(PRESENT), OPTIONS).run_once()
    assert offsets(recorder) == [14, 7]
    compactor.run_once()
    assert compactor.checks()["form"] is None, "no checkpoint is due"
    assert opened(PRESENT).follower.catch_up().get(OF_WIDE, "shop/web") == wide


def test_it_goes_on_once_the_recorder_keeps_the_same_again(opened: Opened) -> None:
    recorder, former = opened(PRESENT), opened(FORMER)
    compactor = compactors.Compactor(former, OPTIONS)
    record(recorder, MARK)
    compactor.run_once()
    assert offsets(recorder) == []
    record(recorder, kinds.declared(OF_NARROW))
    compactor.run_once()
    assert offsets(recorder) == [12]
    assert compactor.checks()["form"] is None


def test_what_existing_checkpoints_allow_is_trimmed_meanwhile(opened: Opened) -> None:
    recorder, former = opened(PRESENT), opened(FORMER)
    record(recorder, kinds.declared(OF_NARROW))
    compactors.Compactor(former, dataclasses.replace(OPTIONS, keep=100)).run_once()
    record(recorder, MARK)
    assert (offsets(recorder), recorder.log.oldest()) == ([6], 1)
    compactors.Compactor(former, OPTIONS).run_once()
    assert (offsets(recorder), recorder.log.oldest()) == ([6], 6)


def test_kinds_that_the_compactor_or_the_recorder_lacks_never_hold_it_up(opened: Opened) -> None:
    """The compactor keeps objects of an unknown kind as they are; a kind without a mark was not recorded."""
    recorder, other = opened(PRESENT), opened(declared.SCHEMA)
    record(recorder, MARK, OF_WIDE.observed(Wide("u", "shop", "web", per_node=2, protected=True)))
    compactors.Compactor(other, OPTIONS).run_once()
    assert offsets(recorder) == [7]
    found = opened(PRESENT).follower.catch_up().get(OF_WIDE, "shop/web")
    assert found is not None
    assert found.protected
