"""The gate of kube-scheduler's own gangs, and what a kube-scheduler with it needs of the API server: S19."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from app.doctor import api_reader
from app.doctor.scheduler import catalog
from app.framework import doctor_checks

GANGS: Final = "GenericWorkload"
_FLAG: Final = "feature-gates"
_METRIC: Final = re.compile(rf'^kubernetes_feature_enabled{{name="{GANGS}"[^}}]*}} ([01])$', re.MULTILINE)
_KINDS: Final = {35: "v1alpha1/workloads", 36: "v1alpha2/podgroups", 37: "v1beta1/podgroups"}
"""Minor version of Kubernetes -> version and name of the kind that its kube-scheduler reads with the gate."""
_FIRST, _LAST = min(_KINDS), max(_KINDS)


def of_arguments(arguments: Sequence[str]) -> bool:
    """Whether the arguments of a process turn the gate on; it is off unless they do."""
    found: dict[str, bool] = {}
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.lstrip("-") == _FLAG:
            text = value if equals else "".join(arguments[at + 1 : at + 2])
            for part in text.split(","):
                gate, _, state = part.partition("=")
                found[gate.strip()] = state.strip().lower() in ("true", "t", "1")
    # Of Alpha in 1.35 and 1.36, of Beta in 1.37.
    return found.get(GANGS, found.get("AllAlpha", False) or found.get("AllBeta", False))


def of_metrics(text: str) -> bool:
    """Whether the gate is on, from the metrics of a process; those of versions without the gate lack it."""
    found = _METRIC.search(text)
    return found is not None and found[1] == "1"


def agreement(
    subject: str, gate: bool | None, version: tuple[int, int] | None, reader: api_reader.ApiReader
) -> doctor_checks.Result | None:
    """S19 for a kube-scheduler of a version; ``gate``: None if it was not seen. None if there is no gate."""
    if version is None:
        return catalog.GANGS.unsure(subject, "its version is not known", fix="kubectl version")
    if version < (1, _FIRST):
        return None
    kind = _KINDS[min(version[1], _LAST)]
    try:
        served = _served(lambda: reader.items(f"/apis/scheduling.k8s.io/{kind}"))
    except api_reader.Unseen as unseen:
        return catalog.GANGS.unsure(subject, unseen.reason, fix=unseen.fix)
    serving = f"the API server {'serves' if served else 'does not serve'} {kind}"
    if gate is None:
        return catalog.GANGS.unsure(
            subject,
            f"its metrics may not be read; {serving}",
            fix=f"use a kubeconfig whose user may get /metrics (ClusterRole {api_reader.ROLE})",
        )
    seen = f"{'on' if gate else 'off'}, and {serving}"
    if gate and not served:
        return catalog.GANGS.problem(
            subject,
            seen,
            why="kube-scheduler waits for the kind, and places no pod at all",
            fix=f"turn the gate on at the API server and serve the kind (--runtime-config="
            f"scheduling.k8s.io/{kind.partition('/')[0]}=true), or turn it off at kube-scheduler",
        )
    if served and not gate:
        return catalog.GANGS.warning(subject, seen)
    return catalog.GANGS.ok(subject, seen)


def _served(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except api_reader.Missing:
        return False
    return True
