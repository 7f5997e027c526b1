"""docs/reference/campaigns.md has every campaign, and every variable that sets the size of one."""

import re

from tests.project import reference_pages

TESTS = reference_pages.ROOT / "tests"
PAGE = (reference_pages.REFERENCE / "campaigns.md").read_text()


def test_every_module_with_a_campaign_has_a_row() -> None:
    rows = re.findall(r"^\| [^|]+ \| `([^`|]+\.py)` \|", PAGE, re.MULTILINE)
    described = {row if "/" in row else f"tests/campaigns/{row}" for row in rows}
    marked = {
        path.relative_to(TESTS.parent).as_posix()
        for path in TESTS.rglob("test_*.py")
        if re.search(r"pytest\.mark\.campaign", path.read_text())
    }
    assert len(marked) > 20
    assert described == marked


def test_every_variable_of_a_size_is_named() -> None:
    given = {
        name
        for path in TESTS.rglob("*.py")
        for name in re.findall(r"\bsizes\.of\(\"(\w+)\"", path.read_text())
    }
    # Those that sizes reads itself.
    given |= {"DEPTH", "FIRST_SEED"}
    assert {"SEEDS", "FEW_KILLS", "MIGRATE_KILLS"} <= given
    assert set(re.findall(r"\bCAMPAIGN_([A-Z_]+)", PAGE)) == given
