"""What the simulated API server answers when it refuses, in the words of the real one."""

import http
from typing import Any

import msgspec

Json = dict[str, Any]


class Refused(Exception):
    """A request is refused: HTTP status, reason and message of a metav1.Status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        super().__init__(f"{status} {reason}: {message}")

    @property
    def body(self) -> bytes:
        """The metav1.Status as JSON."""
        return msgspec.json.encode(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": self.message,
                "reason": self.reason,
                "code": self.status,
            }
        )


def not_found(resource: str, name: str) -> Refused:
    """No object of that name."""
    return Refused(http.HTTPStatus.NOT_FOUND, "NotFound", f'{resource} "{name}" not found')


def exists(resource: str, name: str) -> Refused:
    """The name is taken."""
    return Refused(http.HTTPStatus.CONFLICT, "AlreadyExists", f'{resource} "{name}" already exists')


def conflict(resource: str, name: str, why: str) -> Refused:
    """The object is not as the request expects it."""
    return Refused(
        http.HTTPStatus.CONFLICT, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    )


def expired(message: str) -> Refused:
    """The past that is asked for was compacted."""
    return Refused(http.HTTPStatus.GONE, "Expired", message)


def invalid(resource: str, name: str, why: str) -> Refused:
    """The object is none."""
    return Refused(http.HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", f'{resource} "{name}" is invalid: {why}')


def bad(why: str) -> Refused:
    """The request is none."""
    return Refused(http.HTTPStatus.BAD_REQUEST, "BadRequest", why)


SUCCESS = msgspec.json.encode(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
)
