"""Validates the given values and builds Settings.

The marshmallow schema is derived from the declarations, with one field per setting.
"""

import dataclasses
import difflib
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import marshmallow
from marshmallow import fields, validate

from app.settings import declarations, errors, groups, sources, store_urls

_SECRET = re.compile(r"pass|pwd|secret|token|credential", re.IGNORECASE)
_HOST = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_URL = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^@/?#\s]*@)?(?P<hosts>(?:{_HOST}(?:,{_HOST})*)?)"
    r"(?P<path>/[^@?#\s]*)?(?:\?(?P<query>[^@#\s]*))?"
)
"""URLs whose host and secret can be separated unambiguously."""
_HIDDEN = "(hidden)"


_FIELDS: dict[Any, Callable[..., fields.Field[Any]]] = {
    str: fields.String,
    int: lambda **options: fields.Integer(strict=True, **options),
    float: fields.Float,
    bool: lambda **options: fields.Boolean(truthy={True}, falsy={False}, **options),
    tuple[str, ...]: lambda **options: fields.List(fields.String(), **options),
    Mapping[str, int]: lambda **options: fields.Dict(fields.String(), fields.Integer(strict=True), **options),
    Mapping[str, Mapping[str, Any]]: lambda **options: fields.Dict(
        fields.String(), fields.Dict(fields.String()), **options
    ),
}


def validate_all(
    given: Iterable[sources.GivenValue], settings: Sequence[declarations.Setting]
) -> groups.Settings:
    """Build the settings; the later of two values for a name wins. Raises SettingsRefused."""
    latest = {one.name: one for one in given}
    by_name = {setting.name: setting for setting in settings}
    problems = [_unknown(one, settings) for name, one in latest.items() if name not in by_name]
    known = {name: one for name, one in latest.items() if name in by_name}
    values, refused = _validated({name: one.value for name, one in known.items()}, settings)
    problems += [_bad(known[name], by_name[name]) for name in known if name in refused]
    problems += [] if problems else _contradictions(values, known)
    if problems:
        raise errors.SettingsRefused(problems)
    return typing.cast(groups.Settings, _built(groups.Settings, (), values))


def _validated(
    values: Mapping[str, object], settings: Sequence[declarations.Setting]
) -> tuple[dict[str, Any], set[str]]:
    # One flat schema: marshmallow treats a dot in a name as a path.
    schema = marshmallow.Schema.from_dict({_flat(s.name): _field(s) for s in settings})()
    kinds = {setting.name: setting.kind for setting in settings}
    mistyped = {name for name, value in values.items() if _mistyped(value, kinds[name])}
    names = {_flat(name): name for name in values if name not in mistyped}
    try:
        loaded = schema.load({flat: values[name] for flat, name in names.items()})
    except marshmallow.ValidationError as error:
        return {}, mistyped | {names[str(key)] for key in error.messages_dict}
    return {names[flat]: value for flat, value in loaded.items()}, mistyped


def _mistyped(value: object, kind: object) -> bool:
    """Whether marshmallow would wrongly accept a value as a number: a boolean or a text.

    Variables were converted by sources.parse before.
    """
    return kind in (int, float) and isinstance(value, bool | str)


def _flat(name: str) -> str:
    return name.replace(".", "__")


def _field(setting: declarations.Setting) -> fields.Field[Any]:
    rule = setting.rule
    validators: list[Callable[[Any], Any]] = []
    if rule.at_least is not None or rule.at_most is not None:
        validators.append(validate.Range(min=rule.at_least, max=rule.at_most))
    if rule.one_of:
        validators.append(validate.OneOf(rule.one_of))
    if rule.pattern:
        validators.append(validate.Regexp(f"(?:{rule.pattern})\\Z"))
    return _FIELDS[setting.kind](validate=validators)


def _built(group: type[Any], at: tuple[str, ...], values: Mapping[str, Any]) -> object:
    kinds = typing.get_type_hints(group)
    chosen: dict[str, object] = {}
    for field in dataclasses.fields(group):
        path = (*at, field.name)
        kind, name = kinds[field.name], ".".join(path)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            chosen[field.name] = _built(kind, path, values)
        elif name in values:
            chosen[field.name] = tuple(values[name]) if kind == tuple[str, ...] else values[name]
    return group(**chosen)


# -- error messages --------------------------------------------------------------------------


def _bad(given: sources.GivenValue, setting: declarations.Setting) -> errors.InvalidSetting:
    rule = setting.rule
    hidden = rule.secret or rule.quiet
    value = _HIDDEN if hidden else shown(given.value)
    return errors.InvalidSetting(given.name, given.source, value, f"must be {setting.allowed}")


def _unknown(given: sources.GivenValue, settings: Sequence[declarations.Setting]) -> errors.InvalidSetting:
    in_environment = given.name.startswith(declarations.PREFIX)
    secrets = {(s.env if in_environment else s.name): s.rule.secret or s.rule.quiet for s in settings}
    names = list(secrets)
    near = difflib.get_close_matches(given.name, names, n=1, cutoff=0.75)
    group = given.name.rpartition(".")[0]
    siblings = [name for name in names if not in_environment and name.rpartition(".")[0] == group]
    if near:
        allowed = f"is not a setting; did you mean {near[0]}?"
    elif group and siblings:
        allowed = f"is not a setting; {group} has {', '.join(siblings)}"
    else:
        allowed = "is not a setting; `topolog settings` lists them all"
    # A typo in a secret's name must not print the secret.
    alike = difflib.get_close_matches(given.name, names, n=3, cutoff=0.6)
    secret = (
        _SECRET.search(given.name)
        or isinstance(given.value, Mapping | list)
        or any(secrets[name] for name in alike)
    )
    return errors.InvalidSetting(given.name, given.source, _HIDDEN if secret else shown(given.value), allowed)


def shown(value: object) -> str:
    """A value for display: hidden if it may be a URL with a secret, and cut if it is long."""
    text = repr(value)
    if "//" in text or "@" in text:
        text = repr(without_secrets(value)) if isinstance(value, str) else _HIDDEN
    return text if len(text) <= 100 else f"{text[:97]}..."


def without_secrets(url: str) -> str:
    """A URL with user-info and parameter values hidden.

    A text that is not a URL, or an ambiguous one, is hidden completely.
    """
    found = _URL.fullmatch(url)
    if found is None:
        return _HIDDEN if url else ""
    user = f"{_HIDDEN}@" if found["user"] else ""
    given = (found["query"] or "").split("&") if found["query"] else []
    query = "&".join(f"{one.partition('=')[0]}={_HIDDEN}" if "=" in one else _HIDDEN for one in given)
    asked = f"?{query}" if query else ""
    return f"{found['scheme']}://{user}{found['hosts']}{found['path'] or ''}{asked}"


def _election_times(
    values: Mapping[str, Any], given: Mapping[str, sources.GivenValue]
) -> list[errors.InvalidSetting]:
    """Election times that are not in increasing order."""
    defaults = groups.Election()
    problems = []
    for shorter, longer in (("retry", "renew"), ("renew", "lease")):
        names = f"election.{shorter}", f"election.{longer}"
        low = values.get(names[0], getattr(defaults, shorter))
        high = values.get(names[1], getattr(defaults, longer))
        name = next((one for one in names if one in given), "")
        if low >= high and name:
            value = shown(values[name])
            allowed = f"{names[0]} ({low:g}) must be less than {names[1]} ({high:g})"
            problems.append(errors.InvalidSetting(name, given[name].source, value, allowed))
    return problems


def _contradictions(
    values: Mapping[str, Any], given: Mapping[str, sources.GivenValue]
) -> list[errors.InvalidSetting]:
    """Settings that are valid alone and invalid together."""
    problems: list[errors.InvalidSetting] = []

    def requires(one: str, other: str) -> None:
        if values.get(one) and not values.get(other):
            problems.append(
                errors.InvalidSetting(one, given[one].source, "", f"requires {other}, which is not set")
            )

    def conflicts(one: str, other: str) -> None:
        if values.get(one) and values.get(other):
            problems.append(
                errors.InvalidSetting(
                    one, given[one].source, "", f"conflicts with {other}: set only one of them"
                )
            )

    # A certificate file may contain the key as well.
    requires("tls.key", "tls.cert")
    requires("client.key", "client.cert")
    problems += _election_times(values, given)
    wrong_url = store_urls.flaw(values["store.url"]) if values.get("store.url") else ""
    if wrong_url:
        problems.append(errors.InvalidSetting("store.url", given["store.url"].source, _HIDDEN, wrong_url))
    if values.get("server.insecure") and values.get("server.bind") not in ("127.0.0.1", "::1", "localhost"):
        allowed = "requires server.bind to be a loopback address, such as 127.0.0.1"
        problems.append(
            errors.InvalidSetting("server.insecure", given["server.insecure"].source, "True", allowed)
        )
    conflicts("tls.cert", "tls.keystore_path")
    conflicts("tls.ca", "tls.truststore_path")
    for role in ("scheduler", "viewer", "operator"):
        name = f"identities.{role}"
        wrong = [san for san in values.get(name, ()) if not re.fullmatch(r"\S+", san)]
        if wrong:
            allowed = "each must be URI:... or DNS:..., without spaces"
            problems.append(errors.InvalidSetting(name, given[name].source, shown(wrong), allowed))
    return problems
