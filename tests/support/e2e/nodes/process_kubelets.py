"""A kubelet for all nodes of a cluster that runs the pods of one namespace as processes.

It needs root and the programs of iproute2 and util-linux. What differs from a kubelet and its runtime:
images are programs of this machine; names of Services are in /etc/hosts instead of a DNS server;
NetworkPolicies, seccomp and limits are not applied; the files of a changed Secret are not replaced in a
running pod; pauses before a restart end at five seconds.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import threading
from collections.abc import Mapping

import urllib3

from tests.support import polling
from tests.support.e2e import api_client
from tests.support.e2e.nodes import containers, networks, pods, services

_PROGRAMS = ("ip", "unshare", "nsenter", "setpriv", "chroot", "mount", "hostname")


def lacking() -> str:
    """Why pods cannot run as processes here; empty if they can."""
    if os.geteuid() != 0:
        return "pods run as processes in namespaces of their own, which needs root"
    missing = [each for each in _PROGRAMS if shutil.which(each) is None]
    if missing:
        return f"pods run as processes by iproute2 and util-linux: {', '.join(missing)} is missing"
    try:
        probe = networks.Network()
        probe.start()
        probe.stop()
    except (AssertionError, OSError) as error:
        return f"network namespaces cannot be created here: {error}"
    return ""


class ProcessKubelet:
    """Runs the bound pods of a namespace until it is stopped."""

    def __init__(
        self,
        api: api_client.Api,
        namespace: str,
        images: Mapping[str, containers.Image],
        folder: pathlib.Path,
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self.network = networks.Network()
        self.services = services.Services(api, self.network)
        self._images = images
        self.folder = folder
        self.pods: dict[str, pods.Pod] = {}
        self._ended = threading.Event()
        self._watch: api_client.Watch | None = None
        self._thread = threading.Thread(target=self._run, name="process-kubelet", daemon=True)

    def start(self) -> None:
        """Start with the existing pods."""
        self.folder.mkdir()
        self.network.start()
        address = self.services.start()
        self.api_server = address
        self._node = pods.Node(self._api, self.network, self.services, self._images, self.folder, address)
        self._thread.start()

    def stop(self) -> None:
        """Kill all pods."""
        self._ended.set()
        if self._watch is not None:
            self._watch.close()
        if self._thread.ident is not None:
            self._thread.join()
        for each in self.pods.values():
            each.abandon()
        self.services.stop()
        self.network.stop()

    def on_a_node(self, *command: str | pathlib.Path) -> list[str]:
        """A command line that runs in the network of the nodes, as a process with hostNetwork does."""
        return ["ip", "netns", "exec", self.network.name, *map(str, command)]

    def running(self, component: str) -> list[pods.Pod]:
        """The pods of a component whose containers all run."""
        label = "app.kubernetes.io/component"
        return [
            each
            for each in self.pods.values()
            if each.meta["labels"].get(label) == component and all(one.running for one in each.containers)
        ]

    def run(self, pod: pods.Pod, *command: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a command in the first container of a pod, as its user, and wait for it."""
        process = pod.containers[0].process
        assert process is not None
        entered = ["nsenter", "--target", str(process.pid), "--mount", "--net", "--uts", "--root", "--wd"]
        variables = [f"{name}={value}" for name, value in {"PATH": containers.PATH, **env}.items()]
        dropped = ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", "--no-new-privs"]
        return subprocess.run(
            [*entered, "/usr/bin/env", "-i", *variables, *dropped, "--", *command],
            capture_output=True,
            text=True,
            timeout=60 * polling.PATIENCE,
            check=False,
        )

    def _run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(urllib3.exceptions.HTTPError, api_client.ApiError, OSError):
                self._follow()
            self._ended.wait(0.1)

    def _follow(self) -> None:
        listed = self._api.get(self._path)
        for pod in listed["items"]:
            self._sync(pod)
        self._watch = self._api.watch(self._path, listed["metadata"]["resourceVersion"])
        if self._ended.is_set():  # `stop` may have run just before the watch was opened
            self._watch.close()
        for change in self._watch:
            if change.kind in ("ADDED", "MODIFIED"):
                self._sync(change.object)
            elif change.kind == "ERROR":
                return

    def _sync(self, pod: api_client.Object) -> None:
        uid = pod["metadata"]["uid"]
        if not pod["spec"].get("nodeName") or self._ended.is_set():
            return
        if uid not in self.pods:
            self.pods[uid] = pods.Pod(self._node, pod)
            self.pods[uid].start()
        if pod["metadata"].get("deletionTimestamp"):
            self.pods[uid].delete()
