"""``topolog score``: the pure core on a file. The same code decides here and in a cluster."""

import os
from typing import IO

import click

from app import plugins, settings
from app.cli import exits, situations, tables
from app.domain import verdicts
from app.framework import configuring, cycles, registry, running
from app.kube import decoding


@click.command("score", short_help="Filter and score the nodes of a JSON file.")
@click.argument("file", type=click.File("rb"))
@tables.output_option
@click.pass_obj
def score_command(config: str | None, file: IO[bytes], output: str) -> None:
    """Filter and score the nodes of a JSON FILE (- for standard input): no store, no cluster.

    The file is an object with "pod" and "nodes", and may have "pods" and "policies"; each object as
    Kubernetes writes it (kubectl get -o json) or in a short form:

    \b
    {"pod": {"name": "worker-3", "labels": {"rl-job-group": "alpha"}},
     "nodes": [{"name": "node-1", "labels": {"zone": "a"}, "podsOnNode": []},
               {"name": "node-2", "podsOnNode":
                 [{"name": "worker-1", "labels": {"rl-job-group": "alpha"}}]}]}

    Plugins and weights are those of the settings. Exit code 1 if no node is left.
    """
    chosen = settings.load(config, os.environ).plugins
    rules = configuring.build(
        plugins.IN_TREE,
        enabled=chosen.enabled,
        weights=chosen.weights,
        score_max=chosen.score_max,
        args=chosen.args,
    )
    decoding.keep(rules.annotations())
    try:
        situation = situations.read(file.read(), indexed=rules.indexed())
    except situations.Unreadable as error:
        raise click.BadParameter(str(error), param_hint="FILE") from error
    trace = decide(rules, situation)
    if output == tables.JSON:
        tables.show_json(as_json(trace))
    else:
        _show(trace)
    if not trace.kept:
        click.get_current_context().exit(exits.NOT_SO)


def decide(rules: registry.Registry, situation: situations.Situation) -> verdicts.Trace:
    """The whole decision about the pod over all nodes."""
    cycle = cycles.cycle(situation.pod, situation.candidates, situation.snapshot, score_max=rules.score_max)
    return running.run(rules, cycle)


def as_json(trace: verdicts.Trace) -> dict[str, object]:
    """The decision for programs: every node, the kept ones first and the best of them first."""
    reasons = trace.reasons()
    by_plugin = {rating.plugin: rating for rating in trace.ratings}
    return {
        "pod": trace.pod.key,
        "plugins": list(trace.interested),
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


def _show(trace: verdicts.Trace) -> None:
    click.echo(f"{trace.pod.key}: {len(trace.kept)} of {len(trace.candidates)} nodes are left")
    if not trace.interested:
        click.echo("No plugin has anything to do with this pod.")
    reasons = trace.reasons()
    names = [rating.plugin for rating in trace.ratings]
    rows: list[tuple[object, ...]] = []
    for node in _ordered(trace):
        if node in reasons:
            rows.append((node, "refused", *(None for _ in names), reasons[node]))
        else:
            given = (_raw(rating, node) * rating.weight for rating in trace.ratings)
            rows.append((node, trace.score_of(node), *given, None))
    tables.show(["NODE", "SCORE", *names, "REASON"], rows, empty="the file has no nodes")


def _ordered(trace: verdicts.Trace) -> list[str]:
    return sorted(trace.candidates, key=lambda node: (node in trace.refused, -trace.score_of(node), node))


def _raw(rating: verdicts.Rating, node: str) -> int:
    return next((score for score, nodes in rating.groups.items() if node in nodes), 0)
