"""``topolog fit``: the smallest changes that would let a pod or a gang fit."""

import functools
import json
import shlex

import click

from app import exit_codes
from app.cli.client import api_client
from app.cli.completion import items
from app.cli.questions import declared_overrides, groups, pod_files, question_options

_INCOMPLETE = "there may be a smaller change; not all were tried: too many, or too little time (--budget)"


@click.command("fit", cls=declared_overrides.Question)
@click.argument("pod", required=False, type=items.POD, metavar="[NAMESPACE/POD]")
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    help="The pod as YAML or JSON (- for stdin); other objects, such as a PodGroup, are created with it.",
)
@groups.options
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="The namespace of the pod, and of objects of a file that name none.  [default: default]",
)
@click.option(
    "--allow",
    metavar="KIND,...",
    help="Only changes of these: objects (such as policies), nodes, labels (of the pod), pods (deleted).",
)
@click.option("--candidates", metavar="recorded|all|roomy|NODE,...", help="As in topolog simulate.")
@question_options.situation_options
@click.option("--most", type=click.IntRange(1, 20), default=5, show_default=True, help="Changes shown.")
@click.option("--budget", type=click.FloatRange(0.1, 20), default=5.0, show_default=True, help="Seconds.")
@api_client.server_options
@question_options.unnamed_output_option
@click.pass_obj
def fit_command(
    config: str | None,
    /,
    pod: str | None,
    file: str | None,
    namespace: str | None,
    allow: str | None,
    candidates: str | None,
    most: int,
    budget: float,
    output: str,
    **options: question_options.Value,
) -> None:
    """Show the smallest changes that would let a pod, or a whole gang, fit.

    Each change is shown with the options to append to `topolog simulate`, which then places it. Nothing is
    changed.

    \b
    topolog fit shop/a-5
    topolog fit --group ml/train --allow nodes,pods
    topolog fit -f worker.yaml --members 8

    Exit code 0 if it fits as it is, or no pod of the gang waits, and 1 if not.
    """
    own = namespace or "default"
    manifests, created = pod_files.pods_and_objects([file] if file is not None else [], own)
    asked: list[str | question_options.Document] = (
        [question_options.pod_name(pod, own)] if pod is not None else []
    )
    asked += manifests
    question: question_options.Document = groups.question(options, asked, namespace)
    if not question:
        if file is not None and not asked:
            pod_files.refuse_without_pod([file], created)
        if file is not None and len(manifests) != 1:
            raise click.BadParameter(f"{file} must contain one pod", param_hint="-f")
        if len(asked) != 1:
            raise click.UsageError("name a pod, or use -f FILE or --group")
        question["pod"] = asked[0]
    situation = question_options.situation(options, namespace, created)
    question |= {"most": most, "budget": budget, "situation": situation}
    if allow:
        question["allow"] = allow.split(",")
    if candidates:
        question["candidates"] = question_options.candidates(candidates)
    question_options.save(options, question["situation"])
    reply = question_options.answer(config, options, "fit", question)
    table = functools.partial(_table, alone="pod" in question)
    question_options.show(output, reply, table)
    if not reply["fits"]:
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _table(reply: question_options.Document, *, alone: bool) -> None:
    click.echo(reply["summary"])
    for change in reply["changes"]:
        spelled = " ".join(
            f"--override {shlex.quote(json.dumps(one, ensure_ascii=False))}" for one in change["overrides"]
        )
        then = f"{change['kept']} {'nodes fit' if alone else 'members are placed'} then"
        click.echo(f"\n{change['message']} ({then})\n  {spelled}")
    if reply["more"]:
        click.echo("\n... and more (--most)")
    if not reply["changes"] and not reply["fits"] and reply["complete"]:
        click.echo("no change is known that would let it fit")
    question_options.show_limits(reply, _INCOMPLETE)
