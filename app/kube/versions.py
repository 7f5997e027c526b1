"""resourceVersions: compared only as Kubernetes allows (KEP-5504).

Within one resource type, if both are plain decimal numbers; by length, then by text, so that no
size of number matters. Anything else is only equal or not.
"""


def comparable(version: str) -> bool:
    """Whether the version is a decimal number without leading zero."""
    return version.isascii() and version.isdigit() and (version[0] != "0" or version == "0")


def older(one: str, other: str) -> bool:
    """Whether the first is known to be older than the second."""
    return comparable(one) and comparable(other) and (len(one), one) < (len(other), other)


def newer(one: str, other: str) -> bool:
    """Whether the first brings something new after the second; true if they cannot be compared and differ."""
    return one != other and not older(one, other)
