"""`python -m tests.matrix.reports`: record the last `make test` and `make e2e`.

Both leave a report in build/ if they ran all tests, which are all rows of a version. The versions are those
of the environment that records.
"""

import datetime
import pathlib
import platform
import sys
import xml.etree.ElementTree
from collections.abc import Iterator

import app
from tests.e2e import control_plane_builds
from tests.matrix import dimensions, page, results, version_runs
from tests.matrix.dimensions import Version

FOLDER = dimensions.ROOT / "build"


def found(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, Version]]:
    """Each report of a folder with the versions that it is about."""
    tests = folder / "test.xml"
    if tests.exists():
        yield tests, Version(dimensions.PYTHON, platform.python_version())
        yield tests, Version(dimensions.STORE, dimensions.present_store())
    for name in ("", *control_plane_builds.versions()):
        path = folder / (f"e2e-{name}.xml" if name else "e2e.xml")
        if path.exists():
            yield path, Version(dimensions.KUBERNETES, name or control_plane_builds.newest())


def rows(report: str, version: Version) -> Iterator[results.Result]:
    """The results of each row that the report has tests of."""
    day = _day(report)
    for row in dimensions.rows(version.dimension):
        outcome = results.outcome(report, row)
        if outcome.passed or outcome.failed or outcome.skipped:
            yield results.Result(
                dimension=version.dimension,
                version=version.name,
                tests=row,
                date=day,
                topolog=app.__version__,
                beside=version_runs.beside(version),
                passed=outcome.passed,
                failed=outcome.failed,
                skipped=outcome.skipped,
                seconds=outcome.seconds,
            )


def _day(report: str) -> str:
    """The day in UTC on which the run of a report began."""
    suite = next(xml.etree.ElementTree.fromstring(report).iter("testsuite"))
    began = datetime.datetime.fromisoformat(suite.attrib["timestamp"]).astimezone(datetime.UTC)
    return began.date().isoformat()


def main() -> None:
    """Record every report."""
    any_found = False
    for path, version in found(FOLDER):
        made = list(rows(path.read_text(), version))
        results.record(made)
        print(f"{version.dimension} {version.name}: {len(made)} rows of {path.relative_to(dimensions.ROOT)}")
        any_found = True
    if not any_found:
        sys.exit("build/ has no report: run `make test` or `make e2e` without TARGET before")
    page.publish()


if __name__ == "__main__":
    main()
