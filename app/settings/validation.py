"""Validates the given values and builds Settings.

Each value is converted by itself, because msgspec stops at the first error and all of them are reported.
"""

import difflib
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from app import converters, misspellings
from app.settings import archive_urls, declarations, errors, groups, sources, store_urls

_SECRET = re.compile(r"pass|pwd|secret|token|authorization|credential|private", re.IGNORECASE)
_HOST = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
_URL = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^@/?#\s]*@)?(?P<hosts>(?:{_HOST}(?:,{_HOST})*)?)"
    r"(?P<path>/[^@?#\s]*)?(?:\?(?P<query>[^@#\s]*))?"
)
"""URLs whose host and secret can be separated unambiguously."""
_HIDDEN = "(hidden)"


def validate_all(
    given: Iterable[sources.GivenValue], settings: Sequence[declarations.Setting]
) -> groups.Settings:
    """Build the settings; the later of two values for a name wins. Raises SettingsRefused."""
    by_name = {setting.name: setting for setting in settings}
    values: dict[str, Any] = {}
    problems: list[errors.InvalidSetting] = []
    latest = {one.name: one for one in given}
    for name, one in latest.items():
        if name not in by_name:
            problems.append(_unknown(one, settings))
            continue
        try:
            values[name] = _converter(by_name[name]).convert(one.value)
        except msgspec.ValidationError:
            problems.append(_bad(one, by_name[name]))
    problems = problems or _contradictions(values, latest)
    if problems:
        raise errors.SettingsRefused(problems)
    return converters.Converter(groups.Settings).convert(_nested(values))


def _converter(setting: declarations.Setting) -> converters.Converter[Any]:
    return converters.Converter(cast("type[Any]", setting.constrained))


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    """``{"store.url": x}`` -> ``{"store": {"url": x}}``."""
    root: dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        group = root
        for part in path:
            group = group.setdefault(part, {})
        group[last] = value
    return root


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
    meant = misspellings.meant(given.name, names, cutoff=0.75)
    group = given.name.rpartition(".")[0]
    siblings = [name for name in names if not in_environment and name.rpartition(".")[0] == group]
    if meant:
        allowed = f"is not a setting{meant}"
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


_INCREASING = (
    ("election.retry", "election.renew"),
    ("election.renew", "election.lease"),
    # Otherwise an auditor counts as dead between two of its checks.
    ("audit.interval", "compaction.reader_timeout"),
)
"""Pairs of times of which the first must be less."""


def _out_of_order(
    values: Mapping[str, Any], given: Mapping[str, sources.GivenValue]
) -> Iterator[errors.InvalidSetting]:
    """Times that are not in increasing order."""
    defaults = groups.Settings()
    for names in _INCREASING:
        low, high = (values.get(name, operator.attrgetter(name)(defaults)) for name in names)
        name = next((one for one in names if one in given), "")
        if low >= high and name:
            allowed = f"{names[0]} ({low:g}) must be less than {names[1]} ({high:g})"
            yield errors.InvalidSetting(name, given[name].source, shown(values[name]), allowed)


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
    problems += _out_of_order(values, given)
    wrong_url = store_urls.flaw(values["store.url"]) if values.get("store.url") else ""
    if wrong_url:
        problems.append(errors.InvalidSetting("store.url", given["store.url"].source, _HIDDEN, wrong_url))
    wrong_place = archive_urls.flaw(values.get("compaction.archive", ""))
    if wrong_place:
        source = given["compaction.archive"].source
        problems.append(errors.InvalidSetting("compaction.archive", source, _HIDDEN, wrong_place))
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
