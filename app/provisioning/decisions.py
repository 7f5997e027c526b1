"""The action on one Secret, decided from the Secret as it is.

A Secret that was not made here is used as it is, and never written. It is recognized by a label.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from app.kube.writes import secrets

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABELS: Final[Mapping[str, str]] = {
    "app.kubernetes.io/part-of": "topolog",
    MANAGED_BY: "topolog-bootstrap",
}
"""The labels of every Secret whose content is made here; the second one marks it."""


class Outcome(enum.StrEnum):
    """What was done with a Secret, or would be done."""

    CREATED = "created"
    RENEWED = "renewed"
    """Its certificate was replaced."""
    UPDATED = "updated"
    KEPT = "kept"
    SKIPPED = "skipped"
    """It does not exist, and is not needed or cannot be made here."""
    REFUSED = "refused"
    """It is unusable, and only an operator may decide what to do."""


@dataclass(frozen=True, slots=True)
class SecretDecision:
    """The action to take on a Secret, and why."""

    outcome: Outcome
    detail: str
    """One sentence for the operator; contains no secret."""
    data: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The new data; empty if nothing is written."""
    type: str = secrets.OPAQUE
    labels: Mapping[str, str] = field(default_factory=lambda: LABELS)
    """The labels of a Secret that is created."""

    @property
    def writes(self) -> bool:
        """Whether the Secret has to be written."""
        return self.outcome in (Outcome.CREATED, Outcome.RENEWED, Outcome.UPDATED)


def refused(detail: str) -> SecretDecision:
    """An unusable Secret; the detail names what to do."""
    return SecretDecision(Outcome.REFUSED, detail)


def made_here(secret: secrets.Secret) -> bool:
    """Whether the Secret was made by this command, in any version."""
    return secret.labels.get(MANAGED_BY) == LABELS[MANAGED_BY]


def lacking(secret: secrets.Secret, keys: tuple[str, ...]) -> str:
    """The keys that the Secret lacks or has empty, for a sentence; empty if it is complete."""
    return ", ".join(key for key in keys if not secret.data.get(key))
