"""The shipped alerting rules, judged over samples of real processes.

Two scrapes are taken, before and after a fault, and continued for as long as the rules wait: counters grow on
at the same pace, a time that moved between the scrapes keeps moving, and everything else stays as it was.
"""

import json
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.support import kustomizations
from tests.support.monitoring import installations, promql, promtool

RULES = pathlib.Path(__file__).parents[3] / "deploy" / "monitoring" / "rules.yaml"
STEP = 60
"""Seconds between two points of a continued recording."""
STARTED = "process_start_time_seconds"
_UNITS = {"m": 1, "h": 60}


class Rule(NamedTuple):
    """An alerting rule."""

    name: str
    expression: str
    steps: int
    """How many steps its expression must hold."""
    document: Mapping[str, Any]


def rules() -> list[Rule]:
    """The shipped rules."""
    (group,) = kustomizations.document(RULES)["groups"]
    return [
        Rule(
            one["alert"], one["expr"], int(one.get("for", "0m")[:-1]) * _UNITS[one.get("for", "0m")[-1]], one
        )
        for one in group["rules"]
    ]


HORIZON = 15 + max(rule.steps for rule in rules())
"""Steps until every rule has had its time."""

Series = tuple[str, frozenset[tuple[str, str]]]


def scrape(installation: installations.Installation) -> promql.Scrape:
    """The samples of all processes that answer."""
    samples: list[tuple[str, Mapping[str, str], float]] = []
    for process, extender in installation.processes.items():
        if extender.process.running:
            samples += [
                (sample.name, {**sample.labels, "pod": process}, sample.value)
                for metric in installation.scraped(process)
                for sample in metric.samples
                if sample.name.startswith("topolog_") or sample.name == STARTED
            ]
    return promql.Scrape(time.time(), samples)


def continued(first: promql.Scrape, last: promql.Scrape) -> list[promql.Scrape]:
    """Both scrapes at 0 and STEP seconds, and what follows; times are relative to the first point."""
    former = {_series(name, labels): value for name, labels, value in first.samples}
    began = [
        (name, labels, value - first.at if _is_time(name) else value) for name, labels, value in first.samples
    ]
    points = [promql.Scrape(0, began)]
    for step in range(1, HORIZON + 1):
        samples = []
        for name, labels, value in last.samples:
            before = former.get(_series(name, labels), value)
            shown = value
            if _is_time(name):
                moves = value > before and "expiry" not in name and name != STARTED
                shown = value - last.at + STEP * (step if moves else 1)
            elif name.endswith(("_total", "_count", "_sum", "_bucket")):
                shown = value + (step - 1) * max(0.0, value - before)
            samples.append((name, labels, shown))
        points.append(promql.Scrape(STEP * step, samples))
    return points


def _is_time(name: str) -> bool:
    return name.endswith("_timestamp_seconds") or name == STARTED


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return name, frozenset(labels.items())


def firing(points: Sequence[promql.Scrape]) -> set[str]:
    """The alerts that fire at the end."""
    found = set()
    for rule in rules():
        moments = points[len(points) - 1 - rule.steps :]
        if all(promql.evaluate(rule.expression, points, one.at) for one in moments):
            found.add(rule.name)
    return found


def firing_by_promtool(points: Sequence[promql.Scrape], folder: pathlib.Path, expected: set[str]) -> str:
    """What promtool reports if other alerts than the expected ones fire at the end; empty if none."""
    values: dict[Series, list[str]] = {}
    for index, point in enumerate(points):
        for name, labels, value in point.samples:
            known = values.setdefault(_series(name, labels), ["_"] * index)
            known.append(repr(value))
        for known in values.values():
            if len(known) == index:
                known.append("stale")
    series = [
        {"series": f"{name}{_written(labels)}", "values": " ".join(each)}
        for (name, labels), each in values.items()
    ]
    end = STEP * (len(points) - 1)
    return _judged(series, [_expectation(rule.name, end, rule.name in expected) for rule in rules()], folder)


def misjudged(
    alert: str, recorded: Mapping[str, str], expected: Mapping[int, bool], folder: pathlib.Path
) -> str:
    """What promtool reports if the alert fires at other minutes than expected; empty if not.

    ``recorded``: series -> its values, one a minute, in the notation of promtool.
    ``expected``: minute -> whether the alert fires.
    """
    series = [{"series": name, "values": values} for name, values in recorded.items()]
    return _judged(
        series, [_expectation(alert, minute * 60, fires) for minute, fires in expected.items()], folder
    )


def _judged(
    series: Sequence[Mapping[str, str]], tests: Sequence[Mapping[str, Any]], folder: pathlib.Path
) -> str:
    """What promtool reports of expressions that give other values than expected; empty if none does."""
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{STEP}s",
        "tests": [{"interval": f"{STEP}s", "input_series": series, "promql_expr_test": tests}],
    }
    path = folder / "test.yaml"
    path.write_text(json.dumps(document))
    code, output = promtool.run("test", "rules", str(path))
    return output if code else ""


def _expectation(alert: str, at: int, fires: bool) -> Mapping[str, Any]:
    """``at``: seconds after the first point."""
    return {
        "expr": f'count(ALERTS{{alertstate="firing",alertname="{alert}"}}) > bool 0 or vector(0)',
        "eval_time": f"{at}s",
        "exp_samples": [{"labels": "{}", "value": int(fires)}],
    }


def _written(labels: frozenset[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels)) + "}"
