"""Seeds of the simulation, one or many.

    python -m tests.campaigns.seeds SEED [BUG]      # repeats a seed, and prints each step
    python -m tests.campaigns.seeds FIRST..LAST     # a part of the campaign; the line of each that fails

Parts can run side by side: each has a server of its own.
"""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

from app.store.server import embedded
from tests.support.simulation import histories
from tests.support.simulation.bugs import catalog, planted_bugs
from tests.support.simulation.oracle import guarantees

_UNEXPECTED = "an unexpected"
"""How the result begins of a history in which an error ended a process; its type follows."""


def check(
    seed: int,
    url: str,
    *,
    log_step: Callable[[str], None] = lambda _: None,
    cycles: Counter[str] | None = None,
) -> str:
    """The violated guarantee of this history; empty if there is none.

    ``cycles``: the cycles of a group that preempts are added: how they are judged, or why they are not.
    """
    simulation = histories.Simulation(seed, url, log_step=log_step)
    try:
        simulation.run()
    except guarantees.Broken as broken:
        return str(broken)
    except Exception as problem:
        # No fault may end a process with an unexpected error.
        return f"{_UNEXPECTED} {type(problem).__name__}: {problem}"
    finally:
        if cycles is not None:
            cycles.update(simulation.preemptions.cycles)
    return ""


def failing(
    seeds: Iterable[int], url: str, bug: str = "", *, cycles: Counter[str] | None = None
) -> list[str]:
    """For each failing seed the command that repeats it, and the violated guarantee."""
    found = []
    for seed in seeds:
        broken = check(seed, url, cycles=cycles)
        if broken:
            again = f"python -m tests.campaigns.seeds {seed}" + (f" {bug!r}" if bug else "")
            found.append(f"{again}    # {broken[:300]}")
            print(found[-1], flush=True)
    return found


def first_to_find(bug: planted_bugs.Bug, seeds: Iterable[int], url: str) -> int | None:
    """The first seed in which the bug, once planted, violates a guarantee; None if there is none."""
    with planted_bugs.planted(bug):
        return next((seed for seed in seeds if _violates(check(seed, url))), None)


def _violates(found: str) -> bool:
    """Whether a guarantee is violated; a name that does not exist is a fault of what was planted."""
    return bool(found) and not found.startswith(f"{_UNEXPECTED} {NameError.__name__}")


def main(words: list[str]) -> int:
    """Repeat one seed and print each step, or check many."""
    first, many, last = words[0].partition("..")
    with contextlib.ExitStack() as stack:
        if len(words) > 1:
            stack.enter_context(planted_bugs.planted(catalog.named(" ".join(words[1:]))))
        server = embedded.Server()
        stack.callback(server.stop)
        if many:
            began, seeds = time.monotonic(), range(int(first), int(last) + 1)
            cycles = Counter[str]()
            broken = failing(seeds, server.url, " ".join(words[1:]), cycles=cycles)
            took = time.monotonic() - began
            for what, count in cycles.most_common():
                print(f"{count} of {cycles.total()} cycles of a group that preempts: {what}")
            print(f"{len(broken)} of {len(seeds)} seeds from {first} on fail; {took:.0f} s")
            return 1 if broken else 0
        violation = check(int(first), server.url, log_step=print)
    print(f"seed {first}: {violation or 'every guarantee holds'}")
    return 1 if violation else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
