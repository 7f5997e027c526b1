"""Quantities in every form that the API server accepts."""

import pytest

from app.domain.fit import quantities


@pytest.mark.parametrize(
    ("text", "resource", "amount"),
    [
        ("100m", "cpu", 100),
        ("1", "cpu", 1000),
        ("0.5", "cpu", 500),
        ("1.0001", "cpu", 1001),
        ("1u", "cpu", 1),
        ("2k", "cpu", 2_000_000),
        ("128974848", "memory", 128_974_848),
        ("129e6", "memory", 129_000_000),
        ("129M", "memory", 129_000_000),
        ("123Mi", "memory", 128_974_848),
        ("1.5Gi", "memory", 1_610_612_736),
        ("1Ki", "memory", 1024),
        ("1Ti", "memory", 2**40),
        ("1Pi", "memory", 2**50),
        ("1Ei", "memory", 2**60),
        ("1E", "memory", 10**18),
        ("1E3", "memory", 1000),
        ("100m", "memory", 1),
        (".5", "example.com/gpu", 1),
        ("+3", "example.com/gpu", 3),
        (4, "example.com/gpu", 4),
        (0.25, "cpu", 250),
        (0.1, "cpu", 100),
        (1.1, "cpu", 1100),
        (1e3, "memory", 1000),
        (1e22, "memory", quantities.LARGEST),
        (1e-7, "cpu", 1),
        ("100Ei", "memory", quantities.LARGEST),
        ("1e999", "memory", quantities.LARGEST),
        ("1e-999", "memory", 1),
        ("0", "memory", 0),
    ],
)
def test_amount(text: str | int | float, resource: str, amount: int) -> None:
    assert quantities.parse(text, resource) == amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 2**36, "64Gi"),
        ("memory", 4 * 10**9, "3906250Ki"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("kubernetes.io/batch-memory", 2**36, "64Gi"),
        ("kubernetes.io/mid-memory", 2**36, "64Gi"),
        ("kubernetes.io/batch-cpu", 2048, "2048"),
        ("koordinator.sh/gpu-memory", 2**36, "64Gi"),
        ("koordinator.sh/gpu-memory-ratio", 1024, "1024"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_an_amount_is_written_in_its_unit(resource: str, amount: int, text: str) -> None:
    assert quantities.written(resource, amount) == text
    assert quantities.parse(text, resource) == amount


@pytest.mark.parametrize(
    "text", ["", "m", ".", "1 Gi", "1gi", "1e", "0x10", "1e9999", "1" * 41, "NaN", float("nan"), "1\u0662"]
)
def test_an_invalid_quantity_is_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantities.parse(text)
