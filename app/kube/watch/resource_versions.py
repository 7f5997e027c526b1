"""Compares resourceVersions as Kubernetes allows (KEP-5504).

Two versions of one resource type can be ordered if both are decimal numbers: by length, then by text, so
that numbers of any size work. Other versions are only equal or different.
"""


def comparable(version: str) -> bool:
    """Whether the version is a decimal number without a leading zero."""
    return version.isascii() and version.isdigit() and (version[0] != "0" or version == "0")


def older(one: str, other: str) -> bool:
    """Whether ``one`` is known to be older than ``other``."""
    return comparable(one) and comparable(other) and (len(one), one) < (len(other), other)


def newer(one: str, other: str) -> bool:
    """Whether ``one`` may be newer than ``other``: it is, or the two differ and cannot be compared."""
    return one != other and not older(one, other)
