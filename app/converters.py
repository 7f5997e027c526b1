"""Converts documents to typed values.

msgspec examines a type when it is first used, and stores the result before it is complete: another thread
that uses the type meanwhile ends the process with SIGSEGV. A converter examines its type when it is created,
so create it where the type is declared: at import, or before a process starts its threads.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Converter(Generic[T]):
    """Converts to one type. Thread-safe."""

    def __init__(self, kind: type[T]) -> None:
        """Raises TypeError if msgspec does not support the type."""
        self.type = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def convert(self, value: object) -> T:
        """The value of the type from decoded JSON. Raises msgspec.ValidationError."""
        return msgspec.convert(value, self.type)

    def decode(self, data: bytes | str | msgspec.Raw) -> T:
        """The value of the type from JSON. Raises as msgspec.json.decode does."""
        return self._decode(data)
