"""Containers that run kube-scheduler, and their arguments."""

import pathlib
from collections.abc import Mapping
from typing import Any, Final

_PROGRAM: Final = "kube-scheduler"


def arguments(container: Mapping[str, Any]) -> list[str] | None:
    """The arguments of a container that runs kube-scheduler; None if it runs another program."""
    command = [str(one) for one in container.get("command") or ()]
    found = [str(one) for one in container.get("args") or ()]
    if command:
        return command[1:] + found if pathlib.PurePosixPath(command[0]).name == _PROGRAM else None
    image = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    return found if image == _PROGRAM else None


def runs_in(pod: Mapping[str, Any]) -> bool:
    """Whether a container of a pod runs kube-scheduler."""
    return any(arguments(one) is not None for one in pod["spec"]["containers"])
