"""The compiled client: its flags and its report.

One client measures both sides, so only the servers differ. By hand:

    ~/.cache/topolog/bench/HASH/client -cert C -key K -ca CA -target ours=https://127.0.0.1:8443
"""

import dataclasses
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tests.bench.data import bench_cluster
from tests.bench.peer import builds


class Figure(msgspec.Struct, frozen=True):
    """One verb at one target, in milliseconds from the first byte of a call to the last of its reply."""

    p50: float
    p99: float
    mean: float
    decoded_p50: float
    """Including the decoding of the reply in the client."""
    request_bytes: int
    reply_bytes: int
    kept: int = 0


class Report(msgspec.Struct, frozen=True):
    """The JSON that the client prints."""

    calls: int
    nodes: int
    form: str
    targets: dict[str, dict[str, Figure]]


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The calls that the client sends."""

    nodes: int
    calls: int
    warm: int = 50
    form: Literal["names", "nodes"] = "names"
    policy: str = bench_cluster.FREE
    verbs: Sequence[str] = ("filter", "prioritize")

    def flags(self) -> list[str]:
        """The load as flags of the client."""
        return [
            f"-count={self.nodes}",
            f"-calls={self.calls}",
            f"-warm={self.warm}",
            f"-form={self.form}",
            f"-verbs={','.join(self.verbs)}",
            f"-namespace={bench_cluster.NAMESPACE}",
            f"-labels={bench_cluster.POLICY_LABEL}={self.policy}",
            f"-expect-kept={self.nodes - bench_cluster.refused(self.policy, self.nodes)}",
        ]


class CallFailed(Exception):
    """An extender failed, or sent a wrong reply; the text is the client's."""


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The client with its certificate and its list of nodes."""

    programs: builds.Programs
    tls: pathlib.Path
    """A directory of `topolog certs`; the client calls as the scheduler."""
    nodes: pathlib.Path

    def command(self, load: Load, targets: Mapping[str, str]) -> list[str]:
        """The command that sends the load to the targets (name -> URL), in turns."""
        return [
            str(self.programs.client),
            *(f"-target={name}={url}" for name, url in targets.items()),
            f"-cert={self.tls / 'scheduler.crt'}",
            f"-key={self.tls / 'scheduler.key'}",
            f"-ca={self.tls / 'ca.crt'}",
            f"-nodes={self.nodes}",
            *load.flags(),
        ]

    def measure(self, load: Load, targets: Mapping[str, str]) -> Report:
        """Send the load and return the measured times; raises CallFailed."""
        done = subprocess.run(self.command(load, targets), capture_output=True, check=False)
        if done.returncode:
            raise CallFailed(done.stderr.decode(errors="replace").strip())
        return msgspec.json.decode(done.stdout, type=Report)
