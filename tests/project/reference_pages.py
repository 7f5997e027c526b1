"""The reference pages that are made from the code; ``make docs`` writes them, a test keeps them current."""

import dataclasses
import pathlib
import tempfile
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence

import click
from prometheus_client import core

from app import cli, exit_codes, plugins, settings, telemetry
from app.doctor import store_checks
from app.doctor.cluster import catalog as cluster_catalog
from app.doctor.policies import examination as policy_examination
from app.doctor.run import catalog as run_catalog
from app.doctor.scheduler import catalog as scheduler_catalog
from app.doctor.scheduler import log_evidence
from app.doctor.tls import catalog as tls_catalog
from app.domain import snapshots
from app.framework import doctor_checks, registry
from app.serving.http import conn_metrics
from app.serving.tls import certificate_issuer, keystores, rotation
from app.settings import declarations
from app.store.server import acl
from app.verbs.questions.shadows import shadow_metrics
from tests.matrix import page as versions_page
from tests.matrix import results
from tests.project import diagrams, doctor_findings, pictures, plugins_page, store_page
from tests.support.charts import generated_files
from workers.controller import object_metrics, pending_metrics

ROOT = pathlib.Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"
IMAGES = ROOT / "docs" / "images"
_NOTE = "<!-- Made from the code by `make docs`: change the code, not this page. -->\n"


def settings_page() -> str:
    """Every setting by group."""
    lines = [
        "# Settings\n",
        _NOTE,
        "A process reads its settings once, when it starts: from the YAML file named by `--config` or"
        " `TOPOLOG_CONFIG`, and from the environment, which overrides the file. The variable of a setting is"
        " its name in capitals with the prefix `TOPOLOG_` and underscores for dots; an empty variable counts"
        " as not set."
        " Lists are separated by commas; lists and objects may be given as JSON or YAML. An unknown setting,"
        " an unknown `TOPOLOG_` variable or an invalid value stops the process with exit code 3; all invalid"
        " settings are listed together. Variables that Kubernetes sets for Services are ignored.\n",
        "`topolog settings` shows the values that a process started here would use.\n",
    ]
    group = None
    for setting in settings.describe():
        head = setting.path[0] if len(setting.path) > 1 else ""
        if head != group:
            group = head
            lines.append(f"## {head}\n" if head else "## Top level\n")
        lines.append(f"### `{setting.name}`\n")
        facts = [f"variable `{setting.env}`"]
        if setting.rule.alias:
            facts.append(f"also `{setting.rule.alias}`")
        facts += [setting.allowed, f"default {_default(setting)}"]
        lines.append(f"{'; '.join(facts)}.\n")
        lines.append(setting.doc + "\n")
        if setting.name == "plugins.args":
            lines += _arguments()
    return "\n".join(lines)


def _arguments() -> Iterator[str]:
    """The arguments of the plugins in the tree, as their classes declare them."""
    spelled = {"int": "a whole number", "str": "text", "bool": "true or false", "tuple": "a list"}
    for plugin in plugins.IN_TREE:
        kinds, docs = typing.get_type_hints(plugin), declarations.docs(plugin)
        for field in dataclasses.fields(plugin):
            kind = kinds[field.name]
            words = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else (kind.__name__,)
            allowed = " or ".join(spelled.get(word, word) for word in words)
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            doc = docs[field.name].replace("``", "`")
            yield f"- `{plugin.name}.{field.name}`: {allowed}; default `{default}`. {doc}\n"


def _default(setting: settings.Setting) -> str:
    value = setting.default
    if isinstance(value, tuple):
        value = ",".join(value)
    elif isinstance(value, Mapping):
        value = dict(value) or ""
    return f"`{value}`" if value != "" else "empty"


def commands_page() -> str:
    """Help texts of all commands."""
    lines = [
        "# Commands\n",
        _NOTE,
        "The output of `--help` of every command.\n",
        "```",
        exit_codes.EPILOG.replace("\b\n", "").rstrip(),
        "```\n",
    ]
    for name, text in _helps(cli.topolog, "topolog"):
        lines += [f"## `{name}`\n", "```", text.rstrip(), "```\n"]
    return "\n".join(lines)


def _helps(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    # As the command line makes it: a command keeps the help option of the first context that asked for it.
    context = command.make_context(
        name.rpartition(" ")[2], [], parent=parent, terminal_width=100, resilient_parsing=True
    )
    if parent is not None:
        yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None:
                yield from _helps(found, f"{name} {each}", context)


def metrics_page() -> str:
    """Every metric."""
    lines = [
        "# Metrics\n",
        _NOTE,
        "Served as `/metrics` on the health port, in the Prometheus text format, together with the process"
        " metrics of `prometheus_client`. A process exposes only the metrics of its row. A metric whose value"
        " is not known yet has no sample, and a counter with a closed set of labels has all its series from"
        " the start.\n",
        "| metric | type | process | labels | meaning |",
        "|---|---|---|---|---|",
    ]
    rows = dict(_metrics())
    return "\n".join([*lines, *(rows[name] for name in sorted(rows)), ""])


def _collectors() -> Iterator[telemetry.metrics.Declared]:
    yield from telemetry.metrics.DECLARED
    with tempfile.TemporaryDirectory() as folder:
        made = certificate_issuer.issue(pathlib.Path(folder), ["localhost"]).files
        source = keystores.Source(
            certificate=made["server.crt"], key=made["server.key"], trust=made["ca.crt"]
        )
        served, both = rotation.RotatingContext(source), (telemetry.metrics.EXTENDER, telemetry.metrics.VIEW)
        yield telemetry.metrics.Declared(conn_metrics.ConnectionMetrics(served), both[:1])
        yield telemetry.metrics.Declared(conn_metrics.ConnectionMetrics(served, view=True), both)
    empty = snapshots.empty(schema=plugins.catalog().schema)
    objects = object_metrics.ObjectMetrics(registry.Registry(()), lambda: empty, lambda: True, limit=0)
    yield telemetry.metrics.Declared(objects, (telemetry.metrics.CONTROLLER,))
    pending = pending_metrics.PendingMetrics(registry.Registry(()), lambda: empty, lambda: True)
    yield telemetry.metrics.Declared(pending, (telemetry.metrics.CONTROLLER,))
    yield telemetry.metrics.Declared(shadow_metrics.ShadowMetrics(dict), (telemetry.metrics.VIEW,))


def _metrics() -> Iterator[tuple[str, str]]:
    for collector, processes in _collectors():
        labels: tuple[str, ...] = getattr(collector, "_labelnames", ())
        where = "all" if len(processes) == len(telemetry.metrics.ALL) else ", ".join(processes)
        for metric in collector.collect():
            named = labels or _labels_of(metric)
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            spelled = ", ".join(f"`{label}`" for label in named) or "-"
            yield name, f"| `{name}` | {metric.type} | {where} | {spelled} | {metric.documentation} |"


def _labels_of(metric: core.Metric) -> tuple[str, ...]:
    labels = getattr(metric, "_labelnames", ()) or {label for one in metric.samples for label in one.labels}
    return tuple(labels if isinstance(labels, tuple) else sorted(labels))


def doctor_page() -> str:
    """The checks of the doctor."""
    lines = [
        "# What the doctor checks\n",
        _NOTE,
        "`topolog doctor AREA` runs the checks of an area, changes nothing and prints no secrets. A result"
        " has the ID of its check, its subject, a verdict, what was seen, why it matters and what fixes it"
        " ([how to](../how-to/find-out-what-is-wrong.md)).\n",
        "| verdict | meaning | exit code |",
        "|---|---|---|",
        "| `problem` | does harm, or cannot work | 1 |",
        "| `unsure` | could not be seen, which is never ok; the fix names the missing right or file | 1, 0"
        " with `--fail-on problem` |",
        "| `warning` | works, with a risk or a cost | 0, 1 with `--fail-on warning` |",
        "| `ok` | seen, and as it should be | 0 |\n",
        *(line for area, checks in AREAS.items() for line in _checks(area, checks)),
        "## What is found in the store\n",
        "`topolog doctor store` checks the server of `store.url` with the rights of the user named there."
        " *Not ready*: the processes check"
        " this themselves, and do not get ready as long as it is so (`appendonly` and `appendfsync` only"
        " with `store.require_durable`).\n",
        *doctor_findings.lines(),
        "\nIt also asks the sentinels, or every node of a Redis Cluster, and tries for the user of each role"
        " whether the server would let it do what it must, and nothing else (`topolog doctor users`).\n",
    ]
    return "\n".join(lines)


AREAS: Mapping[str, Sequence[doctor_checks.Check]] = {
    "scheduler": scheduler_catalog.CHECKS,
    "cluster": cluster_catalog.CHECKS,
    "tls": tls_catalog.CHECKS,
    "run": run_catalog.CHECKS,
    "policies": policy_examination.checks(plugins.IN_TREE),
    "store": store_checks.CHECKS,
}
"""Command below ``topolog doctor`` -> its checks."""


def _checks(area: str, checks: Sequence[doctor_checks.Check]) -> Iterator[str]:
    yield f"## `topolog doctor {area}`\n"
    found = sorted(checks, key=lambda one: one.id)
    if all(one.why for one in found):
        yield from ("| ID | what has to be so | otherwise | fix |", "|---|---|---|---|")
        yield from (
            f"| [{one.id}](../{one.docs}) | {one.about} | {one.why} | {_cell(one.fix)} |" for one in found
        )
    else:
        yield from ("| ID | what has to be so |", "|---|---|")
        yield from (f"| [{one.id}](../{one.docs}) | {one.about} |" for one in found)
    yield ""
    witnessed = [one.id for one in found if one in log_evidence.SHOWN]
    if witnessed:
        yield (
            f"{', '.join(witnessed[:-1])} and {witnessed[-1]} are also checked by the log of a running"
            " extender. It decides where it contradicts a configuration, or where none could be read"
            " ([what it shows](../how-to/find-out-what-is-wrong.md#what-the-log-shows-of-kube-scheduler)).\n"
        )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def prometheus_rule(rules: str) -> str:
    """The rule file of Prometheus as an object of the Prometheus operator."""
    groups = rules[rules.index("groups:") :]
    head = (
        "# Made from rules.yaml by `make docs`: change that file, not this one.\n"
        "apiVersion: monitoring.coreos.com/v1\n"
        "kind: PrometheusRule\n"
        "metadata:\n"
        "  name: topolog\n"
        "spec:\n"
    )
    return head + textwrap.indent(groups, "  ")


PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "commands.md": commands_page,
    "metrics.md": metrics_page,
    "store.md": lambda: store_page.store_page(_NOTE),
    "doctor.md": doctor_page,
    "plugins.md": lambda: plugins_page.plugins_page(_NOTE),
    "versions.md": lambda: versions_page.page(results.read()),
}


def main() -> None:
    """Write every page and picture."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())
    # Not a page, but made from the code as well.
    users = ROOT / "deploy" / "store" / "users.acl"
    users.parent.mkdir(exist_ok=True)
    users.write_text(acl.access_list("default"))
    monitoring = ROOT / "deploy" / "monitoring"
    (monitoring / "prometheusrule.yaml").write_text(prometheus_rule((monitoring / "rules.yaml").read_text()))
    for name, picture in pictures.PICTURES.items():
        (IMAGES / name).write_text(diagrams.svg(picture))
    versions_page.publish()
    generated_files.write()


if __name__ == "__main__":
    main()
