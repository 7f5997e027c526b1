"""A workstation beside a cluster: the real kubectl with its plugin on the path, and users with few rights."""

import pathlib
import subprocess
import sys

from tests.support import commands, polling
from tests.support.e2e import api_client, clusters

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
FORWARD = {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create"]}
CERTIFICATE = {
    "apiGroups": [""],
    "resources": ["secrets"],
    "resourceNames": ["topolog-viewer-tls"],
    "verbs": ["get"],
}
RIGHTS = (PODS, FORWARD, CERTIFICATE)
"""What a user needs in the namespace of an installation to reach its server."""
_SCRIPTS = pathlib.Path(sys.executable).parent


class Workstation:
    """Runs commands as users of a cluster, whose server they find by a kubeconfig alone."""

    def __init__(self, cluster: clusters.Cluster, binary: pathlib.Path) -> None:
        self._cluster = cluster
        self._programs = cluster.folder / "workstation"
        self._programs.mkdir()
        kubectl = self._programs / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {binary} kubectl "$@"\n')
        kubectl.chmod(0o755)
        for name in ("topolog", "kubectl-topolog"):
            (self._programs / name).symlink_to(_SCRIPTS / name)

    def user(self, name: str, namespace: str, *rules: api_client.Object) -> str:
        """Create a user who has these rights in a namespace, and no other ones."""
        meta = {"metadata": {"name": name, "namespace": namespace}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", **meta}
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", **meta}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        self._cluster.apply(
            account,
            {**rbac, "kind": "Role", "rules": list(rules)},
            {**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
        )
        return self._cluster.service_account(namespace, name)

    def environ(self, user: str) -> dict[str, str]:
        """What differs in the environment of a user's commands from that of the test."""
        kubeconfig = str(self._cluster.kubeconfig(user))
        return {"PATH": f"{self._programs}:/usr/bin:/bin", "KUBECONFIG": kubeconfig}

    def run(self, user: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command, and wait for it."""
        return subprocess.run(
            command,
            env=commands.environment({**self.environ(user), "HOME": str(self._cluster.folder)}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60 * polling.PATIENCE,
            check=False,
        )
