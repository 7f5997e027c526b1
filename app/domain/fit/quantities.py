"""Parses Kubernetes quantities (``100m``, ``1.5Gi``, ``12e6``) into integers, and formats them.

Parsed values are rounded up, as in kube-scheduler, and limited to 63 bits, so that no exponent costs memory.
Syntax: k8s.io/apimachinery/pkg/api/resource, quantity.go.
"""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

LARGEST = 2**63 - 1

_SYNTAX = re.compile(
    r"\A([+-]?)(\d{1,40})?(?:\.(\d{0,40}))?(?:([eE])([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i))?\Z",
    re.ASCII,
)
_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}

_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))
_BYTES = frozenset(
    (
        "memory",
        "ephemeral-storage",
        "kubernetes.io/batch-memory",
        "kubernetes.io/mid-memory",
        "koordinator.sh/gpu-memory",
    )
)
"""Resources in bytes, Koordinator's included (its apis/extension: resource.go, device_share.go)."""


def parse(text: str | int | float, resource: str = "") -> int:
    """The quantity of a resource: milli-units for ``cpu``, else whole units (bytes for memory).

    Raises ValueError, with a text for people, for an invalid quantity.
    """
    value = _value(text)
    whole = math.ceil(value * 1000 if resource == "cpu" else value)
    return max(-LARGEST, min(LARGEST, whole))


def _value(text: str | int | float) -> Fraction:
    if isinstance(text, float):
        if not math.isfinite(text):
            raise ValueError(f"{text} is not a quantity")
        # The shortest decimal, as it is spelled in JSON: 0.1 in binary is a little more than 100m.
        return Fraction(str(text))
    if isinstance(text, int):
        return Fraction(text)
    match = _SYNTAX.match(text)
    if match is None or not (match[2] or match[3]):
        raise ValueError(f"{text[:64]!r} is not a quantity such as 100m, 1.5Gi or 12e6")
    sign, digits, decimals, _, exponent, suffix = match.groups()
    number = Fraction(int((digits or "") + (decimals or "")), 10 ** len(decimals or ""))
    if sign == "-":
        number = -number
    if exponent is not None:
        return number * Fraction(10) ** max(-60, min(60, int(exponent)))
    return number * _SUFFIXES.get(suffix, Fraction(1)) if suffix else number


def in_bytes(resource: str) -> bool:
    """Whether amounts of the resource are bytes; otherwise they are milli-units of cpu, or plain numbers."""
    return resource in _BYTES or resource.startswith("hugepages-")


def written(resource: str, amount: int) -> str:
    """An amount (milli-units of cpu, bytes, plain numbers) as a quantity: ``1500m``, ``64Gi``, ``8``."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if in_bytes(resource):
        for suffix, bits in _BINARY:
            if amount and amount % (1 << bits) == 0:
                return f"{amount >> bits}{suffix}"
    return str(amount)


def total(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum by resource."""
    sums: dict[str, int] = {}
    for one in amounts:
        for resource, amount in one.items():
            sums[resource] = sums.get(resource, 0) + amount
    return sums


def all_written(amounts: Mapping[str, int]) -> dict[str, str]:
    """Every resource as a quantity, by name."""
    return {resource: written(resource, amount) for resource, amount in sorted(amounts.items())}
