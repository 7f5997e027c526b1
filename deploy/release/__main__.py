"""Makes a release: `make release VERSION=0.2.0`, or `python -m deploy.release 0.2.0`."""

import datetime
import pathlib
import subprocess
import sys

import click

from deploy.release import artifacts
from deploy.release import version as versions

ROOT = pathlib.Path(__file__).parents[2]


@click.command(name="release")
@click.argument("version")
@click.option(
    "--url", default="", help="Folder from which the artifacts will be downloaded, for krew's manifest."
)
@click.option("--output", type=click.Path(path_type=pathlib.Path), default=ROOT / "dist", show_default="dist")
@click.option("--tagged", is_flag=True, help="Only write the artifacts: HEAD has the tag of VERSION already.")
def release(version: str, url: str, output: pathlib.Path, tagged: bool) -> None:
    """Commit and tag VERSION, and write its artifacts.

    Nothing is published: the last lines name the commands that do so.
    """
    try:
        if tagged:
            check_tagged(version, output)
        else:
            tag(version, output)
    except versions.Refused as refused:
        click.echo(f"release: {refused}", err=True)
        sys.exit(1)
    for made in build(version, url, output):
        click.echo(made.name)
    click.echo("\nTo publish it:")
    click.echo(f"  git push origin HEAD v{version}")
    click.echo(
        f"  docker buildx build -f deploy/Dockerfile -t YOUR_REGISTRY/topolog:{version}"
        f" --build-arg VERSION={version} --build-arg REVISION={git('rev-parse', 'HEAD')}"
        f" --build-arg SOURCE_DATE_EPOCH={git('log', '-1', '--format=%ct')}"
        " --build-arg BASE=docker.io/library/python@sha256:... --platform linux/amd64,linux/arm64"
        " --output type=registry,rewrite-timestamp=true ."
    )
    click.echo(
        f"  mkdir -p build/image; docker export $(docker create YOUR_REGISTRY/topolog:{version})"
        " | tar -x -C build/image; python -m deploy.release.debian_packages build/image"
        f" {output.name}/topolog-{version}-base.cdx.json; python -m deploy.release.sums {output.name}"
    )
    click.echo(f"  helm push {output.name}/topolog-{version}.tgz oci://YOUR_REGISTRY/charts")
    click.echo(f"  upload the files of {output.name}/")


def tag(version: str, output: pathlib.Path) -> None:
    """Write the version into the files that name it, commit and tag. Raises Refused."""
    versions.check(version, ROOT)
    check_clean(output)
    versions.check_newer(version, git("tag", "--list", "v*").splitlines())
    changed = versions.write(version, datetime.datetime.now(datetime.UTC).date(), ROOT)
    git("add", *changed)
    git("commit", "--quiet", "--message", f"Release {version}")
    git("tag", "--annotate", f"v{version}", "--message", f"Topolog {version}")


def check_tagged(version: str, output: pathlib.Path) -> None:
    """Refuse unless HEAD has the tag of the version, and is the release of that version."""
    check_clean(output)
    if f"v{version}" not in git("tag", "--points-at", "HEAD").splitlines():
        raise versions.Refused(f"HEAD has no tag v{version}: check out that tag (git checkout v{version})")
    versions.check_released(version, ROOT)


def check_clean(output: pathlib.Path) -> None:
    """Refuse unless the tree is clean and the folder of the artifacts is empty."""
    if git("status", "--porcelain"):
        raise versions.Refused("the working tree has changes: commit or remove them (git status)")
    if output.exists() and any(output.iterdir()):
        raise versions.Refused(
            f"{output.name}/ is not empty: remove the artifacts of another release (make clean)"
        )


def build(version: str, url: str, output: pathlib.Path) -> list[pathlib.Path]:
    """Write all artifacts into the folder, and return their paths."""
    output.mkdir(parents=True, exist_ok=True)
    folder = ROOT / "build" / "release"
    packages = artifacts.environment(ROOT, folder)
    archive = artifacts.plugin(packages, ROOT, version, output)
    made = [
        artifacts.source(ROOT, version, output),
        artifacts.zipapp(packages, "topolog", output / f"topolog-{version}-{artifacts.system()}.pyz"),
        archive,
        artifacts.chart(ROOT, version, output),
        artifacts.bill_of_materials(folder, ROOT / "deploy" / "requirements.lock", version, output),
    ]
    if url:
        made.append(artifacts.manifest(archive, version, url, output))
    return [*made, artifacts.sums(output)]


def git(*words: str) -> str:
    """Run git in the repository, and return its output."""
    done = subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    release()
