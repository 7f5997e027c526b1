"""Asserts the form of errors and of lists."""

from typing import Any, TypeAlias

from werkzeug.test import TestResponse

Json: TypeAlias = Any
"""A value of a type that the test asserts."""


def body(response: TestResponse) -> Json:
    """The JSON of a reply."""
    assert response.mimetype == "application/json", response.text
    return response.json


def assert_stamped(response: TestResponse) -> None:
    """Assert that the reply carries its position and age."""
    incarnation, _, offset = response.headers["X-Topolog-Position"].rpartition("/")
    assert incarnation
    assert int(offset) >= 0
    assert float(response.headers["X-Topolog-Age"]) >= 0


def assert_problem(response: TestResponse, status: int, code: str, *words: str) -> None:
    """An error in the form of docs/reference/errors.md; its message contains ``words``."""
    assert response.status_code == status, response.text
    assert set(body(response)) == {"message", "reasonCode"}
    assert body(response)["reasonCode"] == code
    for word in words:
        assert word in body(response)["message"]
    assert_stamped(response)


def items(response: TestResponse) -> list[dict[str, Any]]:
    """The items of a list, its envelope checked."""
    assert response.status_code == 200, response.text
    assert set(body(response)) == {"items", "metadata"}
    assert set(body(response)["metadata"]) == {"position", "asOf", "continue", "remaining"}
    assert body(response)["metadata"]["position"] == response.headers["X-Topolog-Position"]
    assert_stamped(response)
    found: list[dict[str, Any]] = body(response)["items"]
    return found
