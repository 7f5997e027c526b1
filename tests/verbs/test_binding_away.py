"""bind while the store is away, or goes away at any step."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.domain import model, snapshots
from app.kube.writes import binding
from app.simulation.apiserver import faults
from app.store.log import batches
from app.store.server import embedded
from app.verbs import errors
from tests.support.extender import bind_plays, replicas
from tests.support.store import crash_safe_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[embedded.Server]:
    """A server for this test only, which keeps its data when it is killed."""
    made = crash_safe_server.CrashSafeServer(tmp_path, append_only=True)
    yield made
    made.stop()


@pytest.fixture
def shop(server: embedded.Server, cluster: str) -> Iterator[replicas.Cluster]:
    with replicas.cluster(server.url, cluster) as made:
        made.node("h1", role="host")
        made.node("h2", role="host")
        made.policy({"host": 1})
        made.see()
        yield made


@dataclasses.dataclass
class Before:
    """A binder that runs a hook before each Binding is sent."""

    binder: binding.Binder
    happens: Callable[[], None]

    def bind(
        self,
        namespace: str,
        name: str,
        uid: model.Uid,
        node: model.NodeName,
        *,
        carried: binding.Carried = binding.NOTHING,
        timeout: float = 3.0,
    ) -> binding.Outcome:
        self.happens()
        return self.binder.bind(namespace, name, uid, node, carried=carried, timeout=timeout)

    def get_pod(self, namespace: str, name: str, *, timeout: float = 2.0) -> binding.Current | None:
        return self.binder.get_pod(namespace, name, timeout=timeout)


def impatient(shop: replicas.Cluster) -> replicas.Replica:
    """A replica with short timeouts that has caught up with the log."""
    one = shop.replica(state=1.0, patience=1.0)
    one.snapshot()
    return one


def test_a_pod_with_quotas_is_not_bound_and_the_place_is_free_afterwards(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = impatient(shop), shop.pod("web-1")
    shop.see()
    one.snapshot()
    server.kill()
    error = one.bind(pod, "h1")
    assert "the store is away" in error
    assert "nothing was bound" in error
    assert shop.asked("/binding") == 0
    server.start()
    assert one.bind(pod, "h1") == ""
    assert (one.count("host"), shop.bound(pod)) == (1, "h1")


def test_a_pod_that_nothing_has_to_do_with_is_bound_unrecorded(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = impatient(shop), shop.pod("other-1", {"app": "other"})
    shop.see()
    one.snapshot()
    server.kill()
    assert one.bind(pod, "h1") == ""
    assert shop.bound(pod) == "h1"
    server.start()
    shop.see()
    assert one.snapshot().node_of(pod.uid) == "h1"


def test_a_pod_that_a_policy_counts_waits_even_without_the_policys_label(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = impatient(shop), shop.pod("web-1", {"app": "web"})
    shop.see()
    one.snapshot()
    server.kill()
    assert "the store is away" in one.bind(pod, "h1")
    assert shop.bound(pod) == ""


def test_a_pod_that_a_policy_selects_waits_on_a_node_that_is_not_known(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    """It may be in the policy's last domain; a pod that no policy selects is bound there."""
    one = impatient(shop)
    selected, other = shop.pod("web-1", {"app": "web"}), shop.pod("other-1", {"app": "other"})
    shop.see()
    one.snapshot()
    server.kill()
    shop.node("h3", role="host")
    assert "the store is away" in one.bind(selected, "h3")
    assert (shop.bound(selected), shop.asked("/binding")) == ("", 0)
    assert one.bind(other, "h3") == ""
    assert shop.bound(other) == "h3"


def test_a_pod_that_was_labelled_into_a_policy_waits_although_the_log_does_not_show_it(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    """filter lets it wait for the store; a bind after an earlier filter does so, too."""
    one, pod = impatient(shop), shop.pod("late", {"app": "other"})
    shop.see()
    one.snapshot()
    now = bind_plays.relabelled(shop, pod, replicas.WEB)
    one.offer(now)
    server.kill()
    with pytest.raises(errors.StateAway):
        one.filter_known(now)
    assert "the store is away" in one.bind(now, "h1")
    assert (shop.bound(pod), shop.asked("/binding")) == ("", 0)


def test_a_pod_that_the_log_shows_in_a_policy_waits_although_it_was_sent_without(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = impatient(shop), shop.pod("late", {"app": "other"})
    one.offer(pod)
    bind_plays.relabelled(shop, pod, replicas.WEB)
    shop.see()
    one.snapshot()
    server.kill()
    assert "the store is away" in one.bind(pod, "h1")
    assert (shop.bound(pod), shop.asked("/binding")) == ("", 0)


@pytest.mark.parametrize("labels", [replicas.WEB, {"version": "2"}], ids=["into the policy", "another"])
def test_an_unrecorded_binding_is_for_the_version_that_was_judged(
    shop: replicas.Cluster, server: embedded.Server, labels: dict[str, str]
) -> None:
    """A pod that is labelled after filter is judged again, as it is then."""
    one, pod = impatient(shop), shop.pod("late", {"app": "other"})
    shop.see()
    one.snapshot()
    one.offer(pod)
    bind_plays.relabelled(shop, pod, labels)
    server.kill()
    error = one.bind(pod, "h1")
    if labels == replicas.WEB:
        assert "the store is away" in error
        assert (shop.bound(pod), shop.asked("/binding")) == ("", 1)
    else:
        assert error == ""
        assert (shop.bound(pod), shop.asked("/binding")) == ("h1", 2)


def test_a_replica_that_never_had_the_policies_binds_nothing(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = shop.replica(state=1.0, patience=1.0), shop.pod("other-1", {"app": "other"})
    shop.see()
    server.kill()
    assert "the store is away" in one.bind(pod, "h1")
    assert (shop.bound(pod), shop.asked("/binding")) == ("", 0)


def test_with_the_api_server_away_too_the_answer_is_still_an_error(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = impatient(shop), shop.pod("other-1", {"app": "other"})
    server.kill()
    shop.api.stop()
    error = one.bind(pod, "h1")
    assert "the pod cannot be read from the API server" in error


class Leaving(replicas.Behind):
    """A state whose store goes away right after a read."""

    def __init__(self, replica: replicas.Replica, server: embedded.Server) -> None:
        super().__init__(replica, looks=0)
        self._server = server

    def catch_up(self, *, timeout: float = 2.0) -> snapshots.Snapshot:
        found = super().catch_up(timeout=timeout)
        self._server.kill()
        return found


def test_it_goes_between_reading_and_placing(shop: replicas.Cluster, server: embedded.Server) -> None:
    one, pod = impatient(shop), shop.pod("web-1")
    shop.see()
    one.context = replicas.with_state(one, Leaving(one, server))
    assert "the store is away" in one.bind(pod, "h1")
    assert shop.asked("/binding") == 0
    server.start()
    again = shop.replica()
    assert again.count("host") == 0
    assert again.bind(pod, "h1") == ""


def test_it_goes_after_the_placement_and_the_binding_succeeds(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = impatient(shop), shop.pod("web-1")
    shop.see()
    one.context = dataclasses.replace(one.context, binder=Before(one.context.binder, server.kill))
    assert one.bind(pod, "h1") == ""
    assert shop.bound(pod) == "h1"
    server.start()
    assert shop.replica().count("host") == 1


def test_it_goes_after_the_placement_and_the_binding_is_refused(
    shop: replicas.Cluster, server: embedded.Server
) -> None:
    one, pod = impatient(shop), shop.pod("web-1")
    shop.see()
    shop.api.faults.add(faults.FaultKind.FAIL, faults.calls("POST", "/binding"), status=403)
    one.context = dataclasses.replace(one.context, binder=Before(one.context.binder, server.kill))
    assert "the API server refused the binding" in one.bind(pod, "h1")
    server.start()
    # The placement could not be released: it stays counted, which is the safe side, until it is settled.
    other = shop.replica()
    assert other.count("host") == 1
    assert other.settled() == 1
    assert other.count("host") == 0
    assert other.bind(pod, "h2") == ""


def test_a_pod_is_bound_while_another_thread_waits_for_the_store(
    shop: replicas.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, pod = shop.replica(), shop.pod("web-1")
    shop.see()
    append, reading, bound = one.store.log.append, threading.Event(), threading.Event()
    waited: list[bool] = []

    def read() -> None:
        with one.store.follower._reads.held():
            reading.set()
            waited.append(bound.wait(2.0))

    reader = threading.Thread(target=read)

    def appended(
        batch: batches.Batch, guard: batches.Guard, *, timeout: float | None = None
    ) -> batches.Appended:
        found = append(batch, guard, timeout=timeout)
        reader.start()
        assert reading.wait(5.0)
        return found

    monkeypatch.setattr(one.store.log, "append", appended)
    assert one.bind(pod, "h1") == ""
    bound.set()
    reader.join()
    assert (waited, shop.bound(pod)) == ([True], "h1")
    monkeypatch.undo()
    assert one.count("host") == 1
