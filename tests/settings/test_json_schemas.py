"""The JSON Schema of a settings file allows what the settings allow, and refuses what they refuse."""

import json
import pathlib

import jsonschema_rs
import pytest

from app import settings
from app.settings import json_schemas
from tests.support import commands

WHOLE = json_schemas.whole(settings.describe())
VALIDATOR = jsonschema_rs.validator_for(WHOLE)


def nested(name: str, value: object) -> object:
    """A file with one setting."""
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def test_every_default_fits() -> None:
    for each in settings.describe():
        default = each.default if not hasattr(each.default, "items") else dict(each.default)
        assert VALIDATOR.is_valid(nested(each.name, listed(default))), each.name


@pytest.mark.parametrize("each", settings.describe(), ids=lambda each: each.name)
def test_a_value_of_another_type_is_refused(each: settings.Setting) -> None:
    wrong = [1] if each.kind is not tuple[str, ...] else 1
    assert not VALIDATOR.is_valid(nested(each.name, wrong))


@pytest.mark.parametrize(
    "given",
    [
        {"logging": {"level": "verbose"}},
        {"server": {"workers": 0}},
        {"server": {"workers": 65}},
        {"store": {"url": "http://a"}},
        {"cluster": "Two Words"},
        {"stores": {}},
        {"store": {"uri": "redis://a:6379"}},
    ],
    ids=json.dumps,
)
def test_what_load_refuses_is_refused(given: dict[str, object]) -> None:
    assert not VALIDATOR.is_valid(given)


VALUES: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3_600, 65_535, 65_536, 10**12, 10**30, 0.05, 0.5, 2.5, 61.5),
    *("", "a", "a-", "-a", "A", "a" * 64, "1", "true", "info", "INFO", "a b", "redis://h", "https://h"),
    *([], ["a"], ["a", 1], [None], {}, {"a": 1}, {"a": True}, {"a": "1"}, {"a": {}}, {"a": {"b": None}}),
)


@pytest.mark.parametrize("each", settings.describe(), ids=lambda each: each.name)
def test_load_and_the_schema_allow_the_same_values(each: settings.Setting, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "topolog.yaml"
    for value in VALUES:
        given = nested(each.name, value)
        file.write_text(json.dumps(given))
        assert VALIDATOR.is_valid(given) == allowed(str(file), each), value


def allowed(file: str, each: settings.Setting) -> bool:
    """Whether load allows the value of a setting, apart from its contradictions to others."""
    try:
        settings.load(file, {})
    except settings.SettingsRefused as refused:
        return not any(problem.allowed == f"must be {each.allowed}" for problem in refused.problems)
    return True


def test_the_command_prints_it() -> None:
    done = commands.called("settings", "--schema")
    assert json.loads(done.stdout) == json.loads(json.dumps(WHOLE))
