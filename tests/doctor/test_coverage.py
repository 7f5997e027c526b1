"""Each check of the doctor has a test that makes it wrong, and one in which it is right.

Most are in the tables of these tests, which state exactly what a case finds, and in their sets of what is
ok if all is sound. For all others the tests are named here.
"""

import ast
import functools
import pathlib
import re
from collections.abc import Iterable, Mapping

import pytest

from app.framework import doctor_checks
from tests.project import reference_pages

_CLUSTER = "tests/doctor/test_cluster.py"
_INSTALLATION = "tests/doctor/test_installation.py"
_SCHEDULER = "tests/doctor/test_scheduler_cluster.py"
_RUN = "tests/doctor/test_run.py"
_DOCTOR = "tests/store/health/test_doctor.py"
_FINDINGS = "tests/store/health/test_findings.py"
_FSYNC = "tests/store/server/test_fsync.py"
_LIMITS = "tests/store/server/test_limits.py"
_TAIL = "tests/store/log/test_tail_repair.py"
_SENTINELS = "tests/store/server/test_sentinels.py"
_REDIS_CLUSTER = "tests/store/server/test_redis_cluster.py"
_SETTING = f"{_DOCTOR}::test_a_setting_that_does_harm_is_found"
_SOUND = f"{_DOCTOR}::test_a_sound_server_has_nothing_wrong"
_EVERY_NODE = f"{_REDIS_CLUSTER}::test_the_doctor_checks_every_node"

WRONG_IN: Mapping[str, str] = {
    "S14": f"{_SCHEDULER}::test_a_running_configuration_is_compared_with_the_written_ones",
    "S15": f"{_SCHEDULER}::test_a_pod_that_waits_without_a_call_is_found",
    **dict.fromkeys(("C12", "C13", "C14"), f"{_INSTALLATION}::test_a_cluster_that_is_not_ready_is_found"),
    "T04": "tests/doctor/test_tls_secrets.py::test_a_scheduler_that_was_started_before_its_ca_is_found",
    "T06": f"{_RUN}::test_a_handshake_succeeds_or_is_explained",
    "R01": f"{_RUN}::test_a_process_that_does_not_answer_is_found",
    "R02": f"{_RUN}::test_a_missing_process_is_found",
    "R03": f"{_RUN}::test_a_leader_that_is_missing_or_doubled_is_found",
    "R05": f"{_RUN}::test_another_configuration_is_found",
    "R10": f"{_RUN}::test_a_pod_that_was_never_called_about_is_found",
    "Q01": f"{_DOCTOR}::test_versions",
    "Q02": _EVERY_NODE,
    "Q03": f"{_DOCTOR}::test_a_replica_is_refused_as_a_store",
    **dict.fromkeys(("Q04", "Q07", "Q08", "Q09", "Q10", "Q13", "Q14"), _SETTING),
    "Q05": f"{_LIMITS}::test_a_full_disk_stops_appends_and_not_reads_until_there_is_space",
    "Q06": f"{_FINDINGS}::test_a_file_that_cannot_be_rewritten_is_found",
    "Q11": f"{_FINDINGS}::test_keys_that_were_evicted_are_found",
    "Q12": f"{_FINDINGS}::test_a_server_without_a_replica_is_found",
    "Q15": f"{_SENTINELS}::test_the_doctor_counts_the_sentinels",
    "Q16": f"{_REDIS_CLUSTER}::test_the_doctor_finds_a_redis_cluster_of_too_few_masters",
    "Q17": f"{_FINDINGS}::test_a_connection_in_the_clear_is_found",
    "Q18": f"{_DOCTOR}::test_a_check_without_permission_is_reported_as_unsure",
    "Q19": f"{_DOCTOR}::test_an_open_door_is_found",
    "Q20": f"{_SENTINELS}::test_the_doctor_misses_the_users_of_the_roles",
    "Q21": f"{_DOCTOR}::test_a_user_with_too_many_or_too_few_permissions_is_found",
    "Q22": f"{_DOCTOR}::test_functions_that_are_not_this_versions_are_found",
    "Q23": f"{_DOCTOR}::test_functions_that_are_not_this_versions_are_found",
    "Q24": f"{_FINDINGS}::test_a_key_of_another_type_is_found",
    "Q25": f"{_TAIL}::test_the_doctor_shows_a_foreign_tail_and_asks_before_it_repairs",
    "Q26": f"{_DOCTOR}::test_distance_and_clocks",
    "Q27": f"{_DOCTOR}::test_distance_and_clocks",
    "Q28": "tests/doctor/test_all_areas.py::test_everything_makes_the_checks_of_every_area",
    "Q29": f"{_DOCTOR}::test_keys_of_another_program_are_found",
    "Q30": f"{_DOCTOR}::test_an_old_snapshot_file_is_found",
    "Q31": f"{_DOCTOR}::test_a_cluster_node_that_misloads_its_file_is_found",
    "Q32": f"{_FSYNC}::test_the_doctor_finds_a_server_that_does_not_sync_placements",
}
"""Check -> the test that makes it wrong; Q01, Q26, Q27 and Q31 by facts that no server here has."""
RIGHT_IN: Mapping[str, str] = {
    "S14": WRONG_IN["S14"],
    "C09": f"{_CLUSTER}::test_a_network_policy_of_addresses_of_the_cluster_is_right",
    "T06": WRONG_IN["T06"],
    "Q01": WRONG_IN["Q01"],
    "Q15": WRONG_IN["Q15"],
    "Q16": _EVERY_NODE,
    "Q17": "tests/store/server/test_transport.py::test_everything_works_over_tls",
    "Q32": WRONG_IN["Q32"],
    # These are reported only if they are wrong.
    **dict.fromkeys(("Q05", "Q06", "Q08", "Q11", "Q14", "Q18", "Q20", "Q28", "Q31"), _SOUND),
}
"""Check -> the test in which it is right, for those that are in no set of what is right."""


def every() -> set[str]:
    return {check.id for checks in reference_pages.AREAS.values() for check in checks}


def missing(wrong: Iterable[str], right: Iterable[str]) -> dict[str, list[str]]:
    """The checks that no test makes wrong, and those that are right in none."""
    return {"wrong": sorted(every() - set(wrong)), "right": sorted(every() - set(right))}


@functools.cache
def source(path: pathlib.Path) -> ast.Module:
    """The parsed module of tests."""
    return ast.parse(path.read_text())


def found() -> set[str]:
    """The checks that a case of a table makes wrong: keys of a dict whose value is a verdict."""
    bad = (doctor_checks.PROBLEM, doctor_checks.WARNING)
    return {
        str(key.value)
        for path in pathlib.Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(source(path))
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and value.value in bad
        if re.fullmatch(r"[A-Z]\d\d", str(key.value))
    }


def right() -> set[str]:
    """The checks that the tests of what is sound demand to be ok."""
    paths = [*pathlib.Path(__file__).parent.glob("test_*.py"), reference_pages.ROOT / _DOCTOR]
    return {
        name
        for path in paths
        for node in source(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("RIGHT", "BEFORE")
        for name in ast.literal_eval(node.value)
    }


def test_each_check_has_a_test_that_makes_it_wrong_and_one_in_which_it_is_right() -> None:
    assert missing(found() | WRONG_IN.keys(), right() | RIGHT_IN.keys()) == {"wrong": [], "right": []}
    assert not {*WRONG_IN, *RIGHT_IN} - every()


def test_a_check_without_a_test_is_found() -> None:
    assert missing(found() - {"P08"} | WRONG_IN.keys(), right() - {"Q24"} | RIGHT_IN.keys()) == {
        "wrong": ["P08"],
        "right": ["Q24"],
    }


@pytest.mark.parametrize("place", sorted({*WRONG_IN.values(), *RIGHT_IN.values()}))
def test_a_test_that_is_named_exists(place: str) -> None:
    path, _, name = place.partition("::")
    body = source(reference_pages.ROOT / path).body
    assert name in {node.name for node in body if isinstance(node, ast.FunctionDef)}
