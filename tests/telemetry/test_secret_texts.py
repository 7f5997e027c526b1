"""The names that hide a value, in logs and in errors about settings."""

import pytest

from app import settings
from app.telemetry import secret_texts

CANARY = "cAn4ry"


@pytest.mark.parametrize(
    "name", ["password", "pass", "pwd", "secret", "token", "authorization", "credential", "private"]
)
def test_names_that_hide_a_value_in_logs_hide_it_in_errors(name: str) -> None:
    assert secret_texts.is_secret(f"other.{name}")
    with pytest.raises(settings.SettingsRefused) as refused:
        settings.load(None, {f"TOPOLOG_OTHER_{name.upper()}": CANARY})
    assert CANARY not in str(refused.value)
