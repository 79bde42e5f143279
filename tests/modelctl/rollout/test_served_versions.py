"""Served versions, as clients read them."""

import pytest

from modelctl.rollout.fleet import ServedVersion


def test_a_served_version_is_the_json_that_clients_read() -> None:
    assert ServedVersion(stable=1).to_json() == '{"stable":1}'
    assert ServedVersion(stable=1, canary=2, percent=5).to_json() == '{"stable":1,"canary":2,"percent":5}'
    assert ServedVersion.parse("m", '{"stable": 1, "canary": 2, "percent": 5}') == ServedVersion(
        stable=1, canary=2, percent=5
    )


@pytest.mark.parametrize("text", ["", "1", '{"stable": 0}', '{"stable": 1, "canary": 2}', '{"stable": 1, "x": 1}'])
def test_what_is_no_served_version_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"^triton-served-versions: m: .* is no served version"):
        ServedVersion.parse("m", text)
