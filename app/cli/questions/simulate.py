"""``topolog simulate``: where pods would be placed in another situation."""

import functools

import click

from app import exit_codes, plurals
from app.cli import explain
from app.cli.client import api_client
from app.cli.completion import items
from app.cli.get import selectors
from app.cli.output import formats, tables
from app.cli.questions import declared_overrides, groups, pod_files, question_options
from app.domain import model


@click.command("simulate", cls=declared_overrides.Question)
@click.argument("pods", nargs=-1, type=items.POD, metavar="[NAMESPACE/POD]...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Pods as YAML or JSON (- for stdin); other objects, such as PodGroups, are created with them.",
)
@groups.options
@click.option("--pending", is_flag=True, help="All pods that wait.")
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="The namespace of pods, and of objects of a file that name none.  [default: default; all]",
)
@click.option(
    "-l",
    "--selector",
    type=selectors.Selector(),
    metavar="LABELS",
    help="With --pending: only pods with these labels, a=b,c=d.",
)
@click.option(
    "--candidates",
    metavar="recorded|all|roomy|NODE,...",
    help="The nodes that are offered.  [default: those that kube-scheduler offered last; roomy for several]",
)
@click.option("--preemption", is_flag=True, help="For one pod: also which pods would be evicted for it.")
@question_options.situation_options
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows of each list.")
@click.option("--budget", type=click.FloatRange(0.1, 20), default=5.0, show_default=True, help="Seconds.")
@api_client.server_options
@question_options.output_option
@click.pass_obj
def simulate_command(
    config: str | None,
    /,
    pods: tuple[str, ...],
    files: tuple[str, ...],
    pending: bool,
    namespace: str | None,
    selector: model.Selector | None,
    candidates: str | None,
    preemption: bool,
    top: int,
    budget: float,
    output: str,
    **options: question_options.Value,
) -> None:
    """Show where pods would be placed if the cluster or the configuration were different.

    One pod is decided about as filter and prioritize do, and compared with the answer without changes.
    Several pods are placed one after the other, each on the state that the ones before left. Nothing is
    changed. Of a gang all members that are needed are placed, or none is.

    \b
    topolog simulate -f pod.yaml --cordon n7 --add-nodes 20 --like n1
    topolog simulate -f worker.yaml --members 8
    topolog simulate --group ml/train --add-nodes 2 --like n1
    topolog simulate --pending -n shop --scale shop/spread host=+2

    Exit code 0 if all pods fit, the gang is placed, or no pod waits, and 1 if not.
    """
    manifests, created = pod_files.pods_and_objects(files, namespace or "default")
    asked: list[str | question_options.Document] = [
        question_options.pod_name(pod, namespace or "default") for pod in pods
    ]
    asked += manifests
    question: question_options.Document = groups.question(options, asked, namespace)
    if files and not (pending or question or asked):
        pod_files.refuse_without_pod(files, created)
    if pending + bool(question or asked) != 1:
        raise click.UsageError("name pods, or use -f FILE or --pending, or --group")
    situation = question_options.situation(options, namespace, created)
    question |= {"situation": situation, "top": top, "budget": budget}
    if pending:
        question["pending"] = {"namespace": namespace or "", "selector": question_options.labels(selector)}
    elif selector is not None:
        raise click.UsageError("-l requires --pending")
    elif "gang" not in question and "group" not in question:
        question |= {"pod": asked[0]} if len(asked) == 1 else {"pods": asked}
    if preemption:
        if "pod" not in question:
            raise click.UsageError("--preemption requires one pod")
        question["preemption"] = True
    if candidates:
        question["candidates"] = question_options.candidates(candidates)
    question_options.save(options, question["situation"])
    reply = question_options.answer(config, options, "simulate", question)
    wide = functools.partial(_table, wide=True)
    question_options.show(output, reply, _table, lambda shown: [one["pod"] for one in shown["placed"]], wide)
    if output == formats.NAME and (number := reply["placedPods"] - len(reply["placed"])):
        click.echo(f"note: {plurals.counted(number, 'more pod')} (--top)", err=True)
    if not reply["fits"]:
        click.get_current_context().exit(exit_codes.NEGATIVE)


def _table(reply: question_options.Document, *, wide: bool = False) -> None:
    baseline = reply["baseline"]
    if baseline is not None:
        click.echo(f"as it is:   {baseline['summary']}")
    explanation = reply["explanation"]
    if explanation is not None:
        click.echo(f"situation:  {explanation['summary']}")
        _one(explanation, reply["placed"], wide=wide)
    else:
        group = reply["group"]
        if group is not None and not group["waiting"]:
            click.echo(f"situation:  no pod of the gang {group['name']} waits")
        else:
            click.echo(f"situation:  {reply['placedPods']} of {reply['pods']} pods are placed")
        if group is not None:
            needed = group["needed"] or "each alone"
            click.echo(f"group:      {group['name']}, {group['waiting']} waiting, together {needed}")
            for remark in group["remarks"]:
                click.echo(f"            {remark}")
        _several(reply)
    question_options.show_limits(reply)
    if reply["preemption"] is not None:
        click.echo()
        explain.show_dry_run(reply["preemption"])


def _one(
    explanation: question_options.Document, placed: list[question_options.Document], *, wide: bool
) -> None:
    if placed:
        click.echo(f"chosen:     {placed[0]['node']}\n")
        rows = [(one["node"], one["total"]) for one in explanation["scores"] if one["kept"]]
        tables.show(["NODE", "SCORE"], rows)
        _show_more(explanation["kept"] - len(rows), "node")
    if wide and explanation["refusals"]:
        click.echo()
        refusals = [(one["plugin"], one["nodes"], one["reason"]) for one in explanation["refusals"]]
        tables.show(["PLUGIN", "REFUSED", "REASON"], refusals)
    for change in explanation["change"]:
        click.echo(f"would fit:  {change}")


def _several(reply: question_options.Document) -> None:
    rows = [(one["pod"], one["node"], None) for one in reply["placed"]]
    rows += [(one["pod"], None, one["reason"]) for one in reply["refused"]]
    click.echo()
    tables.show(["POD", "NODE", "REASON"], rows, empty="no pod waits")
    _show_more(reply["pods"] - len(rows), "pod")
    if reply["counts"]:
        click.echo()
        changed = [(one["count"], one["before"], one["after"]) for one in reply["counts"]]
        tables.show(["COUNT", "BEFORE", "AFTER"], changed)
        _show_more(reply["moreCounts"], "count")


def _show_more(number: int, what: str) -> None:
    """Write how many rows --top leaves out, if any."""
    if number:
        click.echo(f"({plurals.counted(number, f'more {what}')})")
