"""The answer to /readyz, the same for every process."""

from collections.abc import Mapping


def report(checks: Mapping[str, str | None]) -> tuple[int, bytes]:
    """Status and body; ``checks``: name -> problem, or None if the check passes."""
    lines = [f"[{'-' if problem else '+'}] {name}: {problem or 'ok'}" for name, problem in checks.items()]
    ready = not any(checks.values())
    text = "\n".join([*lines, "ready" if ready else "not ready", ""])
    return 200 if ready else 503, text.encode()
