"""Commands are packed without redis-py, byte for byte as redis-py packs them."""

from typing import Any

import pytest
import redis

from app.store.server import connections


@pytest.mark.parametrize(
    "arguments",
    [
        ("FCALL", "topolog_append_3", 5, "topolog:{c}:log", b"\x00\r\n\xff", "", 0, -7, 2**62),
        ("XRANGE", "topolog:{c}:log", "12", "+", "COUNT", 1000),
        ("SET", "key", "Grüße \U0001f600", "x" * 100_000),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_has_the_bytes_that_redis_py_sends(arguments: tuple[str | bytes | int, ...]) -> None:
    theirs: Any = redis.Connection  # redis-py is untyped.

    assert b"".join(connections.Wire.pack(*arguments)) == b"".join(theirs().pack_command(*arguments))
