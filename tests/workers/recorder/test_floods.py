"""Unusual load: a flood of changes, and a list of very many pods.

The recorder is a process of its own, so that its memory can be measured. Nothing is coalesced on its way
into the log: a pod that was pending, bound, running and gone within a second has an event for each.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from app.domain import events
from app.kube.watch import kinds
from app.simulation import populations
from app.simulation.apiserver import apiservers, faults, objects
from app.store import stores
from app.store.server import embedded
from tests.support import child_processes, declared
from tests.support.campaigns import sizes
from tests.support.kube import large_populations
from tests.support.workers import recordings

ROOT = pathlib.Path(__file__).parents[3]
MEGABYTE = 1024 * 1024
LIMIT = 1800.0
LIFE = ("created", "labelled", "bound", "running", "succeeded")
"""What happens to a pod; then it is deleted, and another one is created under its name."""

FLOODS = [
    pytest.param(100, 0.5, 10_000, id="small"),
    pytest.param(
        5_000,
        float(sizes.of("FLOOD_SECONDS", 60)),
        sizes.of("FLOOD_RATE", 10_000),
        id="campaign",
        marks=[pytest.mark.campaign, pytest.mark.timeout(3600)],
    ),
]
LISTS = [
    pytest.param(2_000, id="small"),
    pytest.param(
        sizes.of("RELISTED_PODS", 100_000),
        id="campaign",
        marks=[pytest.mark.campaign, pytest.mark.timeout(3600)],
    ),
]


class Process:
    """A recorder."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def memory(self, what: str = "VmRSS") -> int:
        """Bytes: VmRSS now, VmHWM at most so far."""
        status = pathlib.Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(rf"{what}:\s+(\d+) kB", status)
        assert found is not None
        return int(found.group(1)) * 1024

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


@contextlib.contextmanager
def recording(
    server: apiservers.ApiServer, store_server: embedded.Server, cluster: str, directory: pathlib.Path
) -> Iterator[Process]:
    kubeconfig = directory / "kubeconfig"
    spelled = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    kubeconfig.write_text(json.dumps(spelled))
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TOPOLOG_")},
        "PYTHONPATH": str(ROOT),
        "TOPOLOG_CLUSTER": cluster,
        "TOPOLOG_STORE_URL": store_server.url,
        "TOPOLOG_STORE_REQUIRE_DURABLE": "false",
        "TOPOLOG_KUBE_KUBECONFIG": str(kubeconfig),
        "TOPOLOG_SERVER_BIND": "127.0.0.1",
        "TOPOLOG_SERVER_HEALTH_PORT": str(child_processes.free_port()),
    }
    with (directory / "recorder.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "workers", "record"], env=environ, stdout=log, stderr=log
        )
        try:
            yield Process(process)
        finally:
            process.kill()
            process.wait()


def eventually_recorded(store: stores.Store, process: Process, until: int) -> None:
    """Wait until the recorder has appended that many events."""
    end = time.monotonic() + LIMIT
    while store.log.head().offset < until:
        assert process.alive
        assert time.monotonic() < end, f"only {store.log.head().offset} of {until} events"
        time.sleep(0.05)


def appended(store: stores.Store) -> Iterator[events.AnyEvent]:
    """Every event of the log."""
    for read in store.log.read_all(0):
        yield from read.events


def tally(store: stores.Store) -> dict[str, int]:
    """How many events of each type there are."""
    counted: dict[str, int] = {}
    for event in appended(store):
        name = type(event).__name__
        counted[name] = counted.get(name, 0) + 1
    return counted


class Flood:
    """Pods that pass through their whole life, at a given rate or as fast as possible."""

    def __init__(self, server: apiservers.ApiServer, pods: int) -> None:
        self._objects = server.objects
        self._keys = [("ns", f"p{number}") for number in range(pods)]
        self._steps = [0] * pods
        self.changes = 0
        self.lives: dict[str, list[str]] = {}
        """uid -> what happened to it, in order."""

    def pour(self, seconds: float, rate: int) -> None:
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            if self.changes < passed * rate:
                self._step(self.changes % len(self._keys))
                self.changes += 1
            else:
                time.sleep(0.001)

    def _step(self, number: int) -> None:
        key, step = self._keys[number], self._steps[number] % (len(LIFE) + 1)
        self._steps[number] += 1
        if step == 0:
            self._objects.create("pods", populations.pod(*key))
        if step == len(LIFE):
            uid = self._objects.get("pods", key)["metadata"]["uid"]
            self._objects.remove("pods", key)
            self.lives[uid].append("gone")
            return
        if step:
            self._objects.change("pods", key, lambda made: _changed(made, LIFE[step]))
        uid = self._objects.get("pods", key)["metadata"]["uid"]
        self.lives.setdefault(uid, []).append(LIFE[step])


def _changed(made: objects.Json, step: str) -> objects.Json:
    if step == "labelled":
        made["metadata"]["labels"] = {"step": step}
    elif step == "bound":
        made["spec"]["nodeName"] = "n"
    else:
        made["status"]["phase"] = step.capitalize()
    return made


def recorded_lives(store: stores.Store) -> dict[str, list[str]]:
    """The same, by the log."""
    found: dict[str, list[str]] = {}
    for event in appended(store):
        if isinstance(event, events.PodGone):
            found[event.uid].append("gone")
        elif isinstance(event, events.PodSeen):
            pod = event.pod
            if pod.phase != "Pending":
                step = pod.phase.lower()
            else:
                step = "bound" if pod.node else "labelled" if pod.labels else "created"
            found.setdefault(pod.uid, []).append(step)
    return found


@pytest.mark.parametrize(("pods", "seconds", "rate"), FLOODS)
def test_a_flood_of_changes_is_recorded_without_loss_and_in_bounded_memory(
    store: stores.Store,
    store_server: embedded.Server,
    server: apiservers.ApiServer,
    cluster: str,
    tmp_path: pathlib.Path,
    *,
    pods: int,
    seconds: float,
    rate: int,
) -> None:
    server.objects.create("nodes", populations.node("n"))
    with recording(server, store_server, cluster, tmp_path) as process:
        recordings.eventually(
            lambda: tally(store).get("Relisted", 0) == len(kinds.watched(declared.SCHEMA)),
            "everything is listed",
        )
        first, before = store.log.head().offset, process.memory()
        flood = Flood(server, pods)
        poured = threading.Thread(target=flood.pour, args=(seconds, rate))
        poured.start()
        begun = time.monotonic()
        while poured.is_alive():
            # Who reads along is not held up.
            store.follower.catch_up()
            poured.join(0.1)
        behind = first + flood.changes - store.log.head().offset
        eventually_recorded(store, process, first + flood.changes)
        took = time.monotonic() - begun
        assert recorded_lives(store) == flood.lives
        assert store.follower.catch_up().offset == first + flood.changes
        grown = process.memory("VmHWM") - before
        # What may wait (8,192 objects), the pods themselves, and what the allocator keeps.
        assert grown < 150 * MEGABYTE + 20_000 * pods
    print(
        f"{flood.changes} changes in {seconds:.0f} s, {behind} behind then, recorded after {took:.1f} s;"
        f" the recorder grew by {grown / MEGABYTE:.0f} MiB"
    )


@pytest.mark.parametrize("count", LISTS)
def test_a_list_of_very_many_pods_takes_little_more_memory_than_the_pods(
    store: stores.Store,
    store_server: embedded.Server,
    server: apiservers.ApiServer,
    cluster: str,
    tmp_path: pathlib.Path,
    *,
    count: int,
) -> None:
    server.objects.load("nodes", large_populations.nodes(count // 20))
    server.objects.load("pods", large_populations.pods(count, on=count // 20))
    with recording(server, store_server, cluster, tmp_path) as process:
        # Every pod and node, a list of each kind, and who was elected.
        first = count + count // 20 + len(kinds.watched(declared.SCHEMA)) + 1
        eventually_recorded(store, process, first)
        assert tally(store)["Relisted"] == len(kinds.watched(declared.SCHEMA))
        listed = process.memory("VmHWM")
        held = process.memory()
        # The watch cannot be resumed, and a tenth of the pods ended unobserved.
        stalled = server.faults.add(faults.FaultKind.STALL, faults.watches("pods"))
        server.disconnect()
        recordings.eventually(lambda: stalled.struck == 1, "the pods are watched again")
        gone = list(_some(server, count // 10))
        for key in gone:
            server.objects.remove("pods", key)
        server.objects.compact("pods")
        stalled.released.set()
        eventually_recorded(store, process, first + len(gone) + 1)
        found = tally(store)
        # Only what had changed was appended.
        assert (found["PodSeen"], found["PodGone"], found["Relisted"]) == (
            count,
            len(gone),
            len(kinds.watched(declared.SCHEMA)) + 1,
        )
        again = process.memory("VmHWM")
        # A part of the list, what may wait of it, and the identities of all of it.
        assert listed - held < 100 * MEGABYTE + 1_000 * count
        assert again - held < 100 * MEGABYTE + 1_000 * count
    assert len(store.follower.catch_up().pods) == count - len(gone)
    print(
        f"{count} pods: {held / MEGABYTE:.0f} MiB held, at most {listed / MEGABYTE:.0f} MiB at the first"
        f" list and {again / MEGABYTE:.0f} MiB at the second"
    )


def _some(server: apiservers.ApiServer, count: int) -> Iterator[objects.Key]:
    for made in server.objects.all("pods")[:count]:
        yield made["metadata"]["namespace"], made["metadata"]["name"]
