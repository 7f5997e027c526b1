"""Reads objects of the API server for checks; what cannot be read is an Unseen with what to do about it."""

import http
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from app.framework import doctor_checks
from app.kube import errors
from app.kube.client import clients

T = TypeVar("T")
_PAGE = "500"
ROLE = "topolog-doctor"
"""The ClusterRole and the Role of deploy/roles with every right that the doctor uses."""


class Unseen(Exception):
    """Facts could not be read: the reason, and how they can be."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix

    def unsure(self, checks: Iterable[doctor_checks.Check]) -> Iterator[doctor_checks.Result]:
        """All of these checks without an answer."""
        return (check.unsure("the cluster", self.reason, fix=self.fix) for check in checks)


class Missing(Unseen):
    """The object does not exist, or the API server does not serve its kind."""


def seen(read: Callable[[], T]) -> T | Unseen:
    """What is read, or why it cannot be."""
    try:
        return read()
    except Unseen as unseen:
        return unseen


class ApiReader:
    """Reads whole lists and single objects, each list once."""

    def __init__(self, client: clients.Client) -> None:
        self._client = client
        self._lists: dict[str, list[Mapping[str, Any]]] = {}

    @property
    def host(self) -> str:
        """The API server's URL without credentials."""
        return self._client.host

    def get(self, path: str) -> Mapping[str, Any]:
        """One object. Raises Unseen, or Missing for 404."""
        try:
            return _object(self._client.get(path, timeout=10.0), path)
        except errors.KubeError as problem:
            raise _unseen(problem, "get", path) from problem

    def items(self, path: str) -> list[Mapping[str, Any]]:
        """All objects of a list, page by page. Raises Unseen, or Missing for 404."""
        if path not in self._lists:
            self._lists[path] = self._read(path)
        return self._lists[path]

    def allowed(self, attributes: Mapping[str, Mapping[str, str]], user: str | None = None) -> bool:
        """Whether a user may do something; None: the user of this reader. Raises Unseen.

        ``attributes``: the resourceAttributes or nonResourceAttributes of a review.
        """
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        path = f"/apis/authorization.k8s.io/v1/{kind.lower()}s"
        spec: dict[str, object] = dict(attributes)
        if user:
            spec["user"] = user
            spec["groups"] = _groups(user)
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        try:
            answer = _object(self._client.post(path, json.dumps(body).encode(), timeout=10.0), path)
        except errors.KubeError as problem:
            raise _unseen(problem, "create", path) from problem
        return bool(answer.get("status", {}).get("allowed"))

    def _read(self, path: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        parameters = {"limit": _PAGE}
        try:
            while True:
                page = _object(self._client.get(path, parameters, timeout=30.0), path)
                found += page.get("items") or ()
                following = page.get("metadata", {}).get("continue")
                if not following:
                    return found
                parameters = {"limit": _PAGE, "continue": following}
        except errors.KubeError as problem:
            raise _unseen(problem, "list", path) from problem


def _groups(user: str) -> list[str]:
    """The groups that the API server adds to a service account."""
    parts = user.split(":")
    if parts[:2] != ["system", "serviceaccount"]:
        return ["system:authenticated"]
    return ["system:serviceaccounts", f"system:serviceaccounts:{parts[2]}", "system:authenticated"]


def _object(body: bytes, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as problem:
        raise Unseen(
            f"the reply to {path} is not JSON", "name the API server in kube.kubeconfig"
        ) from problem
    if not isinstance(found, Mapping):
        raise Unseen(f"the reply to {path} is not an object", "name the API server in kube.kubeconfig")
    return found


def _unseen(problem: errors.KubeError, verb: str, path: str) -> Unseen:
    if isinstance(problem, errors.ApiError):
        if problem.status == http.HTTPStatus.NOT_FOUND:
            return Missing(f"{path} does not exist", "apply the manifests of deploy/")
        if problem.status in (http.HTTPStatus.FORBIDDEN, http.HTTPStatus.UNAUTHORIZED):
            return Unseen(
                f"the API server refuses to {verb} {path}: {problem}",
                f"bind the ClusterRole {ROLE} of deploy/roles to this user, and the Role of that name in"
                " Topolog's namespace, or use another kubeconfig",
            )
    return Unseen(f"{path} cannot be read: {problem}", "check kube.kubeconfig and kube.context")
