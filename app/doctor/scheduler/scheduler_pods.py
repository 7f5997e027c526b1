"""Finds the kube-schedulers of a cluster, and their configurations, from the pods that run them."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app.doctor import api_reader, own_pods, restarts, scheduler_containers, times
from app.doctor.scheduler import configurations, feature_gates

PORT: Final = 10259
"""The secure port of kube-scheduler, unless a flag sets another."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?")
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""What Go's strconv.ParseBool accepts; kube-scheduler does not start with another value."""


@dataclasses.dataclass(frozen=True, slots=True)
class ElectionFlags:
    """The flags of leader election that a kube-scheduler was given.

    They replace what its file has (ApplyLeaderElectionTo in cmd/kube-scheduler/app/options/options.go).
    """

    elected: bool | None = None
    """--leader-elect; None if it was not given."""
    namespace: str = ""
    """--leader-elect-resource-namespace; empty if it was not given."""
    name: str = ""
    """--leader-elect-resource-name; empty if it was not given."""

    def over(
        self, configuration: configurations.SchedulerConfiguration
    ) -> configurations.SchedulerConfiguration:
        """The configuration that a kube-scheduler with these flags runs with."""
        namespace, _, name = configuration.lease.partition("/")
        return dataclasses.replace(
            configuration,
            elected=configuration.elected if self.elected is None else self.elected,
            lease=f"{self.namespace or namespace}/{self.name or name}",
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Scheduler:
    """A pod with a kube-scheduler."""

    pod: str
    """NAMESPACE/NAME."""
    node: str
    version: tuple[int, int] | None
    """Major and minor version by the tag of its image; None if the tag names none."""
    image: str
    restart: str
    """How it is restarted."""
    unresolving: bool
    """On the host network without the cluster's DNS, so that it does not resolve names of Services."""
    gangs: bool = False
    """Whether the gate of its own gangs is on."""
    started: float = 0.0
    """Seconds since 1970 of its start; 0 if that was not seen."""
    file: str = ""
    """Its --config, inside the container."""
    election: ElectionFlags = ElectionFlags()
    configuration: configurations.SchedulerConfiguration | None = None
    """With its flags of leader election."""
    unseen: str = ""
    """Why the configuration was not seen."""
    fix: str = ""
    """What the API server needs to show it; empty if it has no such object."""


def schedulers(reader: api_reader.ApiReader) -> list[Scheduler]:
    """The running kube-schedulers. Raises Unseen if pods cannot be listed."""
    return [
        made
        for pod in reader.items("/api/v1/pods")
        if not own_pods.ended(pod)
        for container in pod.get("spec", {}).get("containers", ())
        if (arguments := scheduler_containers.arguments(container)) is not None
        for made in _scheduler(pod, container, arguments, reader)
    ]


def minor_version(text: str) -> tuple[int, int] | None:
    """Major and minor of a version or of an image's tag."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else None


def release(text: str) -> str:
    """The version of Kubernetes in that of a distribution, which no image has: of v1.34.4+k3s1, v1.34.4."""
    found = _VERSION.match(text)
    return found[0] if found else text


def forward(scheduler: Scheduler) -> str:
    """The commands by which a workstation asks it for its configuration."""
    namespace, _, name = scheduler.pod.partition("/")
    return (
        f"kubectl -n {namespace} port-forward pod/{name} {PORT}, then topolog doctor scheduler"
        f" --configz https://127.0.0.1:{PORT}"
    )


def _scheduler(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    arguments: Sequence[str],
    reader: api_reader.ApiReader,
) -> Iterator[Scheduler]:
    metadata, spec = pod["metadata"], pod["spec"]
    image = str(container.get("image", ""))
    host_network = bool(spec.get("hostNetwork"))
    made = Scheduler(
        f"{metadata['namespace']}/{metadata['name']}",
        str(spec.get("nodeName", "")),
        minor_version(image.partition("@")[0].rpartition("/")[2].partition(":")[2]),
        image,
        restarts.of_pod(pod),
        host_network and spec.get("dnsPolicy") != "ClusterFirstWithHostNet",
        feature_gates.of_arguments(arguments),
        times.started(pod, str(container.get("name", ""))),
        _flag(arguments, "config"),
        ElectionFlags(
            _boolean(arguments, "leader-elect"),
            _flag(arguments, "leader-elect-resource-namespace"),
            _flag(arguments, "leader-elect-resource-name"),
        ),
    )
    path = made.file
    if not path:
        # The default, without extenders.
        usual = configurations.SchedulerConfiguration(
            f"pod {made.pod}, without --config", configurations.FILE
        )
        yield dataclasses.replace(made, configuration=made.election.over(usual))
        return
    try:
        found = _of_file(path, pod, container, reader, made)
        yield dataclasses.replace(made, configuration=made.election.over(found))
    except configurations.Unreadable as error:
        yield dataclasses.replace(made, unseen=str(error))
    except api_reader.Missing as error:
        yield dataclasses.replace(made, unseen=error.reason)
    except api_reader.Unseen as error:
        yield dataclasses.replace(made, unseen=error.reason, fix=error.fix)


def _of_file(
    path: str,
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    reader: api_reader.ApiReader,
    made: Scheduler,
) -> configurations.SchedulerConfiguration:
    file = pathlib.PurePosixPath(path)
    mounts = [
        one
        for one in container.get("volumeMounts") or ()
        if file.is_relative_to(str(one.get("mountPath", "")))
    ]
    # The deepest mount hides those above it.
    mount = max(mounts, key=lambda one: len(str(one["mountPath"])), default=None)
    volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
    volume = volumes.get(mount["name"], {}) if mount else {}
    source = volume.get("configMap")
    if not mount or not source:
        raise api_reader.Unseen(f"{path} is a file on node {made.node or '?'}, in no ConfigMap", "")
    namespace, name = pod["metadata"]["namespace"], source["name"]
    inside = str(file.relative_to(mount["mountPath"])) if not mount.get("subPath") else str(mount["subPath"])
    key = next((one["key"] for one in source.get("items") or () if one.get("path") == inside), inside)
    document = reader.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    text = document.get("data", {}).get(key)
    where = f"ConfigMap {namespace}/{name}, {key}"
    if not isinstance(text, str):
        raise api_reader.Unseen(f"{where} does not exist", "")
    return configurations.read(text, where)[0]


def _flag(arguments: Sequence[str], name: str) -> str:
    """The value of a flag, as ``--name=value`` or ``--name value``; the last one counts."""
    found = ""
    for at, argument in enumerate(arguments):
        key, equals, value = argument.partition("=")
        if key in (f"--{name}", f"-{name}"):
            found = value if equals else (arguments[at + 1] if at + 1 < len(arguments) else "")
    return found


def _boolean(arguments: Sequence[str], name: str) -> bool | None:
    """The value of a flag, which is true without one; the last one counts. None if it was not given.

    An argument that follows is not its value.
    """
    found = None
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key in (f"--{name}", f"-{name}"):
            found = _BOOLEANS.get(value) if equals else True
    return found
