"""Writes the digests of the artifacts again, once a file was added to them.

`python -m deploy.release.sums FOLDER`.
"""

import pathlib

import click

from deploy.release import artifacts


@click.command(name="sums")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=pathlib.Path))
def write(folder: pathlib.Path) -> None:
    """Write SHA256SUMS of all files in FOLDER."""
    artifacts.sums(folder)


if __name__ == "__main__":
    write()
