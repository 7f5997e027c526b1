"""Identities of the API server's clients: every part has its own user name.

With the names of a real cluster the tests exercise the roles that Kubernetes ships and those in deploy/rbac.
Only the tests themselves are cluster administrators.
"""

import dataclasses
import json
import pathlib
import secrets

import yaml


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """One user of the API server, known by a token."""

    user: str
    groups: tuple[str, ...] = ()
    token: str = dataclasses.field(default_factory=lambda: secrets.token_hex(16), repr=False)


def of_a_cluster() -> dict[str, Identity]:
    """Return a new identity for each part of a control plane, and for the tests: admin."""
    return {
        "admin": Identity("admin", ("system:masters",)),
        "kube-scheduler": Identity("system:kube-scheduler"),
        "kube-controller-manager": Identity("system:kube-controller-manager"),
    }


def write_tokens(path: pathlib.Path, identities: dict[str, Identity]) -> None:
    """Write the static token file of the API server."""
    path.touch(mode=0o600)
    lines = [
        ",".join([each.token, each.user, each.user, json.dumps(",".join(each.groups))])
        for each in identities.values()
    ]
    path.write_text("\n".join(lines) + "\n")


def write_kubeconfig(
    path: pathlib.Path,
    *,
    server: str,
    ca: pathlib.Path,
    token: str,
    namespace: str = "default",
) -> pathlib.Path:
    """Write a kubeconfig with one cluster, one user and one context."""
    path.touch(mode=0o600)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "e2e", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e", "namespace": namespace}}],
    }
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path
