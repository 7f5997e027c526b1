"""The page of the versions, and the table of the README, made from the recorded results."""

import re
from collections.abc import Iterator, Sequence

from tests.e2e import control_plane_builds, go_programs
from tests.matrix import dimensions, results

PAGE = dimensions.ROOT / "docs" / "reference" / "versions.md"
README = dimensions.ROOT / "README.md"
_HEADING = "## Tested versions\n\n"
NOTE = "<!-- Made from tests/matrix/results.json by `make matrix` and `make docs`. -->\n"
INTRODUCTION = {
    dimensions.KUBERNETES: "kube-apiserver, kube-scheduler and kube-controller-manager of the version, with"
    " its etcd, run the end-to-end tests.",
    dimensions.STORE: "The tests of the store, of its migrations and of the scenarios.",
    dimensions.PYTHON: "All tests that need no Kubernetes, in an environment from `requirements.lock`.",
}
BESIDE = {
    dimensions.KUBERNETES: "The tests of the chart (`tests/e2e/deploy/test_chart.py`) run with "
    + " and ".join(f"Helm {each.version.removeprefix('v')}" for each in go_programs.HELM.values())
    + ".",
    dimensions.PYTHON: "3.14: not run. `requirements.lock` has all that its packages require there"
    " (`tests/project/test_tree.py`).",
}
"""What a table cannot show: versions that have no column."""
HEADINGS = {dimensions.STORE: "Redis and Valkey"}
LIMITS = {
    "Valkey 9.0.0": "In a Redis Cluster it loses appends when a node restarts, because it loads the"
    " append-only file of a node with keys of several clusters into wrong slots"
    " ([valkey-io/valkey#2995](https://github.com/valkey-io/valkey/issues/2995)). `topolog doctor store`"
    " reports it (Q31), and the tests expect the loss to be detected. Single servers are not affected.",
}
"""Version -> what does not hold on it."""
_SHOWN = 5
"""Failed tests of a row that are named."""
_KNOWN = {
    dimensions.KUBERNETES: control_plane_builds.versions(),
    dimensions.STORE: list(dimensions.WHEELS),
    dimensions.PYTHON: [],
}
"""Versions that any machine with Go can run tests on: they are shown even without a run."""


def publish() -> None:
    """Write the page, and the table in the README."""
    recorded = results.read()
    PAGE.write_text(page(recorded))
    head, heading, rest = README.read_text().partition(_HEADING)
    _, _, after = rest.partition("\n\n")
    README.write_text(f"{head}{heading}{summary(recorded)}\n{after}")


def readme_table() -> str:
    """Return the table as it is in the README."""
    _, _, rest = README.read_text().partition(_HEADING)
    return rest.partition("\n\n")[0] + "\n"


def page(recorded: Sequence[results.Result]) -> str:
    """Return docs/reference/versions.md."""
    lines = [
        "# Versions\n",
        NOTE,
        "What was run on which version. `make matrix` runs the tests on every version that a machine has and"
        " records the results, and `make record` records those of `make test` and `make e2e`;"
        " [CONTRIBUTING](../../CONTRIBUTING.md) describes how to choose some. A cell has the number of tests"
        " that passed, failed and were skipped, and the day.\n",
    ]
    for dimension in dimensions.DIMENSIONS:
        mine = [result for result in recorded if result.dimension == dimension]
        lines += [f"## {HEADINGS.get(dimension, dimension)}\n", f"{INTRODUCTION[dimension]}\n"]
        lines += [*_table(dimension, mine), ""]
        if dimension in BESIDE:
            lines.append(f"{BESIDE[dimension]}\n")
        lines += _notes(mine)
    return "\n".join(lines)


def summary(recorded: Sequence[results.Result]) -> str:
    """Return the table "Tested versions" of the README: no version without a test that passed on it."""
    lines = ["| | all tests passed | some tests were run |", "|---|---|---|"]
    for dimension in dimensions.DIMENSIONS:
        mine = [result for result in recorded if result.dimension == dimension]
        whole: list[str] = []
        part: list[str] = []
        for version in _versions(mine):
            of = {result.tests: result for result in mine if result.version == version}
            complete = set(of) >= set(dimensions.rows(dimension))
            (whole if complete and not any(one.failed for one in of.values()) else part).append(version)
        lines.append(
            f"| {HEADINGS.get(dimension, dimension)} | {', '.join(whole) or '-'} | {', '.join(part) or '-'} |"
        )
    return "\n".join(lines) + "\n"


def _table(dimension: str, mine: Sequence[results.Result]) -> Iterator[str]:
    known = {result.key[1:]: result for result in mine}
    versions = _versions(mine, _KNOWN[dimension])
    if not versions:
        yield "Not run yet."
        return
    yield f"| | {' | '.join(versions)} |"
    yield "|---|" + "---|" * len(versions)
    # A row of former tests stays until the version is run again.
    for row in sorted({*dimensions.rows(dimension), *(result.tests for result in mine)}):
        cells = (_cell(known.get((version, row))) for version in versions)
        yield f"| `{row}` | {' | '.join(cells)} |"
    minutes = [sum(result.seconds for result in mine if result.version == name) / 60 for name in versions]
    yield f"| minutes | {' | '.join(f'{each:.0f}' if each else '-' for each in minutes)} |"


def _cell(result: results.Result | None) -> str:
    if result is None:
        return "not run"
    skipped = sum(result.skipped.values())
    counts = (("passed", result.passed), ("failed", len(result.failed)), ("skipped", skipped))
    return f"{', '.join(f'{count} {word}' for word, count in counts if count) or 'none'}; {result.date}"


def _notes(mine: Sequence[results.Result]) -> Iterator[str]:
    """What the cells have no capacity for."""
    for version in _versions(mine):
        of = [result for result in mine if result.version == version]
        topolog = ", ".join(sorted({result.topolog for result in of}))
        beside = ", ".join(sorted({result.beside for result in of} - {""}))
        yield f"{version}: by Topolog {topolog}" + (f" with {beside}." if beside else ".")
        if version in LIMITS:
            yield f"\n{LIMITS[version]}"
        lines = [line for result in of for line in _failures(result)]
        reasons: dict[str, int] = {}
        for result in of:
            for reason, count in result.skipped.items():
                reasons[reason] = reasons.get(reason, 0) + count
        lines += [f"- {count} skipped: {reason}" for reason, count in sorted(reasons.items())]
        yield "\n".join(["", *lines, ""]) if lines else ""


def _failures(result: results.Result) -> Iterator[str]:
    for name in result.failed[:_SHOWN]:
        yield f"- failed: `{name}`"
    if len(result.failed) > _SHOWN:
        yield f"- failed: {len(result.failed) - _SHOWN} more of `{result.tests}`"


def _versions(mine: Sequence[results.Result], known: Sequence[str] = ()) -> list[str]:
    found = {result.version for result in mine} | set(known)
    return sorted(
        found,
        key=lambda name: [
            (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[ .]", name)
        ],
    )
