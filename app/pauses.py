"""Pauses between attempts, as long as they fail."""


class Pauses:
    """Pauses between attempts that fail: each twice as long as the one before, up to the longest."""

    __slots__ = ("_first", "_longest", "following")

    def __init__(self, first: float, longest: float) -> None:
        """In seconds."""
        self._first = min(first, longest)
        self._longest = longest
        self.following = self._first
        """What ``take`` returns next."""

    def take(self) -> float:
        """Seconds until the next attempt."""
        taken, self.following = self.following, min(2 * self.following, self._longest)
        return taken

    def reset(self) -> None:
        """Begin with the first pause again: an attempt has succeeded."""
        self.following = self._first
