"""Requests for a model of several fleets: whose turn it is. On a twin: tests/system/e2e/test_fleets.py."""

import pytest

from twin.load.requests import turns


@pytest.mark.parametrize(
    ("parts", "whose"),
    [
        ({"triton": 1}, "triton"),
        ({"a": 1, "b": 1}, "a b"),
        ({"a": 3, "b": 1}, "a a b a"),
        ({"a": 2, "b": 4}, "b a b b a b"),
    ],
)
def test_each_fleet_has_its_part_of_the_turns(parts: dict[str, int], whose: str) -> None:
    assert turns(parts) == whose.split()
