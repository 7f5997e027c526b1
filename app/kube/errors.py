"""What can go wrong between Topolog and the API server.

Own errors rather than those of urllib3 or ssl: callers decide by what happened (refused, not
reachable, not understood), never by which library noticed it.
"""

_LONGEST = 500
"""Characters of a foreign text that are worth repeating."""


class KubeError(Exception):
    """Something between Topolog and the API server went wrong."""


class Misconfigured(KubeError):
    """No usable kubeconfig and no service account; the text says what was looked for."""


class ApiError(KubeError):
    """The API server refused: ``status`` is the HTTP code, ``reason`` its one word for it.

    ``original``: the answer is a metav1.Status that names this code, so the API server itself sent it. Any
    other answer may come from a proxy, which does not know what the API server did.
    """

    def __init__(
        self, status: int, reason: str, message: str, *, retry_after: float = 0.0, original: bool = True
    ) -> None:
        self.status = status
        self.original = original
        self.reason = reason
        self.message = message[:_LONGEST]
        self.retry_after = retry_after
        super().__init__(f"API server answered {status} {reason}: {self.message}")


class Expired(ApiError):
    """410: the resourceVersion or the continue token is too old; only a new list helps."""


class Unreachable(KubeError):
    """No answer: refused, reset, timed out, or no TLS. Whether a write took effect is unknown.

    ``refused`` tells that not even a connection came about, so that nothing took effect.
    """

    def __init__(self, text: str, *, refused: bool = False) -> None:
        self.refused = refused
        super().__init__(text[:_LONGEST])


class Undecodable(KubeError):
    """An object could not be understood: which kind, which name as far as readable, and why."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        self.kind = kind
        self.name = name
        self.reason = reason[:_LONGEST]
        super().__init__(f"{kind} {name or '(unnamed)'} cannot be decoded: {self.reason}")


class Oversized(Undecodable):
    """An object is larger than what is kept of one (bounds)."""
