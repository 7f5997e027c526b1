"""The version of the simulated API server, and its answers to questions about permissions."""

import json

from app.simulation.apiserver import operations, requests, status_replies

VERSION = "v1.37.0"
"""Of the API server whose behaviour is simulated."""
GROUP = "/apis/authorization.k8s.io/v1/"
_PATHS = {
    f"{GROUP}selfsubjectaccessreviews": "SelfSubjectAccessReview",
    f"{GROUP}subjectaccessreviews": "SubjectAccessReview",
}

Right = tuple[str, str, str, str]
"""User (empty: the caller), verb, API group, and resource with its subresource (``pods/binding``) or path."""


class Reviews:
    """Allows everything but ``denied``, and of that what is granted in a namespace."""

    def __init__(self) -> None:
        self.denied: set[Right] = set()
        self.granted: set[tuple[Right, str]] = set()
        """What is allowed although it is denied, and the namespace of the RoleBinding."""
        self.version = VERSION

    def answer(self, request: requests.Request) -> tuple[int, bytes] | None:
        """The reply to a question of this module; None for other requests. Raises StatusError."""
        if request.path == "/version" and request.method == "GET":
            return 200, json.dumps({"gitVersion": self.version, "platform": "simulated"}).encode()
        kind = _PATHS.get(request.path)
        if kind is None or request.method != "POST":
            return None
        asked = operations.parsed(request.body)
        if asked.get("kind", kind) != kind or not isinstance(asked.get("spec"), dict):
            raise status_replies.bad(f"the object provided is no {kind}")
        spec = asked["spec"]
        attributes = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
        resource = attributes.get("path") or "/".join(
            filter(None, (attributes.get("resource"), attributes.get("subresource")))
        )
        right = (spec.get("user", ""), attributes.get("verb", ""), attributes.get("group", ""), resource)
        allowed = right not in self.denied or (right, attributes.get("namespace", "")) in self.granted
        return 201, json.dumps({**asked, "status": {"allowed": allowed}}).encode()
