"""Builds the image of deploy/Dockerfile without a container runtime, as far as that goes.

The steps are those of the Dockerfile. The base, which only a registry has, is the system of this machine with
its Python: a stage is a folder with what it changed, mounted over that system (overlayfs) while a step runs.
It needs root and a Debian of the version that the base has.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

_PROGRAMS = ("unshare", "mount", "chroot", "setpriv")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OF_THE_SYSTEM = ("PIP_CERT", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT")
"""Variables by which pip reaches its index from this machine."""


@dataclass
class Stage:
    """What one FROM and its instructions have made."""

    layer: pathlib.Path
    """The files that the stage added or changed, at their paths."""
    variables: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    """Variables of its steps alone: those given to the build that the stage declares."""
    labels: dict[str, str] = field(default_factory=dict)
    user: str = ""
    folder: str = "/"
    ports: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """The path in the image, and the status, of each file and folder of the layer."""
        for path in sorted(self.layer.rglob("*")):
            yield f"/{path.relative_to(self.layer)}", path.lstat()


def lacking() -> str:
    """Why the image cannot be built here; empty if it can."""
    if os.geteuid() != 0:
        return "the steps of the image run in a root of their own, which needs root"
    missing = [each for each in _PROGRAMS if shutil.which(each) is None]
    if missing:
        return f"the image is built by util-linux: {', '.join(missing)} is missing"
    if "overlay" not in pathlib.Path("/proc/filesystems").read_text():
        return "the kernel has no overlayfs"
    if subprocess.run([_BASE_PYTHON, "-c", "import ensurepip"], check=False).returncode != 0:
        return f"{_BASE_PYTHON} is not there, or has no ensurepip"
    return ""


_BASE_PYTHON = "/usr/bin/python3.11"


class Build:
    """The stages of a Dockerfile, built below a folder."""

    def __init__(
        self,
        dockerfile: pathlib.Path,
        context: pathlib.Path,
        folder: pathlib.Path,
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        self._context = context
        self._folder = folder
        self._stages: dict[str, Stage] = {}
        self._arguments: dict[str, str] = {}
        self._given = arguments or {}
        self.last = Stage(folder / "none")
        for number, (word, rest) in enumerate(instructions(dockerfile.read_text())):
            getattr(self, f"_{word.lower()}")(rest, number)

    def run(
        self,
        *command: str,
        user: str = "",
        read_only: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the last stage; ``user``: its number, else root."""
        return self._inside(self.last, command, user=user, read_only=read_only, variables=variables or {})

    # Instructions

    def _arg(self, rest: str, number: int) -> None:
        name, _, value = rest.partition("=")
        self._arguments.setdefault(name, self._given.get(name, value))
        if name in self._given and self._stages:
            self.last.arguments[name] = self._given[name]

    def _from(self, rest: str, number: int) -> None:
        _, _, name = rest.partition(" AS ")
        layer = self._folder / f"layer-{len(self._stages)}"
        layer.mkdir(parents=True)
        self.last = self._stages[name] = Stage(layer)

    def _workdir(self, rest: str, number: int) -> None:
        self.last.folder = rest
        (self.last.layer / rest.lstrip("/")).mkdir(parents=True)

    def _env(self, rest: str, number: int) -> None:
        self.last.variables |= self._pairs(rest)

    def _label(self, rest: str, number: int) -> None:
        self.last.labels |= self._pairs(rest)

    def _user(self, rest: str, number: int) -> None:
        self.last.user = rest

    def _expose(self, rest: str, number: int) -> None:
        self.last.ports += rest.split()

    def _entrypoint(self, rest: str, number: int) -> None:
        self.last.entrypoint = msgspec.json.decode(rest, type=list[str])

    def _cmd(self, rest: str, number: int) -> None:
        self.last.command = msgspec.json.decode(rest, type=list[str])

    def _copy(self, rest: str, number: int) -> None:
        option, *words = [*shlex.split(rest)]
        if option.startswith("--from="):
            source = self._stages[option.removeprefix("--from=")].layer
        else:
            source, words = self._context, [option, *words]
        *names, target = words
        root = self.last.layer / (pathlib.PurePosixPath(self.last.folder) / target).relative_to("/")
        for name in names:
            path = source / name.lstrip("/")
            assert path.exists(), f"COPY {rest}: {path} does not exist"
            if path.is_dir():
                shutil.copytree(path, root, symlinks=True, dirs_exist_ok=True)
            else:
                into = root / path.name if target.endswith(("/", ".")) else root
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, into)

    def _run(self, rest: str, number: int) -> None:
        network = {name: os.environ[name] for name in _OF_THE_SYSTEM if name in os.environ}
        variables = {**network, **self.last.arguments}
        done = self._inside(self.last, ["sh", "-c", rest], user="", read_only=False, variables=variables)
        assert done.returncode == 0, f"RUN {rest}\n{done.stdout}{done.stderr}"

    def _pairs(self, rest: str) -> dict[str, str]:
        values = self._arguments | {"PATH": self.last.variables.get("PATH", _PATH)}
        found = dict(pair.split("=", 1) for pair in shlex.split(rest))
        return {
            name: re.sub(r"\$\{?(\w+)\}?", lambda match: values[match[1]], value)
            for name, value in found.items()
        }

    # The root of a stage

    def _inside(
        self,
        stage: Stage,
        command: Sequence[str],
        *,
        user: str,
        read_only: bool,
        variables: Mapping[str, str],
    ) -> subprocess.CompletedProcess[str]:
        work, root = self._folder / "work", self._folder / "root"
        for each in (work, root):
            each.mkdir(exist_ok=True)
        lines = [
            f"mount -t overlay overlay -o lowerdir=/,upperdir={stage.layer},workdir={work} {root}",
            f"mount --rbind /dev {root}/dev && mount -t proc proc {root}/proc",
            # Where the base has its Python, under the name that this machine may lack.
            f"mount -t tmpfs tmpfs {root}/usr/local/bin && ln -s {_BASE_PYTHON} {root}/usr/local/bin/python",
            *([f"mount -o remount,bind,ro {root}"] if read_only else []),
        ]
        identity = [f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else ["--clear-groups"]
        known = {"PATH": _PATH, "HOME": "/", **variables, **stage.variables}
        environment = [f"{name}={value}" for name, value in known.items()]
        start = ["chroot", str(root), "/usr/bin/env", "-i", "-C", stage.folder, *environment]
        started = shlex.join([*start, "setpriv", *identity, "--no-new-privs", "--", *command])
        script = "\n".join(["set -e", *lines, f"exec {started}"])
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(word, rest) of each instruction."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, " ".join(rest.split()) if word != "RUN" else rest.strip()


def context(root: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A copy of what the file of exceptions lets into the build: lines of names that begin with `!`."""
    lines = (root / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith(("#", "!"))]
    assert rules == ["*", "**/__pycache__"], "what else is ignored has to be copied accordingly"
    for name in (line.removeprefix("!") for line in lines if line.startswith("!")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / name, target)
    return folder
