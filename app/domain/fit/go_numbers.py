"""Reads durations and whole numbers as Go does: by time.ParseDuration and strconv.ParseInt (Go 1.26).

The results are those of its sources, src/time/format.go and src/strconv/atoi.go, the rounding included. Texts
of any length take linear time.
"""

import re

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "\N{MICRO SIGN}s": 10**3,
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""Nanoseconds of each."""
_NUMBER = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
_DURATION = re.compile(rf"[+-]?(?:0|(?:(?:{_NUMBER})(?:{'|'.join(_UNITS)}))+)")
_PART = re.compile(rf"([0-9]*)(?:\.([0-9]*))?({'|'.join(_UNITS)})")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DIGITS = 40
"""Digits of a fraction that can matter: of an hour, those behind the 13th are less than a nanosecond."""


def go_duration(text: str) -> float | None:
    """A duration in seconds, to the nanosecond; None if Go refuses it."""
    if not _DURATION.fullmatch(text):
        return None
    total = 0
    for whole, fraction, unit in _PART.findall(text):
        part = _magnitude(whole, 2**63)
        if part is None:
            return None
        total += part * _UNITS[unit] + _rounded(fraction[:_DIGITS], _UNITS[unit])
        if total > 2**63:
            return None
    if text.startswith("-"):
        return -total / 10**9
    return total / 10**9 if total < 2**63 else None


def _rounded(fraction: str, unit: int) -> int:
    """Nanoseconds of the digits, by the floating-point arithmetic of Go, which reads as many as fit."""
    while fraction and int(fraction) > 2**63:
        fraction = fraction[:-1]
    return int(float(int(fraction)) * (unit / 10 ** len(fraction))) if fraction else 0


def go_integer(text: str, bits: int) -> int | None:
    """A decimal number that fits into that many bits, with a sign; None if Go refuses it."""
    if not _INTEGER.fullmatch(text):
        return None
    number = _magnitude(text.lstrip("+-"), 2 ** (bits - 1))
    if number is None:
        return None
    if text.startswith("-"):
        return -number
    return number if number < 2 ** (bits - 1) else None


def _magnitude(digits: str, most: int) -> int | None:
    """The number, 0 for no digits; None if it is above ``most``, which has at most 40 digits."""
    significant = digits.lstrip("0")
    if len(significant) > _DIGITS:
        return None
    number = int(significant or 0)
    return number if number <= most else None
