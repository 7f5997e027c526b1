"""The namespace of an installation on a simulated API server, and runs of ``topolog bootstrap`` there."""

import contextlib
import dataclasses
import datetime
import io
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple
from unittest import mock

import pytest

from app import cli
from app.cli import exits
from app.kube.writes import secrets
from app.provisioning import authorities, certificates, provisioners
from app.simulation.apiserver import apiservers
from tests.support import commands
from tests.support.provisioning import secrets_of

ARGUMENTS = ("-n", secrets_of.HOME, "--store-url", "redis://topolog-valkey:6379")
SERVICE = f"topolog-extender.{secrets_of.HOME}.svc"
VIEW = f"topolog-view.{secrets_of.HOME}.svc"
RESTART = "; new passwords for all of them: restart the store, then the processes that use them"
"""End of the detail about passwords that a running store does not accept."""


class Ended(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


@dataclasses.dataclass
class Namespace:
    """The namespace of an installation."""

    server: apiservers.ApiServer
    access: secrets.Secrets
    kubeconfig: str

    def secrets(self) -> dict[str, secrets_of.Object]:
        """The Secrets by name."""
        return {each["metadata"]["name"]: each for each in self.server.objects.all("secrets")}

    def versions(self) -> dict[str, str]:
        """Secret -> resourceVersion."""
        return {name: each["metadata"]["resourceVersion"] for name, each in self.secrets().items()}

    def put(self, name: str, data: dict[str, bytes], **changes: str) -> None:
        """Create a Secret, or replace its data, as another client."""
        former = self.access.read(name)
        labels = {"app.kubernetes.io/managed-by": changes.get("by", "cert-manager")}
        assert self.access.write(
            dataclasses.replace(former, data=data)
            if former
            else secrets.Secret(name, data, changes.get("type", "Opaque"), labels)
        )

    def delete(self, *names: str) -> None:
        """Delete Secrets."""
        for name in names:
            self.server.objects.remove("secrets", (secrets_of.HOME, name))

    def provision(
        self,
        *,
        days_later: float = 0,
        hosts: Sequence[str] = (),
        cluster: str = "default",
        store: str = "redis://topolog-valkey:6379",
        store_hosts: Sequence[str] = (),
        step: str = "",
    ) -> dict[str, str]:
        """Secret -> outcome, of a run in this process at a later time."""
        now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days_later)
        names = [*(f"{each}{end}" for each in (SERVICE, VIEW) for end in ("", ".cluster.local")), *hosts]
        taken = authorities.AuthorityStep(step) if step else None
        terms = certificates.Terms(names, 365, now, authority_step=taken, store_hosts=store_hosts)
        plan = provisioners.Plan(cluster, terms, store)
        self.results = provisioners.provision(self.access, plan)
        return {each.name: str(each.outcome) for each in self.results}

    def detail(self, name: str) -> str:
        """The detail about a Secret in the last result of ``provision``."""
        (found,) = [each.detail for each in self.results if each.name == name]
        return found

    def bootstrap(self, *arguments: str, **environ: str) -> Ended:
        """Run the command in this process."""
        out, err = io.StringIO(), io.StringIO()
        given = commands.environment({"TOPOLOG_KUBE_KUBECONFIG": self.kubeconfig, **environ})
        with (
            mock.patch.dict(os.environ, given, clear=True),
            mock.patch.object(sys, "argv", ["topolog", "bootstrap", *ARGUMENTS, *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            exits.run(cli.topolog)
        return Ended(int(ended.value.code or 0), out.getvalue(), err.getvalue())
