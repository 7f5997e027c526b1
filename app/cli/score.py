"""``topolog score``: filters and scores the nodes of a file with the code that decides in a cluster."""

import os
from collections.abc import Sequence
from typing import IO

import click

from app import exit_codes, plugins, settings
from app.cli import scenario
from app.cli.output import formats, tables
from app.domain import verdicts
from app.framework import cycles, pipeline, registry
from app.kube.objects import decoding


@click.command("score")
@click.argument("file", type=click.File("rb"))
@formats.option()
@click.pass_obj
def score_command(config: str | None, file: IO[bytes], output: str) -> None:
    """Filter and score the nodes of a JSON FILE (- for standard input).

    Needs neither store nor cluster. The file is an object with "pod" and "nodes", and optionally "pods"
    and "policies". Each object has the form of the Kubernetes API (kubectl get -o json) or a short form:

    \b
    {"pod": {"name": "worker-3", "labels": {"rl-job-group": "alpha"}},
     "nodes": [{"name": "node-1", "labels": {"zone": "a"}, "podsOnNode": []},
               {"name": "node-2", "podsOnNode":
                 [{"name": "worker-1", "labels": {"rl-job-group": "alpha"}}]}]}

    Plugins and weights are taken from the settings. Exit code 1 if no node is left.
    """
    rules = plugins.configured(settings.load(config, os.environ).plugins)
    decoding.keep(plugins.catalog().annotations)
    try:
        parsed = scenario.read(file.read(), schema=plugins.catalog().schema, indexed=rules.indexed())
    except scenario.Unreadable as error:
        raise click.BadParameter(str(error), param_hint="FILE") from error
    trace = decide(rules, parsed)
    concerned = rules.concerned_in(trace, parsed.snapshot)
    if formats.is_document(output):
        formats.show_document(as_json(trace, concerned), output)
    else:
        _show(trace, concerned)
    if not trace.kept:
        click.get_current_context().exit(exit_codes.NEGATIVE)


def decide(rules: registry.Registry, given: scenario.Scenario) -> verdicts.Trace:
    """Filter and score all nodes for the pod."""
    cycle = cycles.cycle(given.pod, given.candidates, given.snapshot, score_max=rules.score_max)
    return pipeline.run(rules, cycle)


def as_json(trace: verdicts.Trace, concerned: Sequence[str]) -> dict[str, object]:
    """The decision as JSON: kept nodes first, by score. ``concerned``: the plugins that the pod concerns."""
    reasons = trace.reasons()
    by_plugin = {rating.plugin: rating for rating in trace.ratings}
    return {
        "pod": trace.pod.key,
        "plugins": list(concerned),
        "nodes": [
            {
                "name": node,
                "kept": node not in reasons,
                "score": trace.score_of(node),
                "scores": {
                    plugin: rating.weight * _raw(rating, node) for plugin, rating in by_plugin.items()
                },
                "reason": reasons.get(node, ""),
            }
            for node in _ordered(trace)
        ],
    }


def _show(trace: verdicts.Trace, concerned: Sequence[str]) -> None:
    click.echo(f"{trace.pod.key}: {len(trace.kept)} of {len(trace.candidates)} nodes are left")
    if not concerned:
        click.echo("No plugin applies to this pod.")
    reasons = trace.reasons()
    names = [rating.plugin for rating in trace.ratings]
    rows: list[tuple[object, ...]] = []
    for node in _ordered(trace):
        if node in reasons:
            rows.append((node, "refused", *(None for _ in names), reasons[node]))
        else:
            scores = (_raw(rating, node) * rating.weight for rating in trace.ratings)
            rows.append((node, trace.score_of(node), *scores, None))
    tables.show(["NODE", "SCORE", *names, "REASON"], rows, empty="the file contains no nodes")


def _ordered(trace: verdicts.Trace) -> list[str]:
    return sorted(trace.candidates, key=lambda node: (node in trace.refused, -trace.score_of(node), node))


def _raw(rating: verdicts.Rating, node: str) -> int:
    return next((score for score, nodes in rating.groups.items() if node in nodes), 0)
