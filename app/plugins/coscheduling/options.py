"""Koordinator's options of a gang: annotations and labels of its pods, or of its PodGroup.

Names and defaults: apis/extension/coscheduling.go and pkg/scheduler/plugins/coscheduling/util/gang_helper.go
in koordinator-sh/koordinator. An illegal value acts as an absent one. A list that Koordinator reads, and that
is not read here, is an error: ignored, it would let the gang go alone, or anywhere.
"""

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from app.domain.fit import go_numbers
from app.framework import views

PREFIX = "gang.scheduling.koordinator.sh/"
NAME = f"{PREFIX}name"
MINIMUM = f"{PREFIX}min-available"
INDEX = f"{PREFIX}network-topology-index"
SELECTOR = "scheduling.koordinator.sh/network-topology-selector"
"""Annotation of a pod: gangs of the same value attract one another."""
LABEL = "pod-group.scheduling.sigs.k8s.io"
OLD_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
MATCH_ALIAS = "pod-group.scheduling.sigs.k8s.io/match-policy"
VICTIMS = "topolog.io/gang-victims"
"""Annotation of a PodGroup or a pod: ``allow`` admits evictions that break up the gang."""

TOTAL = f"{PREFIX}total-number"
MODE = f"{PREFIX}mode"
MATCH = f"{PREFIX}match-policy"
WAITING = f"{PREFIX}waiting-time"
GROUPS = f"{PREFIX}groups"
TOPOLOGY = f"{PREFIX}network-topology-spec"

ANNOTATIONS = (
    NAME,
    MINIMUM,
    TOTAL,
    MODE,
    MATCH,
    WAITING,
    GROUPS,
    TOPOLOGY,
    INDEX,
    SELECTOR,
    MATCH_ALIAS,
    VICTIMS,
)
"""Annotations of pods and PodGroups that are kept."""

TERMS = views.Terms(
    values=frozenset((MINIMUM, MINIMUM_LABEL, TOTAL, MODE, MATCH, MATCH_ALIAS, WAITING, INDEX, VICTIMS)),
    # A layer is named as in the topology, by a constant, or by the label key of its domains.
    documents={GROUPS: frozenset(), TOPOLOGY: frozenset(("strategy", "layer"))},
)

Mode = Literal["Strict", "NonStrict"]
Match = Literal["only-waiting", "waiting-and-running", "once-satisfied"]
_MATCHES: tuple[Match, ...] = ("only-waiting", "waiting-and-running", "once-satisfied")
DEFAULT_WAIT = 600

_GROUPS, _RULES, _NAME = 100, 16, 317
"""Gangs that are placed together, rules of one topology, and characters of a name in them, at most."""


class Gather(NamedTuple):
    """A rule of the gang for one layer of the topology."""

    layer: str
    """Name of a layer, or a label key of nodes if it contains ``/``."""
    must: bool
    multiple: int = 1


class Options(NamedTuple):
    """The options of one gang."""

    minimum: int | None = None
    """None if there is none that can be read."""
    total: int = 0
    mode: Mode = "Strict"
    match: Match = "once-satisfied"
    waiting: int = DEFAULT_WAIT
    """Seconds."""
    groups: tuple[str, ...] = ()
    """``namespace/name`` of the gangs that are placed together, sorted; empty for the gang alone."""
    gather: tuple[Gather, ...] = ()
    victims: bool = False
    errors: tuple[str, ...] = ()
    """Why the gang cannot be placed as the options demand."""


def read(annotations: Mapping[str, str], labels: Mapping[str, str]) -> Options:
    """The options that a pod or a PodGroup carries."""
    match = annotations.get(MATCH, annotations.get(MATCH_ALIAS, ""))
    groups, unknown = _groups(annotations.get(GROUPS, ""))
    gather, excess = _gather(annotations.get(TOPOLOGY, ""))
    return Options(
        minimum=minimum(annotations, labels),
        total=number(annotations.get(TOTAL)) or 0,
        mode="NonStrict" if annotations.get(MODE) == "NonStrict" else "Strict",
        match=next((one for one in _MATCHES if one == match), "once-satisfied"),
        waiting=seconds(annotations.get(WAITING, "")) or DEFAULT_WAIT,
        groups=groups,
        gather=gather,
        victims=annotations.get(VICTIMS) == "allow",
        errors=tuple(filter(None, (unknown, excess))),
    )


def minimum(annotations: Mapping[str, str], labels: Mapping[str, str]) -> int | None:
    """The minimum alone; None if there is none that can be read."""
    return number(labels.get(MINIMUM_LABEL, annotations.get(MINIMUM)))


def number(text: str | None) -> int | None:
    """A whole number of 32 bits, as Go's ParseInt reads it."""
    return go_numbers.go_integer(text, 32) if text is not None else None


def seconds(text: str) -> int:
    """A duration of Go in seconds, rounded up; 0 if there is none that can be read, or it is not positive."""
    return max(0, min(2**31 - 1, math.ceil(go_numbers.go_duration(text) or 0.0)))


def _groups(text: str) -> tuple[tuple[str, ...], str]:
    """The gangs, sorted, or why they cannot be placed together."""
    found = _json(text)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        return (), ""
    gangs = tuple(sorted(set(found)))
    odd = next((one for one in gangs if one.count("/") != 1 or len(one) > _NAME), None)
    if odd is not None:
        return (), f"{GROUPS} lists {odd[:80]!r}, which is not NAMESPACE/NAME"
    if len(gangs) > _GROUPS:
        return (), f"{GROUPS} lists {len(gangs)} gangs; at most {_GROUPS} are placed together"
    return gangs, ""


def _gather(text: str) -> tuple[tuple[Gather, ...], str]:
    """The rules, or why they cannot be followed."""
    found = _json(text)
    listed = found.get("gatherStrategy") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return (), ""
    if len(listed) > _RULES:
        return (), f"{TOPOLOGY} has {len(listed)} rules; at most {_RULES} are allowed"
    rules = []
    for one in listed:
        layer = one.get("layer") if isinstance(one, dict) else None
        if not isinstance(layer, str) or not layer:
            continue
        if len(layer) > _NAME:
            return (), f"{TOPOLOGY} names a layer of {len(layer)} characters; at most {_NAME} are allowed"
        multiple = one.get("podCountMultiple", 1)
        legal = isinstance(multiple, int) and not isinstance(multiple, bool) and 1 <= multiple < 2**31
        rules.append(Gather(layer, one.get("strategy") == "MustGather", multiple if legal else 1))
    return tuple(rules), ""


def _json(text: str) -> object:
    if not text or len(text) > 64 * 1024:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
