"""``topolog bisect``: since when."""

import functools

import click

from app.cli.client import api_client, moment_option
from app.cli.completion import items
from app.cli.output import tables
from app.cli.questions import question_options


@click.command("bisect")
@click.argument("pod", required=False, type=items.POD, metavar="[NAMESPACE/POD]")
@click.option(
    "-n",
    "--namespace",
    type=items.NAMESPACE,
    metavar="NAMESPACE",
    help="The namespace of the pod, of pods that wait, or of what exists.",
)
@click.option("--fits", is_flag=True, help="Since when the pod fits, or not; a pod alone means this.")
@click.option("--count", nargs=2, metavar="COUNT N", help="Since when the count is at least N, or less.")
@click.option("--waiting", type=click.IntRange(1), metavar="N", help="Since when N pods wait, or fewer.")
@click.option(
    "--exists",
    metavar="KIND:NAME",
    help="Since when it exists or not: node:n1, pod:ns/name, or another object as watch names it.",
)
@click.option(
    "--candidates",
    type=click.Choice(["all", "roomy"]),
    help="The nodes: all, or those that the pod fits on by kube-scheduler's own rules.  [default: all]",
)
@click.option(
    "--from",
    "--since",
    "from_",
    type=moment_option.STRETCH,
    help="The first moment; 24h is a day ago.  [default: the oldest]",
)
@click.option("--to", type=moment_option.MOMENT, help="The last moment.  [default: now]")
@click.option("--budget", type=click.FloatRange(0.1, 20), default=5.0, show_default=True, help="Seconds.")
@api_client.server_options
@question_options.output_option
@click.pass_obj
def bisect_command(
    config: str | None,
    /,
    pod: str | None,
    namespace: str | None,
    fits: bool,
    count: tuple[str, str] | None,
    waiting: int | None,
    exists: str | None,
    candidates: str | None,
    from_: str | None,
    to: str | None,
    budget: float,
    output: str,
    **options: str | None,
) -> None:
    """Show the event since which the answer to a question is what it is.

    \b
    topolog bisect shop/a-5 --fits                      # since when it fits, or does not
    topolog bisect shop/a-5 --candidates roomy          # cordons, requests and taints count, too
    topolog bisect --count 'shop/spread|role=host' 3    # since when the quota is used
    topolog bisect --waiting 50
    topolog bisect --exists node:n1

    Exit code 0 whatever the answer is, 1 if the pod of the question does not exist, and 2 if there is no such
    kind.
    """
    question: question_options.Document = {"budget": budget}
    if pod is not None:
        question["fits"] = question_options.pod_name(pod, namespace or "default")
    if count is not None:
        question["count"] = {"count": count[0], "atLeast": question_options.number(count[1], "--count")}
    if waiting is not None:
        question["waiting"] = {"atLeast": waiting, "namespace": namespace or ""}
    if exists is not None:
        question["exists"] = _named(exists, namespace)
    if fits and pod is None:
        raise click.UsageError("--fits requires a pod")
    named = (("a pod", pod), ("--count", count), ("--waiting", waiting), ("--exists", exists))
    conditions = [name for name, one in named if one is not None]
    if not conditions:
        raise click.UsageError("name a pod, or use one of --count, --waiting and --exists")
    if len(conditions) > 1:
        raise click.UsageError(f"only one condition is allowed; given are {', '.join(conditions)}")
    if candidates is not None and pod is None:
        raise click.UsageError("--candidates is for a pod")
    if namespace is not None and count is not None:
        raise click.UsageError("-n is not for --count: the name of a count has the namespace of its object")
    given = (("candidates", candidates), ("from", from_), ("to", to))
    question.update({name: value for name, value in given if value is not None})
    reply = question_options.answer(config, options, "bisect", question)
    question_options.show(output, reply, functools.partial(_table, question), _names)


def _named(what: str, namespace: str | None) -> str:
    """KIND:NAMESPACE/NAME of what may be named without its namespace; nodes have none."""
    kind, colon, name = what.partition(":")
    if namespace is None or kind == "node" or not colon:
        return what
    return f"{kind}:{question_options.pod_name(name, namespace)}"


def _names(reply: question_options.Document) -> list[str]:
    """The moment of the change; none if a later one may not have been found yet."""
    return [reply["since"]["after"]] if reply["since"] is not None and reply["complete"] else []


def _sentence(question: question_options.Document, holds: bool) -> str:
    """The answer to the question, as a sentence."""
    match question:
        case {"fits": pod}:
            return f"yes, {pod} fits" if holds else f"no, {pod} does not fit"
        case {"count": {"count": count, "atLeast": number}}:
            return f"yes, {count} is at least {number}" if holds else f"no, {count} is less than {number}"
        case {"waiting": {"atLeast": number, "namespace": namespace}}:
            where = f" in {namespace}" if namespace else ""
            if number == 1:
                return f"yes, pods wait{where}" if holds else f"no, no pod waits{where}"
            return f"{'yes, at least' if holds else 'no, fewer than'} {number} pods wait{where}"
        case _:
            return (
                f"yes, {question['exists']} exists" if holds else f"no, {question['exists']} does not exist"
            )


def _table(question: question_options.Document, reply: question_options.Document) -> None:
    answer = _sentence(question, reply["now"])
    since = reply["since"]
    if since is None and not reply["complete"]:
        click.echo(f"{answer}; the last change was not found yet")
    elif since is None:
        click.echo(f"{answer}; no change since {reply['from']}")
    elif not reply["complete"]:
        click.echo(f"{answer}, since an event after {since['before']}, at the latest {since['after']}")
    else:
        click.echo(f"{answer}, since {since['after']}:")
        event = since["event"]
        if event is not None:
            row = (event["offset"], event["at"], event["type"], event["name"])
            tables.show(["OFFSET", "AT", "TYPE", "OBJECT"], [row])
    question_options.show_limits(reply)
