"""Helm's own record of a release, which the official provider also writes: read if the twin has no record."""

import base64
import gzip
import json
from typing import Any

import pytest

from twin.cluster import helm_releases

CHART = "nvidia-device-plugin"


def secret(release: Any) -> dict[str, Any]:
    """Return the Secret that Helm would write."""
    packed = base64.b64encode(gzip.compress(json.dumps(release).encode(), mtime=0))
    return {"data": {"release": base64.b64encode(packed).decode()}}


def release(chart: str, config: dict[str, Any] | None) -> dict[str, Any]:
    return {"name": "x", "chart": {"metadata": {"name": chart}, "values": {"default": 1}}, "config": config}


def test_the_values_of_the_installed_chart_are_found_among_others() -> None:
    secrets = [secret(release("keda", {"a": 1})), secret(release(CHART, {"gfd": {"enabled": True}}))]
    assert helm_releases.values(secrets, CHART) == {"gfd": {"enabled": True}}


def test_a_release_without_values_of_its_own_is_one() -> None:
    assert helm_releases.values([secret(release(CHART, None))], CHART) == {}


@pytest.mark.parametrize(
    "unread",
    [{}, {"data": {}}, {"data": {"release": "no base64!"}}, {"data": {"release": "aGVsbG8="}}, secret([1]), secret({})],
    ids=str,
)
def test_what_is_no_record_of_helms_is_passed_over(unread: dict[str, Any]) -> None:
    assert helm_releases.values([unread], CHART) is None
    assert helm_releases.values([unread, secret(release(CHART, {"a": 1}))], CHART) == {"a": 1}
