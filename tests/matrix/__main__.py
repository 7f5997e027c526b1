"""`python -m tests.matrix`: run tests on several versions, record the results, write page and README."""

import subprocess
import sys
from collections.abc import Sequence

import click

from tests.matrix import dimensions, page, results, version_runs


@click.command()
@click.argument("tests", nargs=-1)
@click.option("--kubernetes", multiple=True, help="A version, or all.")
@click.option(
    "--store", multiple=True, help="A version such as 'Valkey 9.0.0', the path of a server, or all."
)
@click.option("--python", multiple=True, help="A version such as 3.12, or all.")
def main(
    tests: Sequence[str], kubernetes: Sequence[str], store: Sequence[str], python: Sequence[str]
) -> None:
    """Run the TESTS, files or folders of the page, on these versions; without options, on all."""
    wanted = dict(zip(dimensions.DIMENSIONS, (kubernetes, store, python), strict=True))
    if not any(wanted.values()):
        wanted = dict.fromkeys(wanted, ("all",))
    rows = {dimension: dimensions.rows(dimension) for dimension in wanted}
    named = [each.rstrip("/") for each in tests]
    for each in named:
        if not any(each in rows[dimension] for dimension in wanted if wanted[dimension]):
            raise click.ClickException(f"{each} is not a row of the page: only whole rows are recorded")
    try:
        chosen = [one for name, versions in wanted.items() for one in dimensions.selected(name, versions)]
    except dimensions.Unavailable as reason:
        raise click.ClickException(str(reason)) from reason
    failed = False
    for version in chosen:
        asked = [row for row in rows[version.dimension] if not named or row in named]
        click.echo(f"{version.dimension} {version.name}: {len(asked)} rows of tests", err=True)
        try:
            for result in version_runs.run(version, asked):
                failed |= bool(result.failed)
                # At once: a run of all versions takes hours and may be interrupted.
                results.record([result])
                page.publish()
        except (subprocess.CalledProcessError, RuntimeError) as error:
            click.echo(f"{version.dimension} {version.name}: {error}", err=True)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
