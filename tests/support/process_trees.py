"""The processes that a process has started."""

import pathlib


def descendants(pid: int) -> list[int]:
    """The processes that were started by one, or by one of these."""
    listed = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for path in listed for child in path.read_text().split()]
    return [*children, *(each for child in children for each in descendants(child))]


def command(pid: int) -> str:
    """The command line of a process; empty once it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except FileNotFoundError:
        return ""
