"""``python -m tests.support.extender.planning_topolog``: the command ``topolog`` with one more plugin."""

from unittest import mock

from app import cli, plugins
from tests.support.decisions import pod_sets

if __name__ == "__main__":
    with (
        mock.patch.object(plugins, "IN_TREE", (*plugins.IN_TREE, pod_sets.PodSets)),
        mock.patch.object(plugins, "USUAL", (*plugins.USUAL, pod_sets.PodSets)),
    ):
        cli.main()
