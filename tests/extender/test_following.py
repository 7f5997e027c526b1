"""How often the processes of an extender read the log."""

from unittest import mock

from app import bootstrap, settings
from app.store import stores
from app.store.server import embedded
from app.store.state import followers


def test_the_introspection_process_reads_several_events_at_once(
    store_server: embedded.Server, store: stores.Store, cluster: str
) -> None:
    chosen = settings.load(None, {"TOPOLOG_STORE_URL": store_server.url, "TOPOLOG_CLUSTER": cluster})
    process = bootstrap.Following(chosen)
    with mock.patch.object(followers.Follower, "start", autospec=True) as started:
        process.start()
    process.stop()
    assert started.call_args.kwargs["gather"] > bootstrap.Service.gather == 0
