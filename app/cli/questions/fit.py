"""``topolog fit``: the smallest changes that would let a pod fit."""

import json
import shlex

import click

from app import exit_codes
from app.cli.client import api_client
from app.cli.questions import asking


@click.command("fit")
@click.argument("pod", required=False, metavar="[NAMESPACE/POD]")
@click.option("-f", "--file", metavar="FILE", help="The pod as YAML or JSON (- for stdin).")
@click.option(
    "-n", "--namespace", metavar="NAMESPACE", default="default", show_default=True, help="Of the pod."
)
@click.option(
    "--allow",
    metavar="KIND,...",
    help="Only changes of these: objects (such as policies), nodes, labels (of the pod), pods (deleted).",
)
@click.option("--candidates", metavar="recorded|all|roomy|NODE,...", help="As in topolog simulate.")
@asking.situation_options
@click.option("--most", type=click.IntRange(1, 20), default=5, show_default=True, help="Changes shown.")
@click.option("--budget", type=click.FloatRange(0.1, 20), default=5.0, show_default=True, help="Seconds.")
@api_client.server_options
@asking.output_option
@click.pass_obj
def fit_command(
    config: str | None,
    /,
    pod: str | None,
    file: str | None,
    namespace: str,
    allow: str | None,
    candidates: str | None,
    most: int,
    budget: float,
    output: str,
    **options: asking.Value,
) -> None:
    """Show the smallest changes that would let a pod fit.

    Each change is shown with the options to append to `topolog simulate`, which then finds a node. Nothing is
    changed.

    Exit code 0 if the pod fits as it is, 1 if not.
    """
    if (pod is None) == (file is None):
        raise click.UsageError("name a pod, or use -f FILE")
    question: asking.Document = {"most": most, "budget": budget}
    if pod is not None:
        question["pod"] = asking.pod_name(pod, namespace)
    else:
        documents = asking.read(str(file))
        if len(documents) != 1:
            raise click.BadParameter(f"{file} must contain one pod", param_hint="-f")
        question["pod"] = asking.in_namespace(documents[0], namespace)
    question["situation"] = asking.situation(options)
    if allow:
        question["allow"] = allow.split(",")
    if candidates:
        question["candidates"] = asking.candidates(candidates)
    reply = asking.answer(config, options, "fit", question)
    asking.show(output, reply, _table, lambda shown: [one["message"] for one in shown["changes"]])
    if not reply["fits"]:
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _table(reply: asking.Document) -> None:
    click.echo(reply["summary"])
    for change in reply["changes"]:
        spelled = " ".join(
            f"--override {shlex.quote(json.dumps(one, ensure_ascii=False))}" for one in change["overrides"]
        )
        click.echo(f"\n{change['message']} ({change['kept']} nodes fit then)\n  {spelled}")
    if not reply["changes"] and not reply["fits"]:
        click.echo("no change is known that would let it fit")
    asking.show_limits(reply)
