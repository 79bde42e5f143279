"""The Kubernetes API client, against an HTTP server with scripted answers."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import http_server
from twin.cluster.kube_api import KubeApi, KubeClient, Object, object_path
from twin.cluster.kube_errors import ApiError, Unreachable

POD = "/api/v1/namespaces/triton/pods/a"
GONE = {"kind": "Status", "reason": "NotFound", "message": 'pods "a" not found'}
CONFLICT = {"kind": "Status", "reason": "Conflict", "message": "the UID in the precondition does not match"}


class Server:
    """Answers each request with the next of `answers` (status, content) and records the requests."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, str, Any]] = []
        server = self

        class Answers(http_server.Handler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.body()
                kind = self.headers["Content-Type"] if body else ""
                server.asked.append((self.command, self.path, kind, json.loads(body) if body else None))
                status, content = server.answers.pop(0)
                payload = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.answer(status, payload)

            do_GET = do_POST = do_PATCH = do_DELETE = _answer

        self.handler, self.url = Answers, ""


@pytest.fixture
def server() -> Iterator[Server]:
    played = Server()
    with http_server.listening(played.handler) as running:
        played.url = running.url
        yield played


Ask = Callable[[Any], Any]
"""The same request, with either client."""


def blocking(url: str, ask: Ask) -> Any:
    return ask(KubeClient(url))


def awaited(url: str, ask: Ask) -> Any:
    async def run() -> Any:
        api = KubeApi(url, ssl.create_default_context())
        try:
            return await ask(api)
        finally:
            await api.close()

    return asyncio.run(run())


BOTH = pytest.mark.parametrize("client", [blocking, awaited])


@BOTH
def test_an_object_is_read_and_a_list_is_narrowed(server: Server, client: Callable[[str, Ask], Any]) -> None:
    server.answers = [(200, {"kind": "PodList", "items": []})]
    found = client(server.url, lambda api: api.get("/api/v1/pods", fieldSelector="spec.nodeName!="))
    assert found == {"kind": "PodList", "items": []}
    assert server.asked == [("GET", "/api/v1/pods?fieldSelector=spec.nodeName%21%3D", "", None)]


@BOTH
def test_what_is_not_there_is_none_to_who_looks_and_an_error_to_who_needs_it(
    server: Server, client: Callable[[str, Ask], Any]
) -> None:
    server.answers = [(404, GONE), (404, GONE)]
    assert client(server.url, lambda api: api.find(POD)) is None
    with pytest.raises(ApiError) as error:
        client(server.url, lambda api: api.get(POD))
    assert (error.value.status, error.value.reason, str(error.value)) == (404, "NotFound", 'pods "a" not found')


@BOTH
def test_applying_is_server_side_strict_and_by_a_manager(server: Server, client: Callable[[str, Ask], Any]) -> None:
    body = {"metadata": {"name": "a"}}
    server.answers = [(200, body), (200, body)]
    client(server.url, lambda api: api.apply(POD, body))
    client(server.url, lambda api: api.apply(POD, body, manager="pulumi", force=False, dry_run=True))
    assert [(method, path) for method, path, *_ in server.asked] == [
        ("PATCH", f"{POD}?fieldManager=twin&fieldValidation=Strict&force=true"),
        ("PATCH", f"{POD}?fieldManager=pulumi&fieldValidation=Strict&dryRun=All&force=false"),
    ]
    assert {(kind, json.dumps(sent)) for *_, kind, sent in server.asked} == {
        ("application/apply-patch+yaml", json.dumps(body))
    }


@BOTH
def test_creating_is_strict_and_patching_names_its_kind(server: Server, client: Callable[[str, Ask], Any]) -> None:
    server.answers = [(201, {}), (200, {}), (200, {})]
    client(server.url, lambda api: api.create("/api/v1/nodes", {"kind": "Node"}))
    client(server.url, lambda api: api.patch(POD, {}))
    client(server.url, lambda api: api.patch(POD, {}, kind="merge"))
    assert [(method, path, kind) for method, path, kind, _ in server.asked] == [
        ("POST", "/api/v1/nodes?fieldManager=twin&fieldValidation=Strict", "application/json"),
        ("PATCH", POD, "application/strategic-merge-patch+json"),
        ("PATCH", POD, "application/merge-patch+json"),
    ]


@BOTH
@pytest.mark.parametrize("answer", [(404, GONE), (409, CONFLICT)])
def test_deleting_what_is_gone_or_another_one_by_now_is_no_error(
    server: Server, client: Callable[[str, Ask], Any], answer: tuple[int, Object]
) -> None:
    server.answers = [answer]
    assert client(server.url, lambda api: api.delete(POD, {"preconditions": {"uid": "u"}})) is None
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"}}
    assert server.asked == [("DELETE", POD, "application/json", options)]


@BOTH
def test_an_answer_that_is_no_status_is_shown_as_it_is(server: Server, client: Callable[[str, Ask], Any]) -> None:
    server.answers = [(503, "apiserver is shutting down\n")]
    with pytest.raises(ApiError) as error:
        client(server.url, lambda api: api.get(POD))
    assert (error.value.status, error.value.reason, str(error.value)) == (503, "", "apiserver is shutting down")


@BOTH
def test_a_server_that_is_down_is_named_with_what_starts_it(client: Callable[[str, Ask], Any]) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as taken:
        url = f"http://127.0.0.1:{taken.server_port}"
    with pytest.raises(Unreachable, match=f"^the Kubernetes API server at {url} does not answer .*make up") as error:
        client(url, lambda api: api.get(POD))
    assert error.value.__cause__ is not None


def test_a_proxy_of_the_environment_is_not_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.answers = [(200, {"gitVersion": "v1.36.2"})]
    assert KubeClient(server.url).version() == "v1.36.2"


def test_a_token_is_presented(server: Server) -> None:
    client = KubeClient(server.url, token="secret")
    assert client._http.headers["Authorization"] == "Bearer secret"


def discovery(kind: str) -> Object:
    resource = {"resource": f"{kind.lower()}s", "responseKind": {"kind": kind}, "scope": "Namespaced"}
    return {"items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [resource]}]}]}


def test_a_kind_that_was_not_there_is_asked_for_anew_in_its_own_version_alone_and_a_known_one_is_not(server: Server) -> None:
    listed = [
        {"name": "nodepools", "kind": "NodePool", "namespaced": False},
        {"name": "nodepools/status", "kind": "NodePool", "namespaced": True},
    ]
    server.answers = [(200, {}), (200, discovery("Deployment")), (404, {}), (200, {"resources": listed})]
    client = KubeClient(server.url)
    for _ in range(2):
        served = client.kind("apps/v1", "Deployment")
        assert served is not None
        assert served.path("triton", "a") == "/apis/apps/v1/namespaces/triton/deployments/a"
    assert len(server.asked) == 2
    assert client.kind("karpenter.sh/v1", "NodePool") is None
    for _ in range(2):
        served = client.kind("karpenter.sh/v1", "NodePool")
        assert served is not None
        assert served.path("triton", "a") == "/apis/karpenter.sh/v1/nodepools/a"
    assert [path for _, path, *_ in server.asked[2:]] == ["/apis/karpenter.sh/v1"] * 2


def test_charts_are_told_what_is_served_now(server: Server) -> None:
    server.answers = [(200, {}), (200, discovery("Deployment")), (200, {}), (200, discovery("DaemonSet"))]
    client = KubeClient(server.url)
    assert client.api_versions() == ["apps/v1", "apps/v1/Deployment"]
    assert client.api_versions() == ["apps/v1", "apps/v1/DaemonSet"]


def test_a_watch_begins_with_a_list_goes_on_with_changes_and_lists_again_when_it_is_too_old(server: Server) -> None:
    listed = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "a"}}]}
    changes = [
        {"type": "BOOKMARK", "object": {}},
        {"type": "DELETED", "object": {"metadata": {"name": "a"}}},
        {"type": "ERROR", "object": {"code": 410}},
    ]
    stream = "".join(f"{json.dumps(change)}\n" for change in changes)
    server.answers = [(503, "not yet"), (200, listed), (200, stream), (200, {**listed, "items": []})]

    def watched(api: KubeApi) -> Any:
        async def take() -> list[tuple[str, Object]]:
            seen = []
            async with contextlib.aclosing(api.watch("/api/v1/pods")) as events:
                async for event in events:
                    seen.append(event)
                    if len(seen) == 3:
                        break
            return seen

        return take()

    seen = awaited(server.url, watched)
    assert [(kind, changed.get("items", changed["metadata"])) for kind, changed in seen] == [
        ("SYNC", listed["items"]),
        ("DELETED", {"name": "a"}),
        ("SYNC", []),
    ]
    assert server.asked[2][1] == "/api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7"


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (("v1", "pods"), "/api/v1/pods"),
        (("v1", "pods", "triton"), "/api/v1/namespaces/triton/pods"),
        (("apps/v1", "deployments", "triton", "a"), "/apis/apps/v1/namespaces/triton/deployments/a"),
        (
            ("rbac.authorization.k8s.io/v1", "clusterroles", None, "a:b/c"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab%2Fc",
        ),
    ],
)
def test_paths_of_the_api(parts: tuple[str, ...], path: str) -> None:
    assert object_path(*parts) == path
