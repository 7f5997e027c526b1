"""A Kubernetes cluster for tests: a real control plane, and nodes without machines.

    with clusters.Cluster(control_plane_builds.built()) as cluster:
        cluster.start_controller_manager()
        cluster.start_kubelet()
        cluster.start_scheduler("default", {...})
        cluster.add_nodes("n1", "n2", labels={"zone": "a"})
        cluster.kubectl("apply", "-k", "deploy/crds")

Everything runs on 127.0.0.1 with one temporary folder; leaving the block stops all processes and deletes the
folder. With E2E_KEEP=1 the folder stays, with the log of each part.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile
import types
from collections.abc import Mapping, Sequence

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support import child_processes, polling
from tests.support.e2e import api_client, component_flags, identities, kube_schedulers, kubelets
from tests.support.e2e.nodes import containers, process_kubelets

CAPACITY = {"cpu": "32", "memory": "128Gi", "pods": "110"}


class Cluster:
    """One control plane: etcd and an API server; the other parts are started on request."""

    def __init__(
        self,
        binary: pathlib.Path,
        *,
        flags: Sequence[str] = (),  # more for the API server
        feature_gates: Mapping[str, bool] | None = None,  # for every part
        tokens: bool = False,  # whether pods get the token of their service account
    ) -> None:
        # A short name: the path of a unix socket is limited to about 100 characters.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="topolog-e2e-"))
        self.identities = identities.of_a_cluster()
        self.kubelet: kubelets.Kubelet | None = None
        self._process_kubelets: list[process_kubelets.ProcessKubelet] = []
        self.schedulers: dict[str, kube_schedulers.Scheduler] = {}
        self._binary = binary
        self._layout = component_flags.Layout(self.folder, feature_gates or {})
        self._running: list[child_processes.Process] = []
        port = child_processes.free_port()
        self.server = f"https://127.0.0.1:{port}"
        self.etcd = self._part("etcd", component_flags.etcd(self._layout))
        self.api_server = self._part(
            "kube-apiserver",
            component_flags.api_server(self._layout, port=port, flags=flags, tokens=tokens),
        )

    def __enter__(self) -> "Cluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()

    # Its parts

    def start(self) -> None:
        """Start etcd and the API server and wait until they answer."""
        key = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        self._layout.service_account_key.write_bytes(key)
        identities.write_tokens(self._layout.tokens, self.identities)
        self.run(self.etcd)
        polling.ready(self.etcd, lambda: "ready" in self.etcd.tail())
        self.run(self.api_server)
        self.await_api_server()

    def await_api_server(self) -> None:
        """Return once the API server is ready, the first time or after a restart."""
        polling.ready(
            self.api_server,
            lambda: self._layout.ca.exists() and self.api().text("GET", "/readyz") == b"ok",
        )

    def start_controller_manager(self, controllers: Sequence[str] = component_flags.CONTROLLERS) -> None:
        """Start the controllers that turn Deployments, Jobs and the like into pods."""
        name, port = "kube-controller-manager", child_processes.free_port()
        kubeconfig = self.kubeconfig(name)
        process = self._part(
            name,
            component_flags.controller_manager(
                self._layout, port=port, kubeconfig=kubeconfig, controllers=controllers
            ),
        )
        self.run(process)
        api = self._api_of(process, port, self._layout.certificate(name, name))
        polling.ready(process, lambda: api.text("GET", "/healthz") == b"ok")

    def start_scheduler(
        self,
        name: str,
        configuration: api_client.Object,
        *,
        identity: str = "kube-scheduler",
        feature_gates: Mapping[str, bool] | None = None,  # instead of those of the cluster
        elected: bool = False,  # with the leader election of the configuration, in place of none
        ready: bool = True,  # wait until it schedules pods
    ) -> kube_schedulers.Scheduler:
        """Start a kube-scheduler."""
        kubeconfig = self.kubeconfig(identity)
        connection = {"qps": 500, "burst": 1000, "kubeconfig": str(kubeconfig)}
        config = self.folder / f"scheduler-{name}.yaml"
        config.write_text(
            yaml.safe_dump(
                configuration
                | {"clientConnection": configuration.get("clientConnection", {}) | connection}
                | ({} if elected else {"leaderElection": {"leaderElect": False}})
            )
        )
        port, full_name = child_processes.free_port(), f"kube-scheduler-{name}"
        layout = self._layout
        if feature_gates is not None:
            layout = dataclasses.replace(layout, feature_gates=feature_gates)
        flags = component_flags.scheduler(layout, full_name, port=port, kubeconfig=kubeconfig, config=config)
        process = self._part(full_name, flags)
        self.run(process)
        certificate = self._layout.certificate("kube-scheduler", full_name)
        scheduler = kube_schedulers.Scheduler(process, self._api_of(process, port, certificate))
        if ready:
            scheduler.await_ready()
        self.schedulers[name] = scheduler
        return scheduler

    def start_kubelet(self, *, except_in: str = "") -> kubelets.Kubelet:
        """Let bound pods run and deleted ones end, except those of a namespace."""
        self.kubelet = kubelets.Kubelet(self.api(), except_in=except_in)
        self.kubelet.start()
        return self.kubelet

    def start_scheduler_on_a_node(
        self, kubelet: process_kubelets.ProcessKubelet, configuration: api_client.Object
    ) -> child_processes.Process:
        """Start a kube-scheduler in the network of the nodes; it schedules pods once it is connected."""
        kubeconfig = identities.write_kubeconfig(
            self.folder / "scheduler-on-a-node.kubeconfig",
            server=f"https://{kubelet.api_server}",
            ca=self._layout.ca,
            token=self.identities["kube-scheduler"].token,
        )
        config = self.folder / "scheduler-on-a-node.yaml"
        connection = {
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        config.write_text(yaml.safe_dump(configuration | connection))
        name = "scheduler-on-a-node"
        flags = component_flags.scheduler(
            self._layout, name, port=10259, kubeconfig=kubeconfig, config=config
        )
        process = child_processes.Process(
            name,
            kubelet.on_a_node(self._binary, *flags),
            log=self.folder / f"{name}.log",
            env=self._environment(),
        )
        self.run(process)
        return process

    def start_process_kubelet(
        self, namespace: str, *, images: Mapping[str, containers.Image] | None = None
    ) -> process_kubelets.ProcessKubelet:
        """Run the bound pods of a namespace as processes; ``images``: beside the usual ones."""
        kubelet = process_kubelets.ProcessKubelet(
            self.api(),
            namespace,
            {**containers.images(self._binary), **(images or {})},
            self.folder / f"pods-{namespace}",
        )
        self._process_kubelets.append(kubelet)
        kubelet.start()
        return kubelet

    def run(self, process: child_processes.Process) -> None:
        """Start a process; `stop` stops it before the processes started earlier."""
        self._running.append(process)
        process.start()

    def stop(self) -> None:
        """Stop everything in reverse order, even if stopping one part fails."""
        with contextlib.ExitStack() as last_first:
            if not os.environ.get("E2E_KEEP"):
                last_first.callback(shutil.rmtree, self.folder, ignore_errors=True)
            for process in self._running:
                last_first.callback(process.stop, grace=5.0)
            if self.kubelet is not None:
                last_first.callback(self.kubelet.stop)
            for kubelet in self._process_kubelets:
                last_first.callback(kubelet.stop)

    # Identities

    def api(self, identity: str = "admin") -> api_client.Api:
        """Return the API server as one of the identities sees it."""
        token = self.identities[identity].token
        return api_client.Api(self.server, ca=self._layout.ca, token=token)

    def kubeconfig(self, identity: str = "admin") -> pathlib.Path:
        """Return a kubeconfig for one of the identities."""
        return identities.write_kubeconfig(
            self.folder / f"{identity.replace(':', '-')}.kubeconfig",
            server=self.server,
            ca=self._layout.ca,
            token=self.identities[identity].token,
        )

    def service_account(self, namespace: str, name: str) -> str:
        """Make an existing ServiceAccount an identity here, under the name that is returned."""
        user = f"system:serviceaccount:{namespace}:{name}"
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 24 * 3600},
        }
        token: str = self.api().create(path, request)["status"]["token"]
        self.identities[user] = identities.Identity(user, token=token)
        return user

    # Objects

    def kubectl(
        self,
        *arguments: str | pathlib.Path,
        identity: str = "admin",
        stdin: str = "",
        refused: bool = False,  # must fail; returns stderr
        within: float = 60,  # seconds, see polling.PATIENCE
    ) -> str:
        """Run the real kubectl and return what it prints."""
        done = subprocess.run(
            [self._binary, "kubectl", *arguments],
            env=self._environment() | {"KUBECONFIG": str(self.kubeconfig(identity))},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=within * polling.PATIENCE,
            check=False,
        )
        assert (done.returncode != 0) == refused, (
            f"kubectl {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}{done.stdout}"
        )
        return done.stderr if refused else done.stdout

    def await_done(self, *arguments: str | pathlib.Path, within: float = 60) -> None:
        """Run a command of kubectl that waits, as `rollout status` does; fail after ``within`` seconds."""
        timeout = f"--timeout={within * polling.PATIENCE:.0f}s"

        def done() -> bool:
            try:
                self.kubectl(*arguments, timeout, within=within + 30)
            except AssertionError as problem:
                # kubectl does not wait for an object whose conditions are null until the first is written.
                if "conditions accessor error" in str(problem):
                    return False
                raise
            return True

        polling.eventually(done, f"kubectl {arguments[0]} waits", within=within, every=0.5)

    def apply(self, *objects: api_client.Object) -> None:
        """Apply objects with kubectl, as a user does with a file."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def add_namespace(self, name: str) -> None:
        """Create a namespace."""
        self.api().create("/api/v1/namespaces", {"metadata": {"name": name}})

    def add_nodes(
        self,
        *names: str,
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
        taints: Sequence[api_client.Object] = (),
    ) -> None:
        """Create nodes that are ready; each has its name as hostname beside these labels."""
        api, capacity = self.api(), dict(capacity or CAPACITY)
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Posed"}],
        }

        def add(name: str) -> None:
            own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
            node = {
                "metadata": {"name": name, "labels": own | dict(labels or {})},
                "spec": {"taints": list(taints)},
                "status": status,
            }
            api.create("/api/v1/nodes", node)

        with concurrent.futures.ThreadPoolExecutor(8) as hands:
            list(hands.map(add, names))

    def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Change labels of a node; None takes one away."""
        self.api().patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": dict(labels)}})

    def pods(self, namespace: str, *, labels: str = "") -> list[api_client.Object]:
        """Return the pods of a namespace, in the order of their names."""
        return self.api().list(f"/api/v1/namespaces/{namespace}/pods", labels=labels)

    def events(self, namespace: str, name: str, *, reason: str = "") -> list[str]:
        """Return the messages of the events about one object, the oldest first."""
        fields = f"involvedObject.name={name}" + (f",reason={reason}" if reason else "")
        found = self.api().list(f"/api/v1/namespaces/{namespace}/events", fields=fields)
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [event["message"] for event in found]

    def _part(self, name: str, command: Sequence[str]) -> child_processes.Process:
        log = self.folder / f"{name}.log"
        env = self._environment()
        return child_processes.Process(name, [self._binary, *command], log=log, env=env)

    def _environment(self) -> dict[str, str]:
        # Nothing of the user's own: no kubeconfig, no proxy, no plugins, no cache.
        return {"HOME": str(self.folder), "PATH": os.defpath}

    def _api_of(
        self, process: child_processes.Process, port: int, certificate: pathlib.Path
    ) -> api_client.Api:
        polling.ready(process, certificate.exists)
        token = self.identities["admin"].token
        return api_client.Api(f"https://127.0.0.1:{port}", ca=certificate, token=token)
