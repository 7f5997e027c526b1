"""Errors between Topolog and the API server.

Callers decide by the meaning of an error (refused, unreachable, undecodable), not by the library that
raised it. So errors of urllib3 and ssl never leave this package.
"""

_MAX_TEXT = 500
"""Characters of a foreign text that an error repeats."""


class KubeError(Exception):
    """Base of all errors between Topolog and the API server."""


class Misconfigured(KubeError):
    """No usable kubeconfig or service account; the text names the source that was tried."""


class ApiError(KubeError):
    """The API server refused a request: HTTP code, metav1 reason, message, and Retry-After in seconds.

    ``original``: the reply is a metav1.Status with the same code, so the API server itself sent it. Any
    other reply may come from a proxy, and states nothing about what the API server did.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float = 0.0, original: bool = True
    ) -> None:
        self.status = status
        self.original = original
        self.reason = reason
        self.message = message[:_MAX_TEXT]
        self.retry_after = retry_after
        super().__init__(f"API server answered {status} {reason}: {self.message}")


class Expired(ApiError):
    """410: the resourceVersion or the continue token has expired; a new list is required."""


class Unreachable(KubeError):
    """No reply: connection refused or reset, timeout, or failed TLS. A write may have taken effect.

    ``refused``: no connection was established, so nothing took effect.
    """

    def __init__(self, text: str, *, refused: bool = False) -> None:
        self.refused = refused
        super().__init__(text[:_MAX_TEXT])


class Undecodable(KubeError):
    """An object cannot be decoded: its kind, its name as far as it is readable, and the reason."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        self.kind = kind
        self.name = name
        self.reason = reason[:_MAX_TEXT]
        super().__init__(f"{kind} {name or '(unnamed)'} cannot be decoded: {self.reason}")


class Oversized(Undecodable):
    """An object exceeds a size limit (bounds)."""
