"""A process that starts while the store is away."""

import pathlib

import pytest

from app import exit_codes, settings
from app.store import errors, stores
from app.store.log import incarnations
from app.store.server import embedded
from tests.support import child_processes, commands, declared
from tests.support.workers import compactions


def test_a_process_that_never_reaches_the_store_ends_so_that_it_starts_with_the_current_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "PATIENCE_SECONDS", 0.2)
    url = f"redis://127.0.0.1:{child_processes.free_port()}"
    reported: list[str] = []
    with pytest.raises(
        errors.StoreAway,
        match=r"refused; not usable for 0 s.*this process ends: its next start reads store\.url",
    ):
        stores.await_store(
            settings.Store(url=url), cluster="default", schema=declared.SCHEMA, notify=reported.append
        )
    assert reported, "it waited before"


@pytest.mark.parametrize("command", ["extender", "view"])
def test_a_server_that_never_uses_the_store_ends_before_it_forks(
    tmp_path: pathlib.Path, command: str
) -> None:
    ends = (
        "from app import cli; from app.store import stores; stores.PATIENCE_SECONDS = 0.2;"
        f" import sys; sys.argv[1:] = ['{command}']; cli.main()"
    )
    port, health, store = (str(child_processes.free_port()) for _ in range(3))
    done = commands.run(
        ["-c", ends],
        environ={
            "TOPOLOG_STORE_URL": f"redis://127.0.0.1:{store}",
            "TOPOLOG_SERVER_INSECURE": "true",
            "TOPOLOG_SERVER_BIND": "127.0.0.1",
            "TOPOLOG_SERVER_PORT": port,
            "TOPOLOG_SERVER_HEALTH_PORT": health,
            "TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(tmp_path),
        },
    )
    assert done.returncode == exit_codes.STORE, done.stderr
    assert "this process ends: its next start reads store.url again" in done.stderr


def test_an_incarnation_that_no_event_began_is_waited_for_without_a_limit(
    store: stores.Store, store_server: embedded.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PATIENCE_SECONDS", 0.0)
    past = compactions.History(store)
    past.go_on(3)
    store.log.report_loss(incarnations.Watermark(store.log.incarnation, 5, 1))
    past.begin_incarnation(5)
    here = store.log.state().incarnation
    store.client.hset(store.keys.meta, "incarnation", "X")
    reported: list[str] = []

    def corrected(problem: str) -> None:
        reported.append(problem)
        store.client.hset(store.keys.meta, "incarnation", here)

    stores.await_store(
        settings.Store(url=store_server.url),
        cluster=store.keys.cluster,
        schema=declared.SCHEMA,
        notify=corrected,
    ).close()
    (problem,) = reported
    assert "which no event of the log began" in problem
