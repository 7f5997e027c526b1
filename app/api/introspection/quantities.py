"""Formats resource amounts as Kubernetes quantities: ``1500m``, ``64Gi``, ``8``."""

from collections.abc import Mapping

_BINARY = (("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10))


def written(resource: str, amount: int) -> str:
    """One amount of the model (milli-units of cpu, bytes, plain numbers) as a quantity."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, bits in _BINARY:
            if amount and amount % (1 << bits) == 0:
                return f"{amount >> bits}{suffix}"
    return str(amount)


def all_written(amounts: Mapping[str, int]) -> dict[str, str]:
    """Every resource as a quantity."""
    return {resource: written(resource, amount) for resource, amount in sorted(amounts.items())}
