"""Whether the third-party charts' repositories answer this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from stackctl.preflight.checks import charts
from stackctl.preflight.checks.check import Status, Subject, ok, warn
from tests import http_server

PAGES = {
    "/right/index.yaml": (200, b"apiVersion: v1\nentries: {}\n"),
    "/login/index.yaml": (200, b"\n<!DOCTYPE html><title>Sign in</title>"),
    "/refused/index.yaml": (401, b""),
    "/v2/": (401, b""),
}


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """Yield a chart server's name with its port."""

    class Answers(http_server.Handler):
        def do_GET(self) -> None:
            status, body = PAGES.get(self.path, (404, b""))
            self.answer(status, body)

    with http_server.listening(Answers) as server:
        yield server.url.removeprefix("http://")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/right/index.yaml", None),
        ("/v2/", None),
        ("/login/index.yaml", "a page of HTML"),
        ("/refused/index.yaml", "401 Unauthorized"),
        ("/gone/index.yaml", "404 Not Found"),
    ],
)
def test_an_index_and_a_registry_that_wants_a_login_are_right_answers(host: str, path: str, why: str | None) -> None:
    assert charts.silence(f"http://{host}{path}") == why


def test_nothing_that_listens_and_a_proxy_that_is_none_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert charts.silence("http://127.0.0.1:1/v2/") == "[Errno 111] Connection refused"
    monkeypatch.setenv("HTTPS_PROXY", "ftp://proxy.example.com")
    told = charts.silence("https://charts.example.com/index.yaml")
    assert told is not None and told.startswith("the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names cannot be used")


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("https://kedacore.github.io/charts", "https://kedacore.github.io/charts/index.yaml"),
        ("oci://public.ecr.aws/karpenter", "https://public.ecr.aws/v2/"),
        ("oci://docker.io/envoyproxy", "https://registry-1.docker.io/v2/"),
        ("oci://registry.example.com:5000/charts", "https://registry.example.com:5000/v2/"),
    ],
)
def test_helm_asks_a_repository_for_its_index_and_a_registry_by_its_protocol(source: str, asked: str) -> None:
    assert charts.address(source) == asked


def test_each_silent_repository_is_one_warning_with_its_charts(
    subject: Callable[..., Subject], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = {"https://public.ecr.aws/v2/": "timed out"}
    monkeypatch.setattr(charts, "silence", silent.get)
    asked = subject({"nodes.autoscaler": "karpenter", "gpu.pools[0].min": 0, "gpu.pools[0].desired": 0})
    assert list(charts.check(asked)) == [
        ok("reached: nvidia.github.io"),
        warn(
            "https://public.ecr.aws/v2/ cannot be loaded (timed out); `pulumi preview` and `pulumi up` from here end "
            "at karpenter and karpenter-crd",
            charts.REMEDY,
        ),
    ]


def test_a_registry_of_yours_is_asked_alone(subject: Callable[..., Subject], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(charts, "silence", asked.append)
    (found,) = charts.check(subject({"charts": {"registry": "oci://registry.example.com/charts"}}))
    assert (asked, found.status) == (["https://registry.example.com/v2/"], Status.OK)
