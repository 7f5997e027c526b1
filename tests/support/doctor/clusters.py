"""A small cluster on a simulated API server: kube-schedulers, Topolog's pods, and what they mount."""

import base64
import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from app.simulation.apiserver import apiservers, objects
from tests.support import commands, declared, manifests

Json = dict[str, Any]
HOME = "topolog-system"
SERVICE = f"topolog-extender.{HOME}.svc"

FURTHER = (
    objects.Resource("configmaps", "ConfigMap"),
    objects.Resource("secrets", "Secret"),
    objects.Resource("services", "Service"),
    objects.Resource("serviceaccounts", "ServiceAccount"),
    objects.Resource("deployments", "Deployment", "apps/v1"),
    objects.Resource("statefulsets", "StatefulSet", "apps/v1"),
    objects.Resource("jobs", "Job", "batch/v1"),
    objects.Resource("storageclasses", "StorageClass", "storage.k8s.io/v1", namespaced=False),
    objects.Resource("networkpolicies", "NetworkPolicy", "networking.k8s.io/v1"),
    objects.Resource(
        "customresourcedefinitions", "CustomResourceDefinition", "apiextensions.k8s.io/v1", namespaced=False
    ),
)
"""What the doctor reads beside the resources that the processes use."""


class Cluster:
    """The cluster; objects are changed and removed by its ``api``."""

    def __init__(self, api: apiservers.ApiServer, folder: pathlib.Path) -> None:
        self.api = api
        self.environ = {"TOPOLOG_KUBE_KUBECONFIG": commands.kubeconfig(folder, api.url)}

    def serve_gangs(self, served: bool) -> None:
        """Serve the kinds of kube-scheduler's own gangs, or do not."""
        for name in ("nativepodgroups", "workloads"):
            self.api.objects.serve(name, served)

    def add(self, resource: str, made: Json) -> None:
        """Create an object."""
        self.api.objects.create(resource, made)

    def add_node(self, name: str, **labels: str) -> None:
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "110"}}
        self.add("nodes", {"metadata": {"name": name, "labels": labels}, "status": status})

    def add_pod(
        self, name: str, *, namespace: str = "shop", labels: Json | None = None, **spec: object
    ) -> None:
        """Create a pod; by default of the default scheduler, and pending."""
        container = {"name": "c", "image": "example/app:1"}
        self.add(
            "pods",
            {
                "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
                "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
                "status": {"phase": "Pending"},
            },
        )

    def add_scheduler(
        self,
        name: str,
        *,
        namespace: str = HOME,
        config_map: str = "",
        tag: str = "v1.37.0",
        flags: Sequence[str] = (),
        **spec: object,
    ) -> None:
        """Create a pod with kube-scheduler, as deploy/components/sidecar does; ``flags``: further ones."""
        patch = yaml.safe_load((manifests.DEPLOY / "components/sidecar/kube-scheduler.yaml").read_text())
        template = patch["spec"]["template"]["spec"]
        container = {**template["containers"][0], "image": f"registry.example/kube-scheduler:{tag}"}
        volumes = [{"name": "scheduler", "configMap": {"name": config_map}}] if config_map else []
        if not config_map:
            container["args"] = ["--leader-elect=true"]
        container["args"] = [*container["args"], *flags]
        given = {"containers": [container], "volumes": volumes, "nodeName": "n1", **spec}
        self.add_pod(name, namespace=namespace, labels=None, **given)

    def add_config(self, name: str, document: Json, *, namespace: str = HOME) -> None:
        """Create the ConfigMap of a kube-scheduler."""
        data = {"kube-scheduler.yaml": yaml.safe_dump(document)}
        self.add("configmaps", {"metadata": {"name": name, "namespace": namespace}, "data": data})

    def add_own_pod(
        self, name: str, component: str = "extender", *, part: str = "topolog", **spec: object
    ) -> None:
        """Create a pod of Topolog; ``part``: another part of the installation, which is no process."""
        labels = {"app.kubernetes.io/name": part, "app.kubernetes.io/component": component}
        self.add_pod(name, namespace=HOME, labels=labels, **spec)

    def add_certificate(
        self, certificate: bytes, key: bytes, ca: bytes, *, name: str = "topolog-tls"
    ) -> None:
        """Create the Secret of a certificate."""
        files = {"tls.crt": certificate, "tls.key": key, "ca.crt": ca}
        data = {name: base64.b64encode(content).decode() for name, content in files.items()}
        self.add("secrets", {"metadata": {"name": name, "namespace": HOME}, "data": data})

    def change(self, resource: str, namespace: str, name: str, **spec: object) -> None:
        """Change fields of an object's specification, or of its data."""
        part = "data" if resource in ("configmaps", "secrets") else "spec"
        self.api.objects.change(
            resource, (namespace, name), lambda one: {**one, part: {**one.get(part, {}), **spec}}
        )


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[Cluster]:
    """A cluster with nothing in it but the namespace that identifies it."""
    with apiservers.ApiServer(declared.SCHEMA, further=FURTHER) as api:
        made = Cluster(api, folder)
        made.add("namespaces", {"metadata": {"name": "kube-system"}})
        # The gate of kube-scheduler's own gangs is off by default.
        made.serve_gangs(False)
        yield made


def shipped(name: str) -> Json:
    """A configuration of deploy/scheduler."""
    path = manifests.DEPLOY / "scheduler" / f"kube-scheduler-{name}.yaml"
    found: Json = yaml.safe_load(path.read_text())
    return found
