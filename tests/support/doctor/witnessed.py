"""An installation whose log is a witness: a store, an extender, a recorder, and played kube-schedulers.

The calls are HTTP with the certificate of the scheduler, as kube-scheduler sends them; the pods are those of
the simulated API server, which has all that the doctor reads.
"""

import contextlib
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from app.serving.tls import certificate_issuer
from app.simulation.apiserver import apiservers
from app.store.server import embedded
from tests.support import declared, polling
from tests.support.doctor import clusters, runs
from tests.support.extender import stages

Json = dict[str, Any]
NODES = ("a", "b", "c")
"""Each with its name as the label ``role``."""
LABELS = {stages.POLICY_LABEL: "spread", "app": "web"}


class Witnessed:
    """The installation, and the cluster around it."""

    def __init__(self, stage: stages.Stage, cluster: clusters.Cluster, recorder: stages.Extender) -> None:
        self.stage = stage
        self.cluster = cluster
        self._recorder = recorder
        self.caller = stage.caller()
        self.calls = 0
        """That were made so far."""

    def doctor(self, *arguments: str) -> runs.Run:
        """``topolog doctor scheduler``, with the extender named, after all that was done is recorded."""
        self.settled()
        tls = self.stage.folder / "tls"
        files = {"cert": "viewer.crt", "key": "viewer.key", "ca": "ca.crt"}
        named = [part for option, file in files.items() for part in (f"--{option}", str(tls / file))]
        server = f"https://127.0.0.1:{self.stage.replicas[0].port}"
        return runs.doctor("scheduler", *arguments, "--server", server, *named, environ=self.cluster.environ)

    def settled(self) -> None:
        """Wait until every decision is recorded, and the extender shows what the API server has."""
        snapshot, viewer = self.stage.seen(), self.stage.caller("viewer")

        def recorded() -> bool:
            found = viewer.ask("GET", "/apis/v1/decisions?limit=1000").json
            offset = int(found["metadata"]["position"].rpartition("/")[2])
            return len(found["items"]) >= self.calls and offset >= snapshot.offset

        polling.eventually(recorded, "the decisions are recorded")

    @contextlib.contextmanager
    def behind(self) -> Iterator[None]:
        """The log gets nothing that happens meanwhile: the recorder stands still."""
        self.stage.seen()
        self._recorder.process.freeze()
        try:
            yield
        finally:
            self._recorder.process.thaw()


class Scheduler:
    """A kube-scheduler of one name, played."""

    def __init__(self, installed: Witnessed, name: str) -> None:
        self.name = name
        self._installed = installed

    @property
    def subject(self) -> str:
        """Of its results, if no configuration of it is read."""
        return f"calls of {self.name}"

    def pod(self, name: str, **spec: object) -> Json:
        """A pod that waits for it, under the policy; the log has it."""
        made = self.new(name, **spec)
        self._installed.stage.seen()
        return made

    def new(self, name: str, **spec: object) -> Json:
        """The same; the log may not have it yet."""
        stage = self._installed.stage
        return stage.pod("shop", f"{self.name}-{name}", LABELS, schedulerName=self.name, **spec)

    def remove(self, pod: Json) -> None:
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._installed.stage.api.objects.remove("pods", key)

    def filter(self, pod: Json, nodes: Sequence[str] = NODES, *, whole: bool = False) -> Json:
        call = stages.request(pod, *nodes)
        if whole:
            items = [self._installed.stage.api.objects.get("nodes", ("", name)) for name in nodes]
            call = {"Pod": pod, "Nodes": {"items": items}, "NodeNames": None}
        found: Json = self._answered("filter", call).json
        return found

    def prioritize(self, pod: Json, nodes: Sequence[str] = NODES) -> None:
        self._answered("prioritize", stages.request(pod, *nodes))

    def bind(self, pod: Json, node: str) -> str:
        """The error of the reply; empty if it is bound."""
        return str(self._answered("bind", stages.bind(pod, node)).json.get("Error") or "")

    def bind_itself(self, pod: Json, node: str) -> None:
        """Without the extender, as kube-scheduler's own plugin binds."""
        key = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        self._installed.stage.api.objects.change(
            "pods", key, lambda one: {**one, "spec": {**one["spec"], "nodeName": node}}
        )

    def place(self, name: str, node: str) -> Json:
        """A pod, with all calls about it."""
        pod = self.pod(name)
        assert not self.filter(pod).get("Error")
        self.prioritize(pod)
        assert self.bind(pod, node) == ""
        return pod

    def found(self, run: runs.Run) -> dict[str, str]:
        """Check -> verdict of its calls."""
        return {one["id"]: one["verdict"] for one in run.checks if one["subject"] == self.subject}

    def seen(self, run: runs.Run, check: str) -> str:
        (found,) = [one["seen"] for one in run.of(check) if one["subject"] == self.subject]
        return str(found)

    def _answered(self, verb: str, call: Json) -> stages.Answer:
        reply = self._installed.caller.post(f"/{verb}", call)
        assert reply.status == 200, reply
        self._installed.calls += 1
        return reply


def next_second() -> None:
    """Wait until a pod that is created now is younger than every call so far: it has whole seconds."""
    begun = int(time.time())
    polling.eventually(lambda: int(time.time()) > begun, "the next second")


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[Witnessed]:
    """An extender that is ready, three nodes, and a policy with capacity on the first two: ``c`` is full."""
    (folder / "store").mkdir(parents=True)
    server = embedded.Server(folder / "store", append_only=True)
    try:
        with apiservers.ApiServer(declared.SCHEMA, further=clusters.FURTHER) as api:
            cluster = clusters.Cluster(api, folder)
            cluster.add("namespaces", {"metadata": {"name": "kube-system"}})
            cluster.serve_gangs(False)
            stage = stages.Stage(folder, api, server)
            try:
                for name in NODES:
                    stage.node(name, role=name)
                stage.policy("shop", "spread", stages.spec(a=500, b=500, c=1))
                stage.pod("shop", "there", LABELS, nodeName="c")
                files = certificate_issuer.issue(folder / "named", [clusters.SERVICE]).files
                pems = (files[name].read_bytes() for name in ("server.crt", "server.key", "ca.crt"))
                cluster.add_certificate(*pems)
                extender = stage.extend("extender")
                recorder = stage.worker("record")
                extender.ready()
                yield Witnessed(stage, cluster, recorder)
            finally:
                stage.close()
    finally:
        server.stop()
