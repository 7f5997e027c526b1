"""Makes the screenshots of the documentation: ``python -m tests.support.browser.screenshots FOLDER``."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping, Sequence

from tests.support.browser import browsers

_ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)(/dashboard/\?token=\S+)")


def main(folder: str) -> int:
    """Play the demo, and take a picture of each view."""
    if browsers.MISSING:
        sys.stderr.write(f"{browsers.MISSING}\n")
        return 1
    target = pathlib.Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    demo = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "demo", "--keep"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert demo.stdout is not None
        found = next(match for line in demo.stdout if (match := _ADDRESS.search(line)))
        with tempfile.TemporaryDirectory() as profile:
            _take(found[1], found[2], pathlib.Path(profile), target)
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)
    return 0


def _take(base: str, first: str, profile: pathlib.Path, target: pathlib.Path) -> None:
    with browsers.browser(base, profile / "light", size=(1360, 860)) as page:
        page.open(first)
        head = int(page.settled().rpartition("/")[2])
        _save(page, target / "overview.png")
        page.open("/dashboard/workloads")
        _save(page, target / "workloads.png")
        page.open("/dashboard/pending")
        _save(page, target / "pending.png")
        page.click(".names a")
        page.until(lambda: "no capacity" in page.text("#why"), "the attempt of the pod")
        page.settled()
        _save(page, target / "pod.png")
        page.open("/dashboard/decisions")
        _save(page, target / "decisions.png")
        page.open(f"/dashboard/compare?from={head // 2}")
        replay(page, [{"op": "scalePolicy", "policy": "crowd/service-0", "allocations": {"zone-a": "+1"}}])
        page.run("document.getElementById('what-if').scrollIntoView()")
        _save(page, target / "compare.png")
    with browsers.browser(base, profile / "dark", size=(1360, 860), dark=True) as page:
        page.open(first)
        page.open(f"/dashboard/?at={head - 2500}")
        _save(page, target / "past-dark.png")


def replay(page: browsers.Browser, overrides: Sequence[Mapping[str, object]]) -> None:
    """Replay the decisions under overrides.

    Raises AssertionError if none would have been another, or if some are not compared.
    """
    page.fill("#what-if .b textarea", json.dumps(overrides, indent=1))
    page.press("replay the decisions from A to B", "#what-if")
    answer = page.until(lambda: page.text("#outcome"), "the replay")
    assert "in the time" not in answer, f"not all decisions are compared: {answer}"
    assert "what it means" in answer, f"nothing differs: {answer}"


def _save(page: browsers.Browser, path: pathlib.Path) -> None:
    # No scroll bar is drawn, so that no space is kept for one.
    page.run("document.documentElement.style.scrollbarGutter = 'auto'; document.activeElement.blur()")
    page.later("requestAnimationFrame(() => setTimeout(arguments[0], 400))")
    path.write_bytes(optimized(page.driver.get_screenshot_as_png()))


def optimized(png: bytes) -> bytes:
    """The same picture, with its rows compressed once more at the highest level."""
    head, at, chunks = png[:8], 8, []
    data = b""
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length
        if kind == b"IDAT":
            data += body
        else:
            chunks.append((kind, body))
    packed = zlib.compress(zlib.decompress(data), 9)
    chunks.insert(-1, (b"IDAT", packed if len(packed) < len(data) else data))
    return head + b"".join(
        len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        for kind, body in chunks
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
