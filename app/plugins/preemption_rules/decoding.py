"""Decodes PodDisruptionBudgets (policy/v1).

The API server has validated them. The disruption controller keeps their status, of which kube-scheduler reads
``disruptionsAllowed`` and ``disruptedPods``.
"""

import msgspec

from app.domain import model, selectors
from app.domain.fit import budgets
from app.framework import manifests

SELECTOR = 16 * 1024
"""Maximum bytes of the JSON of a selector."""
DISRUPTED = 1_000
"""Maximum entries of status.disruptedPods; each stays until its pod is gone, for two minutes at most."""


class _Requirement(manifests.ApiStruct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(manifests.ApiStruct):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _Spec(manifests.ApiStruct):
    selector: msgspec.Raw = msgspec.Raw(b"null")


class _Status(manifests.ApiStruct):
    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, msgspec.Raw] | None = None


class _Named(manifests.ApiStruct):
    metadata: manifests.Metadata


class _Manifest(manifests.ApiStruct):
    spec: _Spec | None = None
    status: _Status | None = None


_named = msgspec.json.Decoder(_Named)
_manifest = msgspec.json.Decoder(_Manifest)
_selector = msgspec.json.Decoder(_Selector | None)


def budget(raw: bytes | msgspec.Raw) -> budgets.DisruptionBudget:
    """The budget of its JSON; one that cannot be read whole has an ``error`` and selects no pod.

    Raises ValueError only if the budget cannot be identified.
    """
    metadata = _named.decode(raw).metadata
    bare = budgets.DisruptionBudget(uid=metadata.uid, namespace=metadata.namespace, name=metadata.name)
    try:
        seen = _manifest.decode(raw)
        spelled = bytes(seen.spec.selector) if seen.spec is not None else b"null"
        status = seen.status or _Status()
        disrupted = status.disrupted_pods or {}
        if len(spelled) > SELECTOR:
            raise ValueError(f"spec.selector takes {len(spelled)} bytes; at most {SELECTOR} are kept")
        if len(disrupted) > DISRUPTED:
            raise ValueError(
                f"status.disruptedPods has {len(disrupted)} entries; at most {DISRUPTED} are kept"
            )
        selector = _selector.decode(spelled)
    except ValueError as problem:
        return msgspec.structs.replace(bare, error=manifests.shortened(str(problem), 512))
    return msgspec.structs.replace(
        bare,
        selector=_kept(selector) if selector is not None else None,
        allowed=status.disruptions_allowed or 0,
        disrupted=tuple(sorted(disrupted)),
    )


def check(found: budgets.DisruptionBudget) -> tuple[str, ...]:
    """Why a budget is not kept whole, and what the API server would refuse in one with these fields."""
    if found.error:
        return (found.error,)
    return () if found.selector is None else tuple(selectors.problems(found.selector))


def _kept(selector: _Selector) -> model.Selector:
    return model.Selector(
        selector.match_labels or {},
        tuple(
            model.Requirement(one.key, one.operator, tuple(one.values or ()))
            for one in selector.match_expressions or ()
        ),
    )
