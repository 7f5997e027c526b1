"""The life of one pod on a node: volumes, init containers, probes, restarts, its end."""

import base64
import concurrent.futures
import dataclasses
import datetime
import http
import pathlib
import threading
import time
from collections.abc import Mapping

import urllib3

from tests.support.e2e import api_client
from tests.support.e2e.nodes import containers, networks, probes, services, volumes

NETWORKS = "networks"
"""The folder with a link to the network of each pod: namespace/name."""
LONGEST_PAUSE = 5.0
"""Seconds between restarts; a kubelet's grow to five minutes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """What all pods share."""

    api: api_client.Api
    network: networks.Network
    services: services.Services
    images: Mapping[str, containers.Image]
    folder: pathlib.Path
    api_server: str  # its address inside the network


class Container:
    """One container of a pod, restarted whenever it ends, unless the pod never restarts any."""

    def __init__(self, spec: api_client.Object) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.process: containers.Process | None = None
        self.prober: probes.Prober | None = None
        self.restarts = 0
        self.waiting = "ContainerCreating"
        self.again_at = 0.0
        self.started_at = ""
        self.unhealthy = ""
        self.code = 0

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.code is None

    @property
    def ready(self) -> bool:
        """Whether it runs and its readiness probe succeeds."""
        return self.running and self.prober is not None and self.prober.ready

    def status(self) -> api_client.Object:
        """Its part of the pod's status."""
        if self.running:
            state: api_client.Object = {"running": {"startedAt": self.started_at}}
        elif self.waiting:
            state = {"waiting": {"reason": self.waiting}}
        else:
            state = {"terminated": {"exitCode": self.code, "reason": "Error" if self.code else "Completed"}}
        return {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": self.spec["image"],
            "restartCount": self.restarts,
            "ready": self.ready or "terminated" in state,
            "started": self.prober is not None and self.prober.started,
            "state": state,
        }


class Pod:
    """A pod that was bound to a node; its own thread runs it."""

    def __init__(self, node: Node, pod: api_client.Object) -> None:
        self._node = node
        self._pod = pod
        self.meta = pod["metadata"]
        self._spec = pod["spec"]
        self._folder = node.folder / self.meta["uid"]
        self._volumes = volumes.Volumes(node.api, pod, self._folder / "volumes")
        self.containers = [Container(each) for each in self._spec["containers"]]
        self.init = [Container(each) for each in self._spec.get("initContainers", [])]
        self._changed = threading.Event()
        self._deleted = threading.Event()
        self._abandoned = threading.Event()
        self._network = ""
        self.address = ""
        self._reported: api_client.Object = {}
        self._since: dict[str, tuple[str, str]] = {}
        self._thread = threading.Thread(target=self._run, name=self.meta["name"], daemon=True)

    def start(self) -> None:
        """Run it."""
        (self._folder / "volumes").mkdir(parents=True)
        self._thread.start()

    def delete(self) -> None:
        """End it gracefully, and delete the object."""
        self._deleted.set()
        self._changed.set()

    def abandon(self) -> None:
        """Kill it; the object stays."""
        self._abandoned.set()
        self.delete()
        self._thread.join()

    def _run(self) -> None:
        self._network, self.address = self._node.network.add_pod()
        link = self._node.folder / NETWORKS / self.meta["namespace"] / self.meta["name"]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)  # of a former pod of a StatefulSet
        link.symlink_to(networks.FOLDER / self._network)
        try:
            initialized = all(self._run_to_completion(each) for each in self.init)
            while initialized and not self._deleted.is_set():
                for each in self.containers:
                    self._keep(each)
                self._report()
                self._changed.wait(0.1)
                self._changed.clear()
            self._end()
        finally:
            self._node.network.delete_pod(self._network)
            self._volumes.remove()

    # Containers

    def _run_to_completion(self, one: Container) -> bool:
        """Run an init container until it succeeds; False if the pod is deleted before."""
        while not self._deleted.is_set():
            if one.process is not None and one.process.code == 0:
                # It may have failed before.
                one.waiting, one.code = "", 0
                return True
            self._keep(one)
            self._report()
            self._changed.wait(0.05)
        return False

    def _keep(self, one: Container) -> None:
        """Start a container if it does not run and its pause has passed; end it if it is unhealthy."""
        if one.unhealthy and one.process is not None:
            one.process.stop(self._grace)
            one.unhealthy = ""
        if one.running or time.monotonic() < one.again_at:
            return
        if one.process is not None and one.again_at <= 0:
            one.code = one.process.code or 0
            if self._spec.get("restartPolicy") == "Never" and one in self.containers:
                one.waiting = ""
                return
            if one.prober is not None:
                one.prober.stop()
            one.restarts += 1
            one.waiting = "CrashLoopBackOff"
            one.again_at = time.monotonic() + min(0.5 * 2**one.restarts, LONGEST_PAUSE)
            return
        try:
            self._start(one)
            one.again_at = 0.0
        except volumes.Waiting:
            one.waiting = "CreateContainerConfigError"
            one.again_at = time.monotonic() + 0.5

    def _start(self, one: Container) -> None:
        security = self._spec["securityContext"] | one.spec["securityContext"]
        assert security["runAsNonRoot"] is True
        image = self._node.images[one.spec["image"].rpartition("/")[2].partition(":")[0]]
        mounts = [
            containers.Mount(source, each["mountPath"], each.get("readOnly", False) or read_only)
            for each in one.spec.get("volumeMounts", [])
            for source, read_only in [self._volumes.folder(each["name"])]
        ]
        known = self._node.services.update(self.meta["namespace"])
        one.process = containers.Process(
            network=self._network,
            host=self.meta["name"],
            image=image,
            command=[*one.spec.get("command", image.entrypoint), *one.spec.get("args", [])],
            env=self._environment(one),
            mounts=mounts,
            hosts=known | {self.meta["name"]: self.address},
            security=security,
            folder=self._folder / f"{one.name}-{one.restarts}",
            log=self._node.folder / f"{self.meta['name']}.{one.name}.log",
        )
        one.started_at = _now()

        def failed(reason: str) -> None:
            one.unhealthy = reason
            self._changed.set()

        one.prober = probes.Prober(one.spec, self.address, self._node.network, failed=failed)

    def _environment(self, one: Container) -> dict[str, str]:
        env = {"KUBERNETES_SERVICE_HOST": self._node.api_server, "KUBERNETES_SERVICE_PORT": "443"}
        for source in one.spec.get("envFrom", []):
            env |= self._volumes.object("configmaps", source["configMapRef"]["name"])["data"]
        for each in one.spec.get("env", []):
            if "valueFrom" in each:
                reference = each["valueFrom"]["secretKeyRef"]
                data = self._volumes.object("secrets", reference["name"])["data"]
                env[each["name"]] = base64.b64decode(data[reference["key"]]).decode()
            else:
                env[each["name"]] = each["value"]
        return env

    @property
    def _grace(self) -> float:
        return float(self._spec.get("terminationGracePeriodSeconds", 30))

    # Its end

    def _end(self) -> None:
        every = [*self.init, *self.containers]
        for each in every:
            if each.prober is not None:
                each.prober.stop()
        with concurrent.futures.ThreadPoolExecutor(len(every)) as hands:
            list(hands.map(self._end_container, every))
        path = f"{_path(self.meta)}"
        while not self._abandoned.is_set():
            try:
                self._node.api.delete(path, grace=0, uid=self.meta["uid"])
                return
            except (urllib3.exceptions.HTTPError, api_client.ApiError, OSError):
                self._abandoned.wait(0.2)

    def _end_container(self, one: Container) -> None:
        if one.process is None:
            return
        if self._abandoned.is_set():
            one.process.kill()
            return
        before = one.spec.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if one.running and not self._abandoned.wait(before):
            one.process.stop(self._grace - before)
        one.process.kill()

    # Its status

    def _report(self) -> None:
        status = self._status()
        if status == self._reported:
            return
        body = {"metadata": {"uid": self.meta["uid"]}, "status": status}
        try:
            self._node.api.patch(f"{_path(self.meta)}/status", body, content=api_client.STRATEGIC)
            self._reported = status
        except api_client.ApiError as error:
            if error.status in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT):
                self._deleted.set()
        except (urllib3.exceptions.HTTPError, OSError):
            return  # reported in the next round

    def _phase(self) -> str:
        """Of a pod whose containers were started."""
        if self._spec.get("restartPolicy") != "Never" or any(each.running for each in self.containers):
            return "Running"
        codes = [each.process.code for each in self.containers if each.process is not None]
        return "Failed" if any(codes) else "Succeeded"

    def _status(self) -> api_client.Object:
        initialized = all(not each.waiting for each in self.init)
        ready = initialized and all(each.ready for each in self.containers)
        values = {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}
        for kind, value in values.items():
            if self._since.get(kind, ("", ""))[0] != str(value):
                self._since[kind] = (str(value), _now())
        started = initialized and all(each.process is not None for each in self.containers)
        return {
            "phase": self._phase() if started else "Pending",
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self.meta["creationTimestamp"],
            "conditions": [
                {"type": kind, "status": value, "lastTransitionTime": since}
                for kind, (value, since) in self._since.items()
            ],
            "containerStatuses": [each.status() for each in self.containers],
            "initContainerStatuses": [each.status() for each in self.init],
        }


def _path(meta: api_client.Object) -> str:
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
