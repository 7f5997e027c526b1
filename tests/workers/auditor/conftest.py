"""A recorded cluster with an auditor."""

from collections.abc import Callable

import pytest

from app.store import stores
from tests.support.workers import audits, clusters, recordings
from workers.recorder import log_writer


@pytest.fixture
def world(
    cluster_side: clusters.Cluster,
    recorded: Callable[[], recordings.Recording],
    again: Callable[..., stores.Store],
    monkeypatch: pytest.MonkeyPatch,
) -> audits.World:
    monkeypatch.setattr(log_writer, "RESUME_VERSIONS_EVERY", 0.02)
    return audits.watched(cluster_side, recorded(), again)
