"""Finds out whether the API server serves a kind, by its own account: the discovery documents.

A 404 for a list proves nothing: a proxy that does not reach the API server answers 404, too, and an empty
list of what exists would give places away.
"""

import http

import msgspec

from app.kube import errors
from app.kube.client import clients

_SECONDS = 30.0
_GROUPS = "/apis"


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = []


class _GroupList(msgspec.Struct):
    kind: str
    groups: list[_Group] = []


class _Resource(msgspec.Struct):
    name: str = ""


class _ResourceList(msgspec.Struct):
    kind: str
    resources: list[_Resource] = []


_groups = msgspec.json.Decoder(_GroupList)
_resources = msgspec.json.Decoder(_ResourceList)


def serves(client: clients.Client, collection: str) -> bool:
    """Whether the collection ``/apis/GROUP/VERSION/RESOURCE`` is served; all below ``/api`` are.

    Raises KubeError if it is unknown, also if discovery is forbidden.
    """
    above, _, resource = collection.rpartition("/")
    if not above.startswith(f"{_GROUPS}/"):
        return True
    try:
        groups = _groups.decode(client.get(_GROUPS, timeout=_SECONDS))
        if groups.kind != "APIGroupList":
            raise errors.Undecodable("discovery", _GROUPS, f"it is a {groups.kind[:80]}")
        listed = {one.group_version for group in groups.groups for one in group.versions}
        if above.removeprefix(f"{_GROUPS}/") not in listed:
            return False
        found = _resources.decode(client.get(above, timeout=_SECONDS))
        if found.kind != "APIResourceList":
            raise errors.Undecodable("discovery", above, f"it is a {found.kind[:80]}")
        return any(one.name == resource for one in found.resources)
    except (ValueError, RecursionError) as problem:
        raise errors.Undecodable("discovery", _GROUPS, str(problem)) from problem
    except errors.ApiError as problem:
        if problem.status != http.HTTPStatus.FORBIDDEN:
            raise
        # Its 404 for the list may be that of a proxy: without the documents nothing proves the kind absent.
        text = (
            f"{problem.message}; whether {resource} exists is unknown: bind the ClusterRole system:discovery,"
            " or those of deploy/rbac"
        )
        raise errors.ApiError(problem.status, problem.reason, text, original=problem.original) from problem
