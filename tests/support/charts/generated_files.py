"""Writes the files of the chart that are made from the overlays and the settings."""

import base64
import functools
import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Final

import app
from tests.support import manifests
from tests.support.charts import parts, schema, values

CHART: Final = manifests.DEPLOY / "charts" / "topolog"
ICON: Final = pathlib.Path(app.__file__).parent / "api" / "dashboard" / "static" / "icon.svg"
_COPIES: Final[Mapping[str, str]] = {
    "files/kube-scheduler-sidecar.yaml": "scheduler/kube-scheduler-sidecar.yaml",
    "files/kube-scheduler-service.yaml": "scheduler/kube-scheduler-service.yaml",
    "files/valkey.conf": "components/bundled-valkey/valkey.conf",
    "files/podmonitor.yaml": "monitoring/podmonitor.yaml",
    "files/prometheusrule.yaml": "monitoring/prometheusrule.yaml",
    **{
        f"files/dashboards/topolog-{name}.json": f"monitoring/dashboards/topolog-{name}.json"
        for name in ("overview", "quotas", "store")
    },
}
"""File of the chart -> file of deploy/, because a chart cannot read outside of its folder."""


@functools.cache
def files() -> dict[pathlib.Path, str]:
    """Every file of the chart that is not written by hand, with its content."""
    return {CHART / name: make() for name, make in _makers().items()}


@functools.cache
def names() -> list[str]:
    """Their paths in the chart, without their content, which takes a second to make."""
    return sorted(_makers())


def _makers() -> dict[str, Callable[[], str]]:
    return {
        **{
            f"templates/{name}.yaml": functools.partial(parts.template, part)
            for name, part in parts.parts().items()
        },
        "values.yaml": values.default_file,
        **{f"values-{name}.yaml": functools.partial(values.profile_file, name) for name in values.PROFILES},
        "values.schema.json": lambda: json.dumps(schema.schema(), indent=1) + "\n",
        **{name: (manifests.DEPLOY / source).read_text for name, source in _COPIES.items()},
        "Chart.yaml": lambda: described((CHART / "Chart.yaml").read_text()),
    }


def described(text: str) -> str:
    """Chart.yaml with the version of the program, which is that of the chart, too, and with its icon."""
    drawing = base64.b64encode(ICON.read_bytes()).decode()
    icon = f"data:image/svg+xml;base64,{drawing}"
    for name, value in {"version": app.__version__, "appVersion": app.__version__, "icon": icon}.items():
        text, count = re.subn(rf"(?m)^{name}: .*$", f"{name}: {value}", text)
        assert count == 1, f"Chart.yaml has no {name}"
    return text


def write() -> None:
    """Write them all."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
