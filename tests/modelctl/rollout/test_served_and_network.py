"""The two small texts that others write or read: served versions, and the translation of pod addresses."""

import pytest

from modelctl.rollout.fleet import ServedVersion
from modelctl.rollout.pod_network import PodNetwork


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


def test_pods_of_the_network_are_reached_in_the_other_one() -> None:
    network = PodNetwork.parse("10.244.0.0/16=127.244.0.0/16")
    assert network.reach("10.244.130.7") == "127.244.130.7"
    assert network.reach("10.20.0.1") == "10.20.0.1"
    assert network.reach("fd00::1") == "fd00::1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.0/16", "there is no ="),
        ("10.0.0.0/16=127.0.0.0/8", "the networks differ in size"),
        ("10.0.0.1/16=127.0.0.0/16", "10.0.0.1/16 has host bits set"),
    ],
)
def test_what_is_no_translation_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError) as failure:
        PodNetwork.parse(text)
    assert str(failure.value) == f"{text!r} translates no network: {why}; write 10.40.0.0/16=172.16.0.0/16"
