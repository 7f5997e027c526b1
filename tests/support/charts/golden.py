"""What Helm renders of the chart, committed, so that it is compared without Helm.

``python -m tests.support.charts.golden HELM`` writes it again; tests/e2e/deploy/test_chart.py compares it
with what Helm 3 and Helm 4 render. A digest of the chart shows that it is current.
"""

import functools
import hashlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import yaml

import app
from deploy.release import version as versions
from tests.support import kustomizations, manifests
from tests.support.charts import generated_files, values

FOLDER: Final = pathlib.Path(__file__).parents[2] / "deploy" / "charts" / "golden"
DIGEST: Final = FOLDER / "chart.sha256"
OVERLAYS: Final = (values.DEFAULT, *values.PROFILES)
"""Cases that have a counterpart of kustomize, and are stored whole."""
KUBERNETES: Final = "1.37.0"
MONITORING: Final = "monitoring.coreos.com/v1"
_VERSION: Final = "VERSION"
_DASHBOARDS: Final = [path.name for path in (generated_files.CHART / "files" / "dashboards").glob("*.json")]
_WITHOUT_EFFECT: Final = {"values.schema.json", *_DASHBOARDS}


def cases() -> dict[str, list[str]]:
    """Case -> arguments of Helm."""
    made: dict[str, list[str]] = {values.DEFAULT: []}
    for name in values.PROFILES:
        made[name] = ["--values", str(generated_files.CHART / f"values-{name}.yaml")]
    for path in sorted((generated_files.CHART / "ci").glob("*-values.yaml")):
        made[path.name.removesuffix("-values.yaml")] = ["--values", str(path)]
    return made


def rendered(
    helm: pathlib.Path,
    case: str,
    *,
    kubernetes: str = KUBERNETES,
    apis: Sequence[str] = (MONITORING,),
    further: Sequence[str] = (),
) -> str:
    """What Helm renders of a case for a cluster of that version with these APIs, with further arguments."""
    command = [helm, "template", "topolog", generated_files.CHART, "--namespace", "topolog-system"]
    versions = ["--kube-version", kubernetes, *(f"--api-versions={each}" for each in apis)]
    done = subprocess.run(
        [*map(str, command), *versions, *cases()[case], *further], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def stored(case: str) -> list[manifests.Object]:
    """The committed objects of a case: all of an overlay, else those that differ from the default."""
    return parsed((FOLDER / f"{case}.yaml").read_text().replace(_VERSION, app.__version__))


def parsed(text: str) -> list[manifests.Object]:
    """The objects of Helm's output."""
    return kustomizations.documents(text)


def of_case(case: str, objects: Iterable[manifests.Object]) -> list[manifests.Object]:
    """What is stored of a case; the dashboards are files of the chart."""
    if case in OVERLAYS:
        return list(objects)
    usual = stored(values.DEFAULT)
    return [one for one in objects if one not in usual and one["metadata"]["name"] != "topolog-dashboards"]


def digest() -> str:
    """The digest of every file of the chart that the stored output depends on.

    The schema of the values, which follows the settings, refuses values and changes none.
    """
    found = hashlib.sha256()
    for path in sorted(generated_files.CHART.rglob("*")):
        if path.is_file() and path.suffix != ".md" and path.name not in _WITHOUT_EFFECT:
            content = _without_version(path.read_text()).encode()
            found.update(f"{path.relative_to(generated_files.CHART)} {len(content)}\n".encode() + content)
    return found.hexdigest() + "\n"


def write(helm: pathlib.Path) -> None:
    """Render every case, and store it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for case in cases():
        objects = of_case(case, parsed(rendered(helm, case)))
        text = yaml.dump_all(objects, Dumper=_Dumper, sort_keys=True, width=10_000, allow_unicode=True)
        (FOLDER / f"{case}.yaml").write_text(_without_version(text))
    DIGEST.write_text(digest())


def _without_version(text: str) -> str:
    """A release changes only the version and the list of changes: the stored output stays current."""
    text = re.sub(
        rf"(topolog[:-]|(?m:^)version: |appVersion: ){re.escape(app.__version__)}\b", rf"\1{_VERSION}", text
    )
    return versions.with_changes(text, ())


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block, so that a change of it is a change of a line."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


if __name__ == "__main__":
    generated_files.write()
    write(pathlib.Path(sys.argv[1]))
