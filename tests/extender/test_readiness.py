"""The extenders are not ready while the store's views are known to be wrong; /readyz shows what to run."""

import os
from collections.abc import Iterator

import pytest

from app.store import keys
from tests.support import child_processes, extender_processes, polling
from tests.support.extender import stages


@pytest.fixture
def auditor(stage: stages.Stage) -> Iterator[child_processes.Process]:
    """An auditor that repairs nothing."""
    environ = stage.environment(TOPOLOG_AUDIT_REPAIR="false", TOPOLOG_AUDIT_INTERVAL="0.1")
    process = child_processes.Process(
        "auditor",
        [extender_processes.TOPOLOG, "audit"],
        log=stage.folder / "auditor.log",
        env=os.environ | environ,
    )
    process.start()
    health = f"http://127.0.0.1:{environ['TOPOLOG_SERVER_HEALTH_PORT']}/readyz"
    polling.ready(process, lambda: stages.fetched(health)[0] == 200)
    yield process
    process.stop()


def become(stage: stages.Stage, status: int, *texts: str) -> None:
    """Both replicas answer their probe like this."""
    polling.eventually(
        lambda: all(
            found == status and all(text in shown for text in texts)
            for found, shown in (one.readiness() for one in stage.replicas)
        ),
        f"readiness is {status} with {texts}",
        within=30,
        seen=lambda: [one.readiness() for one in stage.replicas],
    )


def test_no_extender_is_ready_while_the_views_are_known_to_be_wrong(
    stage: stages.Stage, own: str, auditor: child_processes.Process
) -> None:
    stage.node(own)
    stage.seen()
    client, names = stage.store.client, stage.store.keys
    saved = client.dump(names.versions)
    assert isinstance(saved, bytes)
    client.delete(names.versions)
    become(stage, 503, "[-] views: a stored version differs from the log", "audit.repair is off")
    client.restore(names.versions, 0, saved)
    become(stage, 200)
    assert len([line for line in auditor.log.read_text().splitlines() if '"drift detected"' in line]) <= 20
    # A later version may have written the other field, so it makes no extender unready.
    client.hset(names.meta, mapping={"notes": "x", keys.BUNDLE: "x"})
    become(stage, 503, "[-] views: a field of meta", f"run HDEL {names.meta} {keys.BUNDLE}")
    client.hdel(names.meta, keys.BUNDLE)
    become(stage, 200)
