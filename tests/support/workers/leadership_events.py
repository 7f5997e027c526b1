"""What the log has of leaders, restarts and losses."""

from app.domain import events
from app.store.log import logs
from tests.support.store import writers


def leaders(log: logs.Log) -> list[events.RecorderElected]:
    return [one.event for one in log.read(0) if isinstance(one.event, events.RecorderElected)]


def rewinds(log: logs.Log) -> list[tuple[int, events.StoreRewound]]:
    return [(one.offset, one.event) for one in log.read(0) if isinstance(one.event, events.StoreRewound)]


def check_epochs(log: logs.Log) -> None:
    """Along the log no epoch is lower than one before it."""
    epochs = [epoch for _, epoch in writers.epochs(log) if epoch]
    assert epochs == sorted(epochs, key=lambda epoch: (len(epoch), epoch))


def restarts(log: logs.Log) -> list[events.StoreRestarted]:
    return [one.event for one in log.read(0) if isinstance(one.event, events.StoreRestarted)]
