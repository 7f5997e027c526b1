"""Containers as processes, each in namespaces of its own, with a root that is assembled by mounts.

The images are what this machine has: `topolog` is the environment of the tests, `valkey` the server of the
`embedded` extra, `kube-scheduler` the control plane's binary. Root, volumes, user, capabilities and signals
are those of a container; limits of memory and CPU, and seccomp, are not applied.
"""

import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from app.store.server import embedded

ROOT = pathlib.Path(__file__).parents[4]
_BIN = "/image/bin"
PATH = f"{_BIN}:/usr/local/bin:/usr/bin:/bin"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_ENDING = ("--pdeathsig", "KILL")
"""Ends a process with its parent. The kernel forgets that when the process takes another user (prctl(2))."""


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """What a container finds in its root beside the system's programs."""

    mounts: Mapping[str, pathlib.Path]  # path in the container -> path here
    scripts: Mapping[str, str]  # program in /image/bin -> text
    entrypoint: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Mount:
    """A volume in a container."""

    source: pathlib.Path
    path: str
    read_only: bool


def images(control_plane: pathlib.Path) -> dict[str, Image]:
    """The images by the last part of their name."""
    environment = pathlib.Path(sys.prefix)
    parts = {
        str(path): path for path in (environment, *(ROOT / each for each in ("app", "workers", "migrations")))
    }
    topolog = f'#!/bin/sh\nexec {environment}/bin/topolog "$@"\n'
    scheduler = f'#!/bin/sh\nexec {_BIN}/controlplane kube-scheduler "$@"\n'
    return {
        "topolog": Image(parts, {"topolog": topolog}, ["topolog"]),
        "valkey": Image(
            {f"{_BIN}/valkey-server": pathlib.Path(embedded.find_binary())}, {}, ["valkey-server"]
        ),
        "kube-scheduler": Image({f"{_BIN}/controlplane": control_plane}, {"kube-scheduler": scheduler}, []),
    }


class Process:
    """A running container."""

    def __init__(
        self,
        *,
        network: str,
        host: str,
        image: Image,
        command: Sequence[str],
        env: Mapping[str, str],
        mounts: Sequence[Mount],
        hosts: Mapping[str, str],
        security: Mapping[str, object],
        folder: pathlib.Path,
        log: pathlib.Path,
    ) -> None:
        """``security``: those of the pod and of the container, together."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + _lines(hosts))
        script = folder / "start.sh"
        script.write_text(_script(folder, host, image, command, env, mounts, security))
        unshared = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        # This process ends with the test, and the container's first process with this one.
        started = ["setpriv", *_ENDING, "ip", "netns", "exec", network, *unshared]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*started, "--propagation", "private", "/bin/sh", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int | None:
        """The process id, outside of the container, of its first process; None if it has ended."""
        own = self._process.pid
        try:
            found = pathlib.Path(f"/proc/{own}/task/{own}/children").read_text().split()
        except OSError:
            return None
        return int(found[0]) if found else None

    def stop(self, grace: float) -> None:
        """Terminate it as a container runtime does; kill it after so many seconds."""
        first = self.pid
        if first is not None and self.code is None:
            os.kill(first, signal.SIGTERM)
            deadline = time.monotonic() + grace
            while self.code is None and time.monotonic() < deadline:
                time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        """Kill all its processes."""
        self._process.kill()
        self._process.wait()


def _lines(hosts: Mapping[str, str]) -> str:
    return "".join(f"{address} {name}\n" for name, address in hosts.items())


def _script(
    folder: pathlib.Path,
    host: str,
    image: Image,
    command: Sequence[str],
    env: Mapping[str, str],
    mounts: Sequence[Mount],
    security: Mapping[str, object],
) -> str:
    """The commands that assemble the root, enter it, drop every privilege and run the command."""
    root = folder / "root"
    root.mkdir(exist_ok=True)
    bound = [Mount(path, inner, read_only=True) for inner, path in image.mounts.items()]
    bound += [Mount(pathlib.Path("/usr"), "/usr", read_only=True), *mounts]
    bound += [Mount(pathlib.Path("/etc/ld.so.cache"), "/etc/ld.so.cache", read_only=True)]
    bound += [Mount(folder / "hosts", "/etc/hosts", read_only=True)]
    bound += [Mount(pathlib.Path(f"/dev/{each}"), f"/dev/{each}", read_only=False) for each in _DEVICES]
    # A mount hides what was mounted below it before, such as an image below /tmp and the volume at /tmp.
    bound.sort(key=lambda one: len(pathlib.PurePath(one.path).parts))
    lines = [
        "set -e",
        f"mount -t tmpfs -o mode=755 tmpfs {root}",
        f"mkdir -p {root}/proc {root}/tmp {root}{_BIN}",
    ]
    lines += [f"ln -s usr/{each} {root}/{each}" for each in ("bin", "sbin", "lib", "lib64")]
    for each in bound:
        target = f"{root}{each.path}"
        if each.source.is_dir():
            lines.append(f"mkdir -p {target}")
        else:
            lines.append(f"mkdir -p {pathlib.PurePath(target).parent} && touch {target}")
        lines.append(f"mount --bind {each.source} {target}")
        if each.read_only:
            lines.append(f"mount -o remount,bind,ro {target}")
    for name, text in image.scripts.items():
        lines.append(f"printf %s {shlex.quote(text)} > {root}{_BIN}/{name} && chmod 755 {root}{_BIN}/{name}")
    lines += [f"mount -t proc proc {root}/proc", f"hostname {host}"]
    if security.get("readOnlyRootFilesystem"):
        lines.append(f"mount -o remount,ro {root}")
    group = security.get("fsGroup")
    groups = [f"--groups={group}"] if group else ["--clear-groups"]
    identity = [f"--reuid={security['runAsUser']}", f"--regid={security['runAsGroup']}", *groups]
    assert security["capabilities"] == {"drop": ["ALL"]}
    capabilities = ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
    if security.get("allowPrivilegeEscalation") is False:
        capabilities.append("--no-new-privs")
    variables = [f"{name}={value}" for name, value in ({"PATH": PATH, "HOSTNAME": host} | dict(env)).items()]
    run = [
        "chroot",
        str(root),
        "/usr/bin/env",
        "-i",
        *variables,
        "setpriv",
        *_ENDING,
        *identity,
        *capabilities,
        "--",
        *command,
    ]
    return "\n".join([*lines, f"exec {shlex.join(run)}", ""])
