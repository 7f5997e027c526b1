"""Effective resource requests of a pod.

The rule of Kubernetes (component-helpers/resource PodRequests): the containers and the sidecars (init
containers that always restart) run together; each other init container runs alone beside the sidecars
started before it; pod-level requests override those of the containers for cpu, memory and huge pages; the
overhead is added.
"""

import functools

from app.domain.fit import quantities
from app.kube.objects import bounds, interning, schema

Amounts = dict[str, int]
_Items = tuple[tuple[str, str | int | float], ...]
_Shape = tuple[tuple[_Items, ...], tuple[tuple[bool, _Items], ...], _Items, _Items]

_NONE: Amounts = {}
# Few different quantities occur in a cluster.
_parse = functools.lru_cache(maxsize=16_384)(quantities.parse)


def effective(spec: schema.PodSpec | None) -> Amounts:
    """Resource -> amount (cpu in milli-units). Pods of the same shape share the dict: do not modify it.

    Raises ValueError for an invalid quantity, Exceeded for too many resources.
    """
    if spec is None:
        return _NONE
    shape = (
        tuple([_items(container) for container in spec.containers or ()]),
        tuple([(c.restart_policy == "Always", _items(c)) for c in spec.init_containers or ()]),
        tuple(spec.overhead.items()) if spec.overhead else (),
        tuple(spec.resources.requests.items()) if spec.resources and spec.resources.requests else (),
    )
    return _effective(shape)


def _allocatable(items: _Items) -> Amounts:
    bounds.check("resources", (name for name, _ in items), bounds.RESOURCES)
    return {name: _parse(value, name) for name, value in items}


def _weight(items: _Items) -> int:
    return sum(len(name) + len(str(value)) for name, value in items)


amounts = interning.Shared(_allocatable, weigh=_weight)
"""Quantities as (name, text) items -> amounts. The dicts are shared: do not modify them."""


def _items(container: schema.Container) -> _Items:
    resources = container.resources
    return tuple(resources.requests.items()) if resources is not None and resources.requests else ()


def _sum(shape: _Shape) -> Amounts:
    containers, inits, overhead, whole = shape
    overridden = tuple([item for item in whole if _pod_level(item[0])])
    parts = (*containers, *(items for _, items in inits), overridden, overhead)
    bounds.check("resources", {name for items in parts for name, _ in items}, bounds.RESOURCES)
    total: Amounts = {}
    for items in containers:
        _add(total, amounts(items))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for restarts, items in inits:
        own = amounts(items)
        alone = sidecars if restarts else {name: sidecars.get(name, 0) for name in own}
        _add(alone, own)
        # Of all other resources, the peak has what the sidecars request already.
        for name in own:
            peak[name] = max(peak.get(name, 0), alone[name])
    _add(total, sidecars)
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in (*total, *peak)}
    if whole:
        total |= {name: amount for name, amount in amounts(whole).items() if _pod_level(name)}
    _add(total, amounts(overhead))
    return total


def _pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _weight_of_shape(shape: _Shape) -> int:
    containers, inits, overhead, whole = shape
    parts = (*containers, *(items for _, items in inits), overhead, whole)
    return 16 * len(parts) + sum(map(_weight, parts))


_effective = interning.Shared(_sum, weigh=_weight_of_shape)


def _add(total: Amounts, part: Amounts) -> None:
    for name, amount in part.items():
        total[name] = min(quantities.LARGEST, total.get(name, 0) + amount)
