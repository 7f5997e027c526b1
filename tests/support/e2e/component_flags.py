"""The command line of each part of the control plane.

The API server keeps to its usual habits, its admission and its RBAC among them; what differs from a
real cluster's is only what a lack of machines and certificates forces.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)
FOR_PROCESSES = (
    *CONTROLLERS,
    "endpointslice-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "root-ca-certificate-publisher-controller",
)
"""What pods that really run need beside these: addresses of Services, disks, the CA of the API server."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of one cluster keep what they share."""

    folder: pathlib.Path
    feature_gates: Mapping[str, bool]

    @property
    def socket(self) -> pathlib.Path:
        """The socket of etcd."""
        return self.folder / "etcd.sock"

    @property
    def ca(self) -> pathlib.Path:
        """The certificate of the API server, which it makes itself when it first starts."""
        return self.folder / "pki" / "apiserver.crt"

    @property
    def tokens(self) -> pathlib.Path:
        """The static token file."""
        return self.folder / "tokens.csv"

    @property
    def service_account_key(self) -> pathlib.Path:
        """The key that signs the tokens of ServiceAccounts."""
        return self.folder / "service-account.key"

    def certificate(self, part: str, name: str) -> pathlib.Path:
        """The certificate that one of the other parts makes for itself."""
        return self.folder / f"pki-{name}" / f"{part}.crt"

    @property
    def gates(self) -> list[str]:
        """The feature gates as flags."""
        return [f"--feature-gates={name}={on}" for name, on in self.feature_gates.items()]


def etcd(layout: Layout) -> list[str]:
    """The store of the API server."""
    return ["etcd", f"--data-dir={layout.folder / 'etcd'}", f"--socket={layout.socket}"]


def api_server(layout: Layout, *, port: int, flags: Sequence[str], tokens: bool = False) -> list[str]:
    """The API server; with tokens, it adds the service account's token to pods."""
    # No controller would take a new node's taint away.
    disabled = ["TaintNodesByCondition", *([] if tokens else ["ServiceAccount"])]
    return [
        "kube-apiserver",
        f"--etcd-servers=unix://{layout.socket}:0",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # any other refuses a loopback address
        f"--cert-dir={layout.ca.parent}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",  # as nearly every cluster does
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.service_account_key}",
        f"--service-account-signing-key-file={layout.service_account_key}",
        "--service-cluster-ip-range=10.96.0.0/24",
        f"--disable-admission-plugins={','.join(disabled)}",
        *layout.gates,
        *flags,
    ]


def controller_manager(
    layout: Layout, *, port: int, kubeconfig: pathlib.Path, controllers: Sequence[str]
) -> list[str]:
    """The controllers, each with the rights of its own role."""
    return [
        "kube-controller-manager",
        *_served(layout, "kube-controller-manager", port=port, kubeconfig=kubeconfig),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=true",
        f"--root-ca-file={layout.ca}",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def scheduler(
    layout: Layout, name: str, *, port: int, kubeconfig: pathlib.Path, config: pathlib.Path
) -> list[str]:
    """One kube-scheduler."""
    flags = _served(layout, name, port=port, kubeconfig=kubeconfig)
    return ["kube-scheduler", *flags, f"--config={config}"]


def _served(layout: Layout, name: str, *, port: int, kubeconfig: pathlib.Path) -> list[str]:
    return [
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={layout.folder / f'pki-{name}'}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        *layout.gates,
    ]
