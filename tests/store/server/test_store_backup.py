"""The commands of docs/how-to/store.md that copy the volume of the bundled store, on a server's directory.

``kubectl`` is a stand-in that runs what the page executes in the pod, with the directory in place of /data.
"""

import pathlib
from collections.abc import Iterator

import pytest

from app.store.server import embedded
from tests.support import console_sessions, how_to_pages, kustomizations, manifests
from tests.support.store import crash_safe_server, deployments

COPY, RESTORE = (
    block
    for block in how_to_pages.console()
    if block.page == "store.md" and "exec" in block.text and "topolog-valkey-copy" in block.text
)
"""The blocks that write a copy and that restore it."""
STAND_IN = """\
case "$*" in *" exec "*) ;; *) exit 0 ;; esac
while [ "$1" != -- ]; do shift; done
shift
for word; do shift; set -- "$@" "$(printf %s "$word" | sed 's#/data#{data}#g')"; done
exec "$@"
"""


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data"


@pytest.fixture
def session(tmp_path: pathlib.Path, data: pathlib.Path) -> console_sessions.Session:
    made = console_sessions.Session(tmp_path)
    made.add("kubectl", STAND_IN.replace("{data}", str(data)))
    return made


@pytest.fixture
def server(data: pathlib.Path) -> Iterator[embedded.Server]:
    made = crash_safe_server.CrashSafeServer(data, append_only=True)
    yield made
    made.stop()


def test_a_copy_of_the_volume_is_restored(server: embedded.Server, session: console_sessions.Session) -> None:
    store = deployments.opened(server.url, "c")
    backed_up = deployments.append(store, "a", "b")
    server.kill()
    session.run([COPY], {})
    server.start()
    deployments.append(store, "c")
    server.kill()
    session.run([RESTORE], {})
    server.start()
    assert store.log.head().offset == backed_up.last
    store.close()


def test_the_manifests_of_the_page_name_the_volume_of_the_bundled_store() -> None:
    (server,) = (each for each in manifests.overlay("dev") if each["kind"] == "StatefulSet")
    spec = server["spec"]["template"]["spec"]
    (template,) = server["spec"]["volumeClaimTemplates"]
    claim = f"{template['metadata']['name']}-{server['metadata']['name']}-0"
    (text,) = (text for text in how_to_pages.blocks("store.md", "yaml") if "topolog-valkey-copy" in text)
    (pod,) = kustomizations.documents(text)
    (container,), (volume,) = pod["spec"]["containers"], pod["spec"]["volumes"]
    (valkey,) = spec["containers"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim
    assert pod["spec"]["securityContext"] == spec["securityContext"]
    assert container["image"] == valkey["image"]
    assert container["securityContext"] == valkey["securityContext"]
    page = how_to_pages.page("store.md")
    assert f"{{persistentVolumeClaimName: {claim}}}" in page
    assert f"metadata: {{name: {claim}, namespace: {server['metadata']['namespace']}}}" in page
