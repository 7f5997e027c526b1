"""YAML: numbers that take the square of their length to decode are refused."""

import pytest

from app.settings import yaml_documents


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: 1" + ":1" * 99_999, "in line 1: found an int of more than 100", id="base 60"),
        pytest.param("a:\n  1" + ":1" * 50 + ".5: b", "in line 2: found a float of more", id="base 60 key"),
        pytest.param("a: !!float " + "1" * 101, "found a float of more than 100", id="a tag before digits"),
    ],
)
def test_a_number_of_more_than_a_hundred_characters_is_refused(text: str, message: str) -> None:
    for read in (yaml_documents.load, yaml_documents.load_all):
        with pytest.raises(yaml_documents.NotYaml, match=message):
            read(text)


@pytest.mark.parametrize("text", ["'1" + ":1" * 99 + "'", "2001-01-01 01:01:01." + "1" * 200, "9" * 100])
def test_long_values_that_cost_no_time_are_read(text: str) -> None:
    assert yaml_documents.load(f"a: {text}")
