"""The roles of callers, and the URI by which a certificate assigns each."""

from typing import Final

SCHEDULER: Final = "scheduler"
VIEWER: Final = "viewer"
OPERATOR: Final = "operator"
ROLES: Final = (SCHEDULER, VIEWER, OPERATOR)


def uri(role: str) -> str:
    """Return the URI that assigns a role to a certificate."""
    return f"spiffe://topolog.io/role/{role}"
