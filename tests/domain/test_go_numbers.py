"""Durations and whole numbers, as time.ParseDuration and strconv.ParseInt of Go 1.26 read them.

The tables were compared with the functions themselves.
"""

import pytest

from app.domain.fit import go_numbers

DURATIONS = {
    **dict.fromkeys(("0", "+0", "-0", "0s", ".0s", "0.0000000009s"), 0.0),
    **dict.fromkeys(("5s", "+5s", "5.s", "5000ms", "4s1000ms", "0" * 50 + "5s"), 5.0),
    **dict.fromkeys((".5s", "0.5s", "500000us", "500000µs", "500000μs"), 0.5),
    **{"1m.5s": 60.5, "-1.5h": -5400.0, "1h1h": 7200.0, "3ns2us1ms": 0.001002003, "1.9ns": 1e-9},
    # 20 minutes by the rounding of Go: exact arithmetic has a nanosecond less.
    "0.3333333333333333333h": 1200.0,
    f"0.{'9' * 60}s": 1.0,
    "9223372036854775807ns": (2**63 - 1) / 10**9,
    "-9223372036854775808ns": -(2**63) / 10**9,
    **dict.fromkeys(("", "+", "-", ".", "s", ".s", "-.s", "5", "00", "1m1", "1.1.1s", "5sm", "1d"), None),
    **dict.fromkeys(
        ("5s-3s", "--5s", "+-5s", "1 s", "1s ", "1s\n", "1S", "1e3s", "1_0s", "\N{ARABIC-INDIC DIGIT FIVE}s"),
        None,
    ),
    **dict.fromkeys(("9223372036854775808ns", "-9223372036854775809ns", f"{'9' * 5000}s"), None),
    **dict.fromkeys(("3000000h", "2562047h47m16.854775808s"), None),
}
INTEGERS = {
    **{"0": 0, "+5": 5, "-5": -5, "0" * 5000 + "7": 7, f"-{'0' * 50}7": -7},
    **{"2147483647": 2**31 - 1, "-2147483648": -(2**31)},
    **dict.fromkeys(("2147483648", "-2147483649", "9" * 5000), None),
    **dict.fromkeys(
        ("", "+", "--1", "+-1", "1_0", "0x1", "1.0", " 1", "1\n", "\N{ARABIC-INDIC DIGIT FIVE}"), None
    ),
}


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_is_read_as_by_go(text: str) -> None:
    assert go_numbers.go_duration(text) == DURATIONS[text]


@pytest.mark.parametrize("text", INTEGERS)
def test_a_whole_number_is_read_as_by_go(text: str) -> None:
    assert go_numbers.go_integer(text, 32) == INTEGERS[text]


def test_a_number_fits_into_the_bits_that_are_asked_for() -> None:
    assert go_numbers.go_integer("9223372036854775807", 64) == 2**63 - 1
    assert go_numbers.go_integer("-9223372036854775808", 64) == -(2**63)
    assert go_numbers.go_integer("9223372036854775808", 64) is None
