"""A command in the pod reads its admin key, through the API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubernetes import client

from modelctl.cluster.admin_key import KeyDenied, KeyUnreadable, admin_key
from tests import forwarding
from tests.forwarding import ApiServer

KEY = "5f" * 32


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with forwarding.api_server({}) as server:
        server.keys["triton-a"] = KEY
        yield server


def _read(api: ApiServer, pod: str) -> str:
    return admin_key(client.Configuration(host=api.url), "triton", pod)


def test_the_key_is_what_the_file_of_the_pod_holds(api: ApiServer) -> None:
    assert _read(api, "triton-a") == KEY


def test_a_pod_without_a_key_says_why(api: ApiServer) -> None:
    with pytest.raises(KeyUnreadable) as unreadable:
        _read(api, "triton-b")
    assert str(unreadable.value) == (
        "pod triton-b: /run/triton/admin-key has no key: cat: /run/triton/admin-key: No such file or directory"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_run_no_command_is_told_what_it_takes(api: ApiServer, status: int) -> None:
    api.refusals.append(status)
    with pytest.raises(KeyDenied) as denied:
        _read(api, "triton-a")
    assert str(denied.value) == (
        f"pod triton-a: {api.url} does not let this identity read the admin key (Handshake status {status} X); use one that "
        "has get and create of pods/exec, such as a role in cluster.rolloutRoleArns"
    )


def test_an_answer_of_the_moment_and_a_server_that_is_gone_are_no_denial(api: ApiServer) -> None:
    api.refusals.append(500)
    with pytest.raises(KeyUnreadable, match="Handshake status 500"):
        _read(api, "triton-a")
    with pytest.raises(KeyUnreadable, match="its admin key cannot be read"):
        admin_key(client.Configuration(host="http://127.0.0.1:1"), "triton", "triton-a")
