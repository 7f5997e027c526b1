"""The reference page of what plugins declare: capabilities, kinds, counts, routes, tables and permissions."""

from collections.abc import Iterable, Iterator
from typing import Any

from app import plugins
from app.api.v1 import plugins as plugin_routes
from app.domain import schema
from app.framework import capabilities
from app.kube.watch import kinds
from app.serving.access import roles
from tests.support import declared_access

_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")


def plugins_page(note: str) -> str:
    """What the plugins in the tree declare, and what follows from it."""
    made: list[capabilities.Plugin] = [plugin() for plugin in plugins.IN_TREE]
    return "\n".join(
        [
            "# What plugins declare\n",
            note,
            "The plugins of this version, in plugin order. Other distributions may add some"
            " ([How to write a plugin](../how-to/write-a-plugin.md)).\n",
            "## Capabilities\n",
            *_table(
                ("plugin", "enabled by", "capabilities"),
                ((one.name, _enabled_by(one), _capabilities(one)) for one in made),
            ),
            "## Watched kinds\n",
            "The recorder lists them in this order, and nothing is decided until each has been listed"
            " completely. Of several versions, the first that the API server serves is watched.\n",
            *_table(("kind", "paths", "declared by", "status"), _kinds(made)),
            "## Permissions\n",
            "What processes need for declared kinds, beside their permissions for pods, nodes and Events"
            " (`deploy/rbac`).\n",
            *_table(("process", "API group", "resource", "verbs"), _permissions(made)),
            "An argument of a plugin may request more; a component of `deploy/components` grants it to the"
            " controller.\n",
            *_table(
                ("API group", "resource", "verb"),
                (
                    (_code([group or "(core)"]), f"`{resource}`", f"`{verb}`")
                    for group, resource, verb in sorted(declared_access.on_request(made))
                ),
            ),
            "## Counts\n",
            "Families of counts. The store keeps them whether or not the plugin is enabled.\n",
            *_table(
                ("family", "form", "declared by", "read of a pod", "of a node", "of kinds"), _counts(made)
            ),
            "## Routes\n",
            "Roles of callers. A path that ends in `/*` stands for all paths below it; the most specific row"
            " applies, and what matches no row is refused. An operator may call whatever a viewer may.\n",
            *_table(("path", "methods", "role"), _routes(made)),
            "## Tables of `topolog get`\n",
            *_table(("kind", "plugin", "meaning"), _tables(made)),
        ]
    )


def _enabled_by(plugin: capabilities.Plugin) -> str:
    return "`*`" if type(plugin) in plugins.USUAL else "its name"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = tuple(heads)
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


def _capabilities(plugin: capabilities.Plugin) -> str:
    return ", ".join(kind.__name__ for kind in capabilities.KNOWN if isinstance(plugin, kind))


def _owners(made: Iterable[capabilities.Plugin]) -> dict[str, str]:
    """Kind -> the plugin that declares it."""
    return {kind.name: one.name for one in made for kind in declared_access.kinds([one])}


def _kinds(made: list[capabilities.Plugin]) -> Iterator[tuple[str, ...]]:
    owners, written = _owners(made), declared_access.statuses(made)
    for kind in kinds.watched(schema.Schema(declared_access.kinds(made))):
        status = "written" if kind.name in written else "-"
        yield f"`{kind.name}`", _code(kind.paths), owners.get(kind.name, "-"), status


def _permissions(made: list[capabilities.Plugin]) -> Iterator[tuple[str, ...]]:
    for process, rights in declared_access.needed(made).items():
        for group, resource in sorted({right[:2] for right in rights}):
            verbs = sorted(verb for *where, verb in rights if (*where,) == (group, resource))
            yield process, f"`{group}`", f"`{resource}`", _code(verbs)


def _counts(made: list[capabilities.Plugin]) -> Iterator[tuple[str, ...]]:
    for one in made:
        for counter in one.counters() if isinstance(one, capabilities.Counts) else ():
            yield (
                f"`{counter.family}`" if counter.family else "(no name)",
                str(counter.form),
                one.name,
                _code(counter.pod_fields),
                _code(counter.node_fields),
                _code(needed.kind.name for needed in counter.depends_on),
            )


def _routes(made: list[capabilities.Plugin]) -> Iterator[tuple[str, ...]]:
    for rule in roles.TABLE:
        yield f"`{rule.path}`", ", ".join(m for m in _METHODS if m in rule.methods), rule.role
    for one in made:
        for endpoint in one.shown().endpoints if isinstance(one, capabilities.Shows) else ():
            path = f"{plugin_routes.PREFIX}/{one.name}/{endpoint.path}"
            yield f"`{path}`", "GET, HEAD", endpoint.role


def _tables(made: list[capabilities.Plugin]) -> Iterator[tuple[str, ...]]:
    found: list[tuple[Any, ...]] = [
        (f"`{table.name}`", one.name, table.about)
        for one in made
        if isinstance(one, capabilities.Shows)
        for table in one.tables
    ]
    yield from sorted(found)
