"""Numbers with their nouns, for sentences."""


def counted(number: int, noun: str) -> str:
    """``1 pod`` or ``2 pods``: for nouns whose plural ends in s."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
