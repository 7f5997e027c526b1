"""The store goes away or a replica is killed: pods under hard rules wait, and no answer is wrong."""

import os
import pathlib
import signal
import threading
from collections.abc import Iterator
from concurrent import futures

import pytest

from tests.support import polling
from tests.support.extender import stages
from tests.support.store import materialised


@pytest.fixture
def pods(stage: stages.Stage, own: str) -> dict[str, stages.Json]:
    """A pod under a hard quota, one under a soft one, one of a job, and one of no plugin; two nodes."""
    stage.node(f"{own}-1", role="host")
    stage.node(f"{own}-2", role="member")
    stage.policy(own, "hard", stages.spec(host=1, member=0))
    stage.policy(own, "soft", {**stages.spec(host=1, member=0), "allocationType": "Preferred"})
    web = {"app": "web"}
    made = {
        "hard": stage.pod(own, "hard", {**web, stages.POLICY_LABEL: "hard"}),
        "soft": stage.pod(own, "soft", {**web, stages.POLICY_LABEL: "soft"}),
        "job": stage.pod(own, "job", {"rl-job-group": own}),
        "free": stage.pod(own, "free"),
    }
    snapshot = stage.seen()
    # Both replicas have seen it all, and judge by their last state.
    viewers = [stage.caller("viewer", replica=replica) for replica in (0, 1)]
    polling.eventually(
        lambda: all(
            int(viewer.ask("GET", "/apis/v1/flags").headers["X-Topolog-Position"].split("/")[1])
            >= snapshot.offset
            for viewer in viewers
        ),
        "both replicas are level",
    )
    return made


@pytest.fixture
def no_store(stage: stages.Stage) -> Iterator[None]:
    """The store is killed; it is started again at the end unless the test did."""
    stage.server.kill()
    yield
    if stage.server.pid is None:
        stage.server.start()
    for one in stage.replicas:
        one.ready()
    stage.seen()


def passes(caller: stages.Caller, pod: stages.Json, names: list[str]) -> None:
    reply = caller.post("/filter", stages.request(pod, *names)).json
    assert (reply["Error"], sorted(reply["NodeNames"])) == ("", names)


def waits(caller: stages.Caller, pod: stages.Json, names: list[str]) -> None:
    reply = caller.post("/filter", stages.request(pod, *names)).json
    assert "the store is away" in reply["Error"]
    assert "WorkloadPolicy" in reply["Error"]
    assert reply["NodeNames"] is None


def scores_nothing(caller: stages.Caller, pod: stages.Json, names: list[str]) -> None:
    reply = caller.post("/prioritize", stages.request(pod, *names))
    found = {one["Host"]: one["Score"] for one in reply.items}
    assert (reply.status, found) == (200, dict.fromkeys(names, 0))


def evicts_no_pods(caller: stages.Caller, pod: stages.Json, names: list[str]) -> None:
    victims = {names[0]: {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}
    reply = caller.post("/preempt", {"Pod": pod, "NodeNameToMetaVictims": victims})
    assert (reply.status, reply.json) == (200, {"NodeNameToMetaVictims": {}})


def binds_nothing(caller: stages.Caller, pod: stages.Json, names: list[str]) -> None:
    error = caller.post("/bind", stages.bind(pod, names[0])).json["Error"]
    assert "the store is away" in error
    assert "nothing was bound" in error


def test_without_the_store(
    stage: stages.Stage, own: str, pods: dict[str, stages.Json], no_store: None
) -> None:
    names = [f"{own}-1", f"{own}-2"]
    checks = [
        *((passes, kind) for kind in ("soft", "job", "free")),
        (waits, "hard"),
        *((scores_nothing, kind) for kind in pods),
        (evicts_no_pods, "hard"),
        *((binds_nothing, kind) for kind in ("hard", "soft", "job")),
    ]
    with futures.ThreadPoolExecutor(2 * len(checks)) as pool:
        # All at once: each waits for the store, and none for another.
        begun = [
            pool.submit(check, stage.caller(replica=replica), pods[kind], names)
            for replica in (0, 1)
            for check, kind in checks
        ]
        for each in begun:
            each.result()
    assert [stage.bound(pods[kind]) for kind in ("hard", "soft", "job")] == ["", "", ""]
    one = stage.replicas[0]
    assert "the store is away" in one.line(pod=f"{own}/hard", verb="filter", outcome="error")["error"]
    status, text = one.readiness()
    assert status == 503
    assert "[-] store" in text
    assert stages.fetched(f"http://127.0.0.1:{one.health}/livez")[0] == 200
    assert stage.caller("viewer").ask("GET", "/apis/v1/nodes").status == 503

    stage.server.start()
    for one in stage.replicas:
        one.ready()
    stage.seen()
    caller = stage.caller()
    reply = caller.post("/filter", stages.request(pods["hard"], *names)).json
    assert (reply["Error"], reply["NodeNames"]) == ("", [names[0]])
    assert caller.post("/bind", stages.bind(pods["hard"], names[0])).json == {"Error": ""}


@pytest.mark.scenario("RL-10")
def test_a_replica_is_killed_during_a_stream_of_calls(stage: stages.Stage, own: str) -> None:
    names = [f"{own}-{number}" for number in range(4)]
    for number, name in enumerate(names):
        stage.node(name, role="host" if number < 2 else "member")
    stage.policy(own, "hard", stages.spec(host=2, member=1))
    labels = {"app": "web", stages.POLICY_LABEL: "hard", "rl-job-group": own}
    waiting_pods = [stage.pod(own, f"web-{number}", labels) for number in range(6)]
    sibling = stage.pod(own, "sibling", {"rl-job-group": own}, nodeName=names[0])
    stage.seen()
    doomed = stage.extend("extender-doomed")
    doomed.ready()
    replica = stage.replicas.index(doomed)
    asked = stages.request(waiting_pods[0], *names)
    right = [stage.caller().post(path, asked).raw for path in ("/filter", "/prioritize")]
    assert sibling["metadata"]["name"].encode() not in right[0]

    replies: list[tuple[str, stages.Json | list[stages.Json]]] = []
    lost: list[str] = []
    enough, killed = threading.Semaphore(0), threading.Event()

    def stream(at: int) -> None:
        caller = stage.caller(replica=at)
        while not killed.is_set():
            for path in ("/filter", "/prioritize"):
                try:
                    reply = caller.post(path, asked)
                except OSError as problem:
                    lost.append(f"{at} {problem!r}")
                    return
                replies.append((path, normal(reply)))
                enough.release()

    threads = [threading.Thread(target=stream, args=(at,)) for at in (0, 1, replica, replica)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        assert enough.acquire(timeout=10)
    doomed.process.kill()
    for _ in range(200):
        assert enough.acquire(timeout=10)
    killed.set()
    for thread in threads:
        thread.join()
    stage.replicas.remove(doomed)

    expected = {path: normal(stage.caller().post(path, asked)) for path in ("/filter", "/prioritize")}
    assert all(answer == expected[path] for path, answer in replies)
    assert {text.split()[0] for text in lost} <= {str(replica)}
    # The others go on, and between them the quota holds.
    callers = [stage.caller(replica=at) for at in (0, 1)]
    errors = [
        callers[number % 2].post("/bind", stages.bind(pod, names[number % 4])).json["Error"]
        for number, pod in enumerate(waiting_pods)
    ]
    assert errors.count("") == 3
    assert all("no capacity" in error for error in errors if error)
    assert sum(stage.bound(pod) != "" for pod in waiting_pods) == 3


def normal(reply: stages.Answer) -> stages.Json | list[stages.Json]:
    """The content of a reply, without the order in which it lists nodes."""
    assert reply.status == 200
    if reply.raw.startswith(b"["):
        return sorted(reply.items, key=lambda one: str(one["Host"]))
    found = reply.json
    found["NodeNames"].sort()
    return found


def test_the_store_returns_with_its_data(stage: stages.Stage, own: str, pods: dict[str, stages.Json]) -> None:
    caller, node = stage.caller(), f"{own}-1"
    # While the disk is slow the server would answer before it has written.
    stage.store.client.config_set("appendfsync", "always")
    assert caller.post("/bind", stages.bind(pods["hard"], node)).json == {"Error": ""}
    before = stage.seen()
    stage.server.kill()
    stage.server.start()
    for one in stage.replicas:
        one.ready()
    rival = stage.pod(own, "rival", {"app": "web", stages.POLICY_LABEL: "hard"})
    after = stage.seen()
    assert after.position.incarnation == before.position.incarnation
    assert after.offset > before.offset
    reply = caller.post("/filter", stages.request(rival, node)).json
    assert list(reply["FailedAndUnresolvableNodes"]) == [node]
    assert dict(after.counts) == materialised.counts(stage.store)


def test_an_extender_whose_appends_are_refused_is_not_ready_and_gives_the_reason(
    stage: stages.Stage, own: str, pods: dict[str, stages.Json]
) -> None:
    one, node = stage.replicas[0], f"{own}-1"
    one.ready()
    used = int(stage.store.client.info("memory")["used_memory"])
    stage.store.client.config_set("maxmemory", str(used // 2))
    try:
        # On a busy machine an attempt may time out before one is refused: another reason, for a moment.
        reason = "[-] appends: appends are refused: the store refuses work for now: "
        found: list[tuple[int, str]] = []

        def reasoned() -> bool:
            found.append(one.readiness())
            return reason in found[-1][1]

        def bound() -> str:
            return str(stage.caller().post("/bind", stages.bind(pods["hard"], node)).json["Error"])

        polling.eventually(reasoned, "it gives the reason")
        status, body = found[-1]
        assert status == 503
        assert "used memory > 'maxmemory'" in body
        # Nothing is bound unrecorded, and what only reads goes on.
        polling.eventually(lambda: "maxmemory" in bound(), "a bind is refused with the reason")
        assert stage.bound(pods["hard"]) == ""
        passes(stage.caller(), pods["hard"], [node])
    finally:
        stage.store.client.config_set("maxmemory", "0")
    one.ready()
    assert stage.caller().post("/bind", stages.bind(pods["hard"], node)).json == {"Error": ""}


def test_an_extender_that_starts_without_the_store_waits_for_it(stage: stages.Stage, no_store: None) -> None:
    late = stage.extend("late")
    try:
        assert late.line(event="waiting for the store")["level"] == "warning"
        status, body = late.readiness()
        assert (status, "[-] store: the store is away" in body) == (503, True)
        assert stages.fetched(f"http://127.0.0.1:{late.health}/livez")[0] == 200
        stage.server.start()
        late.ready()
    finally:
        late.process.stop()
        stage.replicas.remove(late)


def test_a_worker_that_dies_while_the_store_is_away_is_replaced(stage: stages.Stage, no_store: None) -> None:
    one = stage.replicas[0]
    children = pathlib.Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children")
    for worker in map(int, children.read_text().split()):
        os.kill(worker, signal.SIGKILL)
    one.line(event="waiting for the store")
    stage.server.start()
    one.ready()
    assert one.process.running


def test_an_extender_that_waits_for_the_store_ends_by_a_signal(stage: stages.Stage, no_store: None) -> None:
    never = stage.extend("never")
    try:
        never.line(event="waiting for the store")
    finally:
        never.process.stop()
        stage.replicas.remove(never)
    assert never.process.code == 0
