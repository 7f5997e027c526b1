"""Error replies of the simulated API server, with the texts of the real one."""

import http

import msgspec


class StatusError(Exception):
    """A failed request: HTTP status, and reason and message of its metav1.Status."""

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


def not_found(resource: str, name: str) -> StatusError:
    """404: no object has the name."""
    return StatusError(http.HTTPStatus.NOT_FOUND, "NotFound", f'{resource} "{name}" not found')


def exists(resource: str, name: str) -> StatusError:
    """409: an object has the name already."""
    return StatusError(http.HTTPStatus.CONFLICT, "AlreadyExists", f'{resource} "{name}" already exists')


def conflict(resource: str, name: str, why: str) -> StatusError:
    """409: the object does not meet a precondition."""
    return StatusError(
        http.HTTPStatus.CONFLICT, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    )


def expired(message: str) -> StatusError:
    """410: the requested version was compacted."""
    return StatusError(http.HTTPStatus.GONE, "Expired", message)


def invalid(resource: str, name: str, why: str) -> StatusError:
    """422: the object is invalid."""
    return StatusError(
        http.HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", f'{resource} "{name}" is invalid: {why}'
    )


def bad(why: str) -> StatusError:
    """400: the request is malformed."""
    return StatusError(http.HTTPStatus.BAD_REQUEST, "BadRequest", why)


SUCCESS = msgspec.json.encode(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
)
