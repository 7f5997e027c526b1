"""The sentence for which extenders do not rely on the store."""

import pytest

from app.domain.audit import findings
from workers.auditor import remedies


@pytest.mark.parametrize(
    ("number", "more"),
    [(1, ""), (2, " (and 1 more difference)"), (3, " (and 2 more differences)")],
)
def test_differences_beside_the_first_are_counted(number: int, more: str) -> None:
    wrong = [
        findings.Difference(kind="count", key=f"zone={zone}", expected="1", found="2", first=1, last=1)
        for zone in range(number)
    ]
    assert f"not 1{more}; the auditor repairs it" in remedies.problem(wrong, repair=True)
