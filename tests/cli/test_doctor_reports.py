"""What a report of the doctor shows of the texts that its checks return."""

import click
import pytest
from click import testing

from app.cli.doctor import options, reports
from app.cli.output import formats
from app.framework import doctor_checks

CANARY = "cAn4ry"
DIGEST = f"sha256:{'0f' * 32}"


def shown(text: str, output: str = formats.TEXT) -> str:
    result = doctor_checks.Result("X1", text, doctor_checks.WARNING, text, text, text)

    @click.command()
    def command() -> None:
        reports.show("run", "c", [result], options.Shown(output, "problem", (), False))

    run = testing.CliRunner().invoke(command)
    assert run.exit_code == 0, run.output
    return run.output


@pytest.mark.parametrize("output", [formats.TEXT, formats.WIDE, "json"])
@pytest.mark.parametrize(
    "text",
    [
        f"redis://u:{CANARY}@host:1/0",
        f"redis://u:{CANARY}/{CANARY}@host:1/0",
        f"redis://:{CANARY}@{CANARY}@host:1/0",
        f"u:{CANARY}@host:1",
        f"https://u:{CANARY}'{CANARY}@host/extender",
        f'https://u:{CANARY}"{CANARY}/{CANARY}@host/extender',
        f"https://{CANARY}'{CANARY}@host/extender",
        f"redis://host:1/0?password={CANARY}",
        f"redis://host:1/0?db=1&ssl_password={CANARY}&x=1",
    ],
)
def test_no_part_of_a_password_is_shown(text: str, output: str) -> None:
    found = shown(f"the store {text} is away", output)
    assert CANARY not in found
    assert "host" in found


@pytest.mark.parametrize(
    "text",
    [
        "kubectl --context=admin@kosmos get pods",
        f"image example.com:5000/kube-scheduler:v1.35.4@{DIGEST}, API server 1.35",
        "https://topolog.kosmos:8443/apis/v1",
    ],
)
def test_what_is_no_password_is_shown(text: str) -> None:
    assert text in " ".join(shown(text).split())
