"""Metrics of calls."""

from prometheus_client import REGISTRY

from app import telemetry


def sample(name: str, **labels: str) -> float:
    """The value of a sample; 0 if it was never set."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_calls_are_counted_by_verb_and_outcome_and_refusals_by_plugin() -> None:
    observed = sample("topolog_verb_seconds_count", verb="filter", outcome="tested")
    refused = sample("topolog_refused_nodes_total", plugin="Tested")
    telemetry.verb("filter", "ns/p", outcome="tested", seconds=0.5, refusals={"Tested": 3})
    telemetry.verb("filter", "ns/p", outcome="tested", seconds=0.5)
    assert sample("topolog_verb_seconds_count", verb="filter", outcome="tested") == observed + 2
    assert sample("topolog_refused_nodes_total", plugin="Tested") == refused + 3
