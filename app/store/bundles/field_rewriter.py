"""Rewrites what a bundle holds, field by field.

A field without a rule is taken for a name: what a later version or another distribution adds is replaced
until it is declared to be harmless.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from app.domain import events, model, schema
from app.domain.audit import findings
from app.store.bundles import layout, pseudonyms
from app.store.bundles.rules import (
    Rule,
    arguments,
    candidates,
    concerned,
    decided,
    each,
    kept,
    key,
    labels,
    layers,
    mapping,
    named,
    subject,
    term,
    text,
    victims,
    without,
)
from app.store.decisions import records

S = TypeVar("S", bound=msgspec.Struct)

_node, _pod, _namespace, _object = named("node"), named("pod"), named("namespace"), named("object")
_uid, _process, _value = named("uid"), named("process"), named("value")
_Rules = Mapping[str, Rule]

_OF_OBJECTS: Final[_Rules] = {"uid": _uid, "namespace": _namespace, "name": _object}
"""What the objects of every declared kind have."""
_OF_OUR_OBJECTS: Final[_Rules] = {
    "created": kept,
    "errors": each(text),
    "warnings": each(text),
    "error": text,
    "topology_key": key,
    "type": term,
    "method": term,
    "min": kept,
    "max": kept,
    "weight": kept,
    "total": kept,
    "resources": kept,
    "parent": _object,
    "tree": _object,
    "namespaces": _namespace,
    "options": labels,
    "disrupted": _pod,
    "groups": mapping(_object, kept),
    "layers": layers,
}
"""Of the objects that the plugins of Topolog declare. A field of the same name has the same meaning in all of
them, which does not hold for the types of other distributions: their fields have no rule.
"""
_OURS: Final = __name__.partition(".")[0]
"""The package of the types that these rules hold for."""

RULES: Final[Mapping[type, _Rules]] = {
    model.DeclaredObject: _OF_OBJECTS,
    # The fields of an unknown kind cannot be rewritten.
    model.UnknownObject: {**_OF_OBJECTS, "data": without(b"")},
    model.Taint: {"key": key, "effect": kept, "value": _value},
    model.Node: {
        "name": _node,
        "uid": _uid,
        "labels": labels,
        "annotations": labels,
        "allocatable": kept,
        "created": kept,
    },
    model.Owner: {"kind": term, "name": named("owner"), "uid": _uid},
    model.Toleration: {"key": key, "operator": kept, "value": _value, "effect": kept},
    model.Requirement: {"key": key, "operator": kept, "values": _value},
    model.Selector: {"labels": labels},
    model.HostPort: {"protocol": kept, "ip": term},
    model.PodTerm: {"topology_key": key, "namespaces": _namespace},
    model.Constraints: {"node_selector": labels, "others": kept},
    model.Pod: {
        "uid": _uid,
        "namespace": _namespace,
        "name": _pod,
        "labels": labels,
        "annotations": labels,
        "requests": kept,
        "node": _node,
        "nominated": _node,
        "phase": kept,
        "preemption_policy": kept,
        "scheduler": term,
        "created": kept,
        "started": kept,
        "unscheduled": text,
        "group": _object,
    },
    model.Placement: {
        "node": _node,
        "at": kept,
        "resource_version": kept,
        "data": decided,
        "annotations": labels,
        "labels": labels,
    },
    model.Flag: {"name": kept, "value": term, "pod": _pod, "until": kept},
    model.Configuration: {"digest": kept, "enabled": kept, "weights": kept, "args": arguments},
    # What it would change is spelled in forms of the plugins' own, in which any string may be a name.
    model.Shadow: {
        "name": _object,
        "overrides": without(()),
        "configuration": without(None),
        "until": kept,
        "note": text,
        "by": _process,
    },
    model.Position: {"incarnation": kept},
    events.PodGone: {"uid": _uid, "namespace": _namespace, "name": _pod},
    events.NodeGone: {"name": _node, "uid": _uid},
    events.ObjectGone: {"kind": kept, "identity": _object, "uid": _uid, "subjects": each(subject)},
    events.Relisted: {"kind": kept, "since": kept, "until": kept, "reason": text},
    events.Quarantined: {"kind": kept, "object": _object, "reason": text},
    events.PlacementsCommitted: {"at": kept, "by": _process, "claims": each(subject)},
    events.PlacementReleased: {
        "uid": _uid,
        "namespace": _namespace,
        "name": _pod,
        "node": _node,
        "reason": text,
        "cause": kept,
    },
    events.FlagSet: {"by": _process},
    events.ConfigurationApplied: {"by": _process},
    events.ShadowGone: {"name": _object, "by": _process},
    events.RecorderElected: {"by": _process, "epoch": kept, "incarnation": kept, "unwatched": kept},
    events.StoreRewound: {
        "from_incarnation": kept,
        "incarnation": kept,
        "reason": text,
        "by": _process,
        "relisting": kept,
    },
    events.StoreRestarted: {"by": _process, "before": _process, "after": _process},
    events.EpochAdopted: {"by": _process, "from_epoch": kept, "to_epoch": kept},
    events.ViewsRepaired: {
        "by": _process,
        "counts": mapping(text, kept),
        "moved": each(subject),
        "ended": each(subject),
        "reason": text,
    },
    events.RelistRequested: {"kind": kept, "reason": text, "by": _process},
    records.Decision: {
        "id": kept,
        "position": kept,
        "verb": kept,
        "configuration": kept,
        "outcome": kept,
        "at": kept,
        "reasons": mapping(text, kept),
        "plugins": kept,
        "node": _node,
        "victims": victims,
        "error": text,
        "candidates": candidates,
        "shortened": kept,
        "digest": kept,
        "objects": each(concerned),
    },
    findings.Report: {
        "incarnation": kept,
        "by": _process,
        "checkpoints": kept,
        "facts": kept,
        "waiting": mapping(kept, text),
        "problem": text,
    },
    findings.Difference: {
        "kind": kept,
        "key": text,
        "expected": text,
        "found": text,
        "writer": _process,
        "blame": text,
        "run": text,
    },
    findings.Repair: {"what": kept, "keys": each(text), "reason": text},
    layout.About: {
        "kind": kept,
        "topolog": kept,
        "cluster": named("cluster"),
        "incarnation": kept,
        "by": _process,
        "around": _pod,
        "decisions_from": kept,
        "pseudonyms": kept,
    },
}
"""Type -> field -> its rule. Those of a type hold for the types derived from it."""


class FieldRewriter:
    """Rewrites with the words of one pass."""

    def __init__(self, words: pseudonyms.Words, declared: schema.Schema) -> None:
        self.words = words
        self._schema = declared
        self._rules: dict[type, _Rules] = {}

    def struct(self, found: S) -> S:
        """The value with all its strings rewritten.

        Raises UnreadableObject for an object of a form that the schema does not have.
        """
        made: Any = self._struct(found)
        same: S = made
        return same

    def subjects(self, versions: Mapping[str, int]) -> dict[str, int]:
        """Subject -> the offset of its latest event."""
        return {subject(self.words, name): offset for name, offset in versions.items()}

    def _struct(self, found: msgspec.Struct) -> object:
        if isinstance(found, events.ObjectObserved):
            return self._observed(found)
        rules = self._of(type(found))
        changed = {
            name: made
            for name in found.__struct_fields__
            if not isinstance(value := getattr(found, name), int | float | None)
            # A default that stays is the same object, and is left out of the JSON.
            and (made := self._field(value, rules.get(name))) != value
        }
        rewritten = msgspec.structs.replace(found, **changed) if changed else found
        return _bare(rewritten) if isinstance(rewritten, model.UnknownObject) else rewritten

    def _of(self, kind: type) -> _Rules:
        found = self._rules.get(kind)
        if found is None:
            rules = [RULES[base] for base in reversed(kind.__mro__) if base in RULES]
            if issubclass(kind, model.DeclaredObject) and kind.__module__.partition(".")[0] == _OURS:
                rules.append(_OF_OUR_OBJECTS)
            found = self._rules[kind] = {name: rule for one in rules for name, rule in one.items()}
        return found

    def _field(self, value: object, rule: Rule | None) -> object:
        if rule is not None:
            return rule(self.words, value)
        if isinstance(value, str):
            return self.words.name(value, "value")
        if isinstance(value, tuple | list):
            return type(value)(self._field(one, None) for one in value)
        if isinstance(value, dict):
            return {self.words.name(name, "value"): self._field(one, None) for name, one in value.items()}
        if isinstance(value, msgspec.Struct):
            return self.struct(value)
        # Bytes of an unknown form.
        return value if isinstance(value, int | float | None) else type(value)()

    def _observed(self, event: events.ObjectObserved) -> events.ObjectObserved:
        found = self.struct(self._schema.read(event.kind, event.data))
        return msgspec.structs.replace(
            event,
            identity=_object(self.words, event.identity),
            uid=_uid(self.words, event.uid),
            data=found.encode(),
            subjects=tuple(subject(self.words, one) for one in event.subjects),
        )


def _bare(found: model.UnknownObject) -> model.UnknownObject:
    """The object with nothing but its names."""
    data = msgspec.json.encode({"uid": found.uid, "namespace": found.namespace, "name": found.name})
    return msgspec.structs.replace(found, data=data)
