"""The privileges that a process really has, as the kernel shows them."""

import pathlib
from typing import NamedTuple

from tests.support.e2e import api_client
from tests.support.e2e.nodes import containers


class Privileges(NamedTuple):
    """Those of one process."""

    users: set[str]
    """Real, effective and saved uid, and that of the file system."""
    groups: set[str]
    capabilities: set[str]
    """The masks of all sets of capabilities."""
    no_new_privileges: bool
    read_only_root: bool
    writable: set[str]
    """The mounts that can be written to, without devices and ``/proc``."""


def of(process: containers.Process) -> Privileges:
    """Those of a running container."""
    folder = pathlib.Path(f"/proc/{process.pid}")
    lines = (folder / "status").read_text().splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    mounted = [line.split() for line in (folder / "mountinfo").read_text().splitlines()]
    (root,) = [each for each in mounted if each[4] == "/"]
    writable = {each[4] for each in mounted if "rw" in each[5].split(",")}
    return Privileges(
        users=set(status["Uid"]),
        groups=set(status["Gid"]),
        capabilities={mask for kind in ("Eff", "Prm", "Bnd", "Inh", "Amb") for mask in status[f"Cap{kind}"]},
        no_new_privileges=status["NoNewPrivs"] == ["1"],
        read_only_root="ro" in root[5].split(","),
        writable={each for each in writable if not each.startswith(("/dev", "/proc"))},
    )


def writable_volumes(container: api_client.Object) -> set[str]:
    """The mounts that the specification of a container declares, and that are not read-only."""
    return {each["mountPath"] for each in container.get("volumeMounts", []) if not each.get("readOnly")}
