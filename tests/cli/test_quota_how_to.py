"""docs/how-to/quotas.md, tried as it is written."""

import json
import pathlib

import pytest
import yaml

from app import plugins
from app.cli import scenario
from app.plugins.elastic_quota import annotations, decoding, kinds
from app.plugins.elastic_quota.plugin import ElasticQuota
from tests.support import how_to_pages

PAGE = "quotas.md"


@pytest.mark.parametrize(("request_of_web", "shown"), [("35", 0), ("25", 1)])
def test_the_file_gives_the_output_that_the_page_shows(
    tmp_path: pathlib.Path, request_of_web: str, shown: int
) -> None:
    found = how_to_pages.scored(PAGE, '{"cpu": "35"}', f'{{"cpu": "{request_of_web}"}}', tmp_path)
    assert found == how_to_pages.blocks(PAGE, "text")[shown].splitlines()


def test_the_annotation_is_the_runtime_of_the_quota_that_the_page_creates() -> None:
    (text,) = how_to_pages.blocks(PAGE, "json")
    cluster = json.loads(text.replace('{"cpu": "35"}', '{"cpu": "25"}'))
    created = yaml.safe_load(how_to_pages.blocks(PAGE, "yaml")[0])
    cluster["quotas"][0]["spec"] = created["spec"]
    # The pod to be placed is not part of the state.
    cluster["pods"].append(cluster["pod"])
    cluster["pod"] = {"name": "another"}
    snapshot = scenario.read(json.dumps(cluster).encode(), schema=plugins.catalog().schema).snapshot
    writer = annotations.Writer(snapshot, ElasticQuota(koordinator_annotations=True))
    (held,) = (one for one in snapshot.all(kinds.QUOTAS).values() if one.name == created["metadata"]["name"])
    written = writer.of(held)[f"{decoding.PREFIX}runtime"]
    assert f"{written}\n" in how_to_pages.blocks(PAGE, "text")
