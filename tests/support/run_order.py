"""The order of the modules: the longest first, since one that starts last runs while other processes wait.

Of the end-to-end tests, the longest three are last. A run whose time is limited (tests/e2e/conftest.py) does
without the commands of pages and the chart before it does without gangs, quotas and the contract. The others
are ordered by the names of their modules alone: by folders, such a run would do without a whole subject.
"""

import pytest

LONGEST = (
    "tests/workers/auditor/test_damage.py",
    "tests/monitoring/test_alerts.py",
    "tests/monitoring/test_prometheus.py",
    "tests/cli/questions/test_console_blocks.py",
    "tests/workers/test_processes.py",
    "tests/campaigns/test_simulation.py",
    "tests/api/test_documents.py",
    "tests/extender/test_outages.py",
    "tests/project/test_site.py",
    "tests/cli/test_demo.py",
    "tests/serving/http/test_attackers.py",
    "tests/cli/test_up.py",
    "tests/workers/auditor/test_auditors.py",
    "tests/cli/viewer/test_view_end.py",
    "tests/provisioning/test_passwords_under_load.py",
)
"""The modules that take a minute or more in a run of all tests, the longest first."""
LAST = (
    "tests/e2e/deploy/test_chart.py",
    "tests/e2e/installation/test_console_blocks.py",
    "tests/e2e/installation/test_readme.py",
)
"""They take as long as each other."""
_RANK = {module: number for number, module in enumerate((*LONGEST, "", *LAST))}
_END_TO_END = "tests/e2e/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order all tests; those of a module keep their order."""
    items.sort(key=lambda item: place(item.nodeid.partition("::")[0]))


def place(module: str) -> tuple[int, str]:
    """The place of a module: the longest are in front, LAST at the end, all others between as they were."""
    name = module.rpartition("/")[2] if module.startswith(_END_TO_END) else ""
    return _RANK.get(module, _RANK[""]), name
