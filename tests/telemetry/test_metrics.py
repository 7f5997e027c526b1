"""Metrics of calls, and the sets of label values that are known in advance."""

import typing

import pytest
from prometheus_client import registry

from app import telemetry
from app.domain import events
from app.domain.audit import findings
from app.telemetry import metrics, readings
from tests.support.monitoring import samples


def test_calls_are_counted_by_verb_and_outcome_and_refusals_by_plugin() -> None:
    name = "topolog_verb_duration_seconds_count"
    observed = samples.value(name, verb="filter", outcome="tested")
    refused = samples.value("topolog_refused_nodes_total", plugin="Tested")
    telemetry.verb("filter", "ns/p", outcome="tested", seconds=0.5, refusals={"Tested": 3})
    telemetry.verb("filter", "ns/p", outcome="tested", seconds=0.5)
    assert samples.value(name, verb="filter", outcome="tested") == observed + 2
    assert samples.value("topolog_refused_nodes_total", plugin="Tested") == refused + 3


def test_the_sets_of_label_values_are_those_of_the_code() -> None:
    assert set(metrics.DIFFERENCES) == set(findings.KINDS)
    assert metrics.OUTCOMES.keys() == set(metrics.VERBS) - {"priority"}
    causes = {sample.labels["cause"] for metric in metrics.RELEASED.collect() for sample in metric.samples}
    assert causes == set(typing.get_args(events.Cause))


@pytest.mark.parametrize(
    ("reason", "value"),
    [
        ("first list", "first_list"),
        ("410 Expired: too old resource version: 1 (2)", "gone"),
        ("asked by the auditor: event 7", "auditor"),
        ("went back: resourceVersion 9 before, 3 now; first list", "went_back"),
        ("a proxy's own words: 503", "other"),
        ("", "other"),
    ],
)
def test_the_reasons_of_lists_are_a_closed_set(reason: str, value: str) -> None:
    assert metrics.relist_reason(reason) == value


def test_a_reading_is_absent_until_its_value_is_known() -> None:
    for counter in (False, True):
        name = "tested_total" if counter else "tested"
        reading, shown = readings.Reading(name, "Tested.", counter=counter), registry.CollectorRegistry()
        shown.register(reading)
        assert shown.get_sample_value(name) is None
        reading.set(0)
        assert shown.get_sample_value(name) == 0
        reading.set_function(lambda: None)
        assert shown.get_sample_value(name) is None
        reading.set_function(lambda: 7)
        assert shown.get_sample_value(name) == 7
        reading.forget()
        assert shown.get_sample_value(name) is None
