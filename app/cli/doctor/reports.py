"""Shows the results of checks: as text for people, JSON or YAML; and the exit code that follows."""

import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence

import click

from app import __version__, clocks, exit_codes
from app.cli.doctor import options
from app.cli.output import colours, formats, tables
from app.framework import doctor_checks

_WIDTH = 100


def listed(checks: Iterable[doctor_checks.Check], shown: options.Shown) -> bool:
    """Show the checks of a command, if that is requested. An unknown ID to skip is a usage error."""
    found = sorted(checks, key=lambda one: one.id)
    unknown = sorted(set(shown.skip) - {one.id for one in found})
    if unknown:
        raise click.BadParameter(f"there is no check {unknown[0]} here", param_hint="--skip")
    if not shown.listed:
        return False
    if not formats.is_document(shown.output):
        tables.show(["ID", "WHAT HAS TO BE SO"], [(one.id, one.about) for one in found])
    else:
        document = [
            {"id": one.id, "about": one.about, "why": one.why, "fix": one.fix, "docs": _page(one.docs)}
            for one in found
        ]
        formats.show_document(document, shown.output)
    return True


def show(area: str, cluster: str, results: Sequence[doctor_checks.Result], shown: options.Shown) -> None:
    """Show the results, the worst first, and end with the exit code that they have."""
    kept = [_public(one) for one in results if one.id not in shown.skip]
    order = {verdict: at for at, verdict in enumerate(doctor_checks.VERDICTS)}
    kept.sort(key=lambda one: (order[one.verdict], one.id))
    at = clocks.rfc3339(time.time())
    if shown.output == formats.TEXT:
        click.echo(f"topolog {__version__} doctor {area}, cluster {cluster}, {at}")
        for line in _text(kept):
            click.echo(line)
    elif shown.output in (formats.TABLE, formats.WIDE):
        _show_table(kept, wide=shown.output == formats.WIDE)
    else:
        formats.show_document(
            {
                "topolog": __version__,
                "doctor": area,
                "cluster": cluster,
                "at": at,
                "verdict": doctor_checks.worst(kept),
                "counts": _counts(kept),
                "skipped": list(shown.skip),
                "checks": [_fields(one) for one in kept],
            },
            shown.output,
        )
    if any(one.verdict in options.FAILING[shown.fail_on] for one in kept):
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _text(results: Sequence[doctor_checks.Result]) -> Iterator[str]:
    for group in _groups([one for one in results if one.verdict != doctor_checks.OK]):
        one = group[0]
        verdict = colours.verdict(f"{one.verdict.upper():8}", one.verdict)
        yield f"\n{verdict} {' '.join(dict.fromkeys(each.id for each in group))}  {one.subject}"
        lines = [("seen", one.seen), ("why", one.why), ("fix", one.fix), ("docs", _page(one.docs))]
        if one.verdict == doctor_checks.UNSURE:  # Nothing follows from what was not seen.
            lines = [("seen", one.seen), ("fix", one.fix)]
        for name, value in lines:
            if value:
                yield from _wrapped(f"  {name:6}", value)
    good = [one for one in results if one.verdict == doctor_checks.OK]
    if good:
        yield ""
    for one in good:
        first, *others = _wrapped(f"{'ok':8} {one.id}  ", f"{one.subject}: {one.seen}")
        yield from (first.replace("ok", colours.verdict("ok", one.verdict, bold=False), 1), *others)
    counts = _counts(results)
    yield "\n" + ", ".join(_counted(counts[verdict], verdict) for verdict in doctor_checks.VERDICTS)


def _show_table(results: Sequence[doctor_checks.Result], *, wide: bool) -> None:
    headers = ["VERDICT", "ID", "SUBJECT", "SEEN", *(["WHY", "FIX", "DOCS"] if wide else [])]
    tables.show(
        headers,
        [
            (one.verdict, one.id, one.subject, one.seen, one.why, one.fix, _page(one.docs))[: len(headers)]
            for one in results
        ],
    )


def _groups(results: Sequence[doctor_checks.Result]) -> list[list[doctor_checks.Result]]:
    """Results in order; those that are unsure for one reason are one group."""
    found: dict[tuple[str, ...], list[doctor_checks.Result]] = {}
    for at, one in enumerate(results):
        unsure = one.verdict == doctor_checks.UNSURE
        found.setdefault((one.subject, one.seen, one.fix) if unsure else (str(at),), []).append(one)
    return list(found.values())


def _wrapped(first: str, text: str) -> list[str]:
    width = min(_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH
    return textwrap.wrap(
        tables.cell(text),
        max(width, 40),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _counted(number: int, verdict: doctor_checks.Verdict) -> str:
    """Of the verdicts, two are nouns."""
    noun = verdict in (doctor_checks.PROBLEM, doctor_checks.WARNING)
    return f"{number} {verdict}{'s' if noun and number != 1 else ''}"


def _counts(results: Sequence[doctor_checks.Result]) -> dict[str, int]:
    return {verdict: sum(one.verdict == verdict for one in results) for verdict in doctor_checks.VERDICTS}


def _fields(one: doctor_checks.Result) -> dict[str, str]:
    return {
        "id": one.id,
        "subject": one.subject,
        "verdict": one.verdict,
        "seen": one.seen,
        "why": one.why,
        "fix": one.fix,
        "docs": _page(one.docs),
    }


def _public(one: doctor_checks.Result) -> doctor_checks.Result:
    """The result without user names and passwords in URLs."""
    from app.telemetry import secret_texts

    subject, seen, why, fix = map(secret_texts.hidden, (one.subject, one.seen, one.why, one.fix))
    return doctor_checks.Result(one.id, subject, one.verdict, seen, why, fix, one.docs)


def _page(docs: str) -> str:
    return f"docs/{docs}" if docs else ""
