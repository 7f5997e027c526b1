"""How large a campaign is: from the environment, so `make campaign CAMPAIGN_SEEDS=20000` is all it takes."""

import os


def of(name: str, default: int) -> int:
    """The number in the variable ``CAMPAIGN_NAME``."""
    spelled = os.environ.get(f"CAMPAIGN_{name}", "")
    if spelled and not spelled.isdigit():
        raise ValueError(f"CAMPAIGN_{name} is {spelled!r}, not a whole number")
    return int(spelled) if spelled else default


def examples(usual: int) -> int:
    """The number of examples of a property test: the usual one, times the variable ``CAMPAIGN_DEPTH``."""
    return usual * of("DEPTH", 1)


def first_seed() -> int:
    """Where seeded campaigns begin: another start is another part of the same endless campaign."""
    return of("FIRST_SEED", 0)
