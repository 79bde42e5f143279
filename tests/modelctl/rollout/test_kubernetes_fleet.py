"""`KubernetesFleet` and an API server's answers. On a real one: tests/system/serving/test_rollout_kubernetes.py."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from modelctl.rollout.fleet import FleetError, Pod, ServedVersion
from modelctl.rollout.kubernetes_fleet import KubernetesFleet
from tests import http_server

RELEASE = "0123456789ab" + 52 * "0"
PODS = {
    "rolling": {
        "uid": "uid-rolling",
        "labels": {"triton-eks/release": "0123456789ab"},
        "annotations": {"triton-eks/release": RELEASE},
    },
    "in-place": {"uid": "uid-in-place", "labels": {"app.kubernetes.io/name": "triton"}},
    "bare": {"uid": "uid-bare"},
}


SLICES = "/apis/discovery.k8s.io/v1/namespaces/triton/endpointslices?"
HEADLESS = "app.kubernetes.io/name=triton,app.kubernetes.io/component=inference-headless"


def a_slice(service: str, pod: str) -> dict[str, Any]:
    """Return an EndpointSlice of a headless Service, with one pod."""
    target = {"kind": "Pod", "name": pod, "uid": f"uid-{pod}"}
    return {
        "metadata": {"name": f"{service}-x", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": target}],
    }


FLEETS = {"triton-b-headless": a_slice("triton-b-headless", "b"), "triton-a-headless": a_slice("triton-a-headless", "a")}


class _Api(http_server.Handler):
    """Answers for each of PODS and the slices of FLEETS, and 404 for others."""

    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/v1/namespaces/triton/pods/")
        status: int = 404
        body: dict[str, Any] = {"kind": "Status", "message": f'pods "{name}" not found'}
        if self.path.startswith(SLICES):
            (selector,) = parse_qs(self.path.removeprefix(SLICES))["labelSelector"]
            service = selector.removeprefix("kubernetes.io/service-name=")
            status, body = 200, {"items": [one for key, one in FLEETS.items() if selector == HEADLESS or key == service]}
        if name in PODS:
            status, body = 200, {"metadata": {"name": name, **PODS[name]}}
        self.answer(status, json.dumps(body).encode(), content_type="application/json")


@contextmanager
def _a_fleet(api: type[http_server.Handler], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesFleet]:
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
    user = {"name": "c", "user": {}}
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    with http_server.listening(api) as server:
        cluster = {"name": "c", "cluster": {"server": server.url}}
        found = {"current-context": "c", "clusters": [cluster], "contexts": [context], "users": [user]}
        kubeconfig.write_text(json.dumps(found))
        yield KubernetesFleet("triton")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesFleet]:
    with _a_fleet(_Api, tmp_path, monkeypatch) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "uid", "release"),
    [
        ("rolling", "uid-rolling", RELEASE),
        ("rolling", "uid-of-the-one-before", None),
        ("in-place", "uid-in-place", None),
        ("bare", "uid-bare", None),
        ("gone", "uid-gone", None),
    ],
)
def test_the_release_of_a_pod_is_its_annotation(fleet: KubernetesFleet, name: str, uid: str, release: str | None) -> None:
    assert fleet.release(Pod(name, uid, http="", metrics="", admin_key=lambda: "")) == release


def test_fleets_are_found_by_their_services_and_have_their_own_pods(fleet: KubernetesFleet) -> None:
    assert fleet.pods() == [], "there is no fleet without a name"
    found = fleet.all_fleets()
    assert list(found) == ["triton-a", "triton-b"]
    assert [[(pod.name, pod.uid, pod.http) for pod in one.pods()] for one in found.values()] == [
        [("a", "uid-a", "http://a:8000")],
        [("b", "uid-b", "http://b:8000")],
    ]


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>log in</html>", b"[]", b"null", b'"x"', b"{}", b'{"items": [', b'{"items": 5}', b"[" * 9999],
    ids=lambda answer: answer.decode()[:12] or "nothing",
)
def test_what_is_no_answer_of_kubernetes_is_told(
    fleet: KubernetesFleet, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    def say(self: _Api) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    monkeypatch.setattr(_Api, "do_GET", say)
    said = r"the cluster at http://127\.0\.0\.1:\d+ answers with something else than Kubernetes does; a proxy or a network"
    with pytest.raises(FleetError, match=said):
        fleet.all_fleets()
    with pytest.raises(FleetError, match=said):
        fleet.release(Pod("rolling", "uid-rolling", http="", metrics="", admin_key=lambda: ""))


def test_nobody_waits_as_long_as_an_answer_says(fleet: KubernetesFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def say(self: _Api) -> None:
        self.send_response(429)
        self.send_header("retry-after", "99999")
        self.send_header("content-length", "0")
        self.end_headers()

    monkeypatch.setattr(_Api, "do_GET", say)
    with pytest.raises(FleetError, match="answers 429"):
        fleet.all_fleets()


@pytest.mark.usefixtures("fleet")
def test_where_pods_have_releases_on_their_own_disks_they_are_asked_for_them() -> None:
    (pod,) = KubernetesFleet("triton", follows=True).all_fleets()["triton-a"].pods()
    assert pod.follower == "http://a:8003"
    (pod,) = KubernetesFleet("triton").all_fleets()["triton-a"].pods()
    assert pod.follower is None


@pytest.mark.usefixtures("fleet")
def test_from_a_pod_beside_them_pods_are_reached_at_their_own_addresses() -> None:
    (pod,) = KubernetesFleet("triton", direct=True).all_fleets()["triton-a"].pods()
    assert (pod.http, pod.metrics, pod.forwards) == ("http://10.0.0.1:8000", "http://10.0.0.1:8002", None)


class _Changing(http_server.Handler):
    """A pod and a ConfigMap changed by another client: deletion and update are refused, as by an API server."""

    uid = "uid-new"
    deleted = False
    stored: dict[str, Any] = {}  # noqa: RUF012 - of the class, so that a test sees it
    meanwhile: list[dict[str, str]] = []  # noqa: RUF012

    def do_GET(self) -> None:
        if self.path.startswith("/apis/discovery"):
            return self._say(200, {"items": []})
        found = {**self.stored, "metadata": {"name": "served", "resourceVersion": str(self.stored["version"])}}
        if self.meanwhile:  # after it was read
            type(self).stored = {"data": self.meanwhile.pop(), "version": self.stored["version"] + 1}
        return self._say(200, found)

    def do_DELETE(self) -> None:
        asked = json.loads(self.body() or b"{}").get("preconditions") or {}
        refused = asked.get("uid", self.uid) != self.uid
        type(self).deleted = not refused
        self._say(409 if refused else 200, {"kind": "Status", "message": "the uid is another one"})

    def do_PUT(self) -> None:
        sent = json.loads(self.body())
        if sent["metadata"].get("resourceVersion", str(self.stored["version"])) != str(self.stored["version"]):
            return self._say(409, {"kind": "Status", "message": "the object has been modified"})
        type(self).stored = {"data": sent["data"], "version": self.stored["version"] + 1}
        return self._say(200, sent)

    def _say(self, status: int, body: dict[str, Any]) -> None:
        self.answer(status, json.dumps(body).encode(), content_type="application/json")


@pytest.fixture
def changing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesFleet]:
    with _a_fleet(_Changing, tmp_path, monkeypatch) as found:
        yield found


@pytest.mark.parametrize(("uid", "deleted"), [("uid-old", False), ("uid-new", True)])
def test_a_pod_that_has_taken_the_name_of_another_is_not_deleted(
    changing: KubernetesFleet, monkeypatch: pytest.MonkeyPatch, uid: str, deleted: bool
) -> None:
    monkeypatch.setattr(_Changing, "deleted", False)
    changing.restart(Pod("triton-0", uid, "http://127.0.0.1:1", "http://127.0.0.1:1", uid))
    assert _Changing.deleted is deleted


def test_versions_that_somebody_else_has_written_meanwhile_stay(
    changing: KubernetesFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = ServedVersion(stable=1), ServedVersion(stable=2)
    monkeypatch.setattr(_Changing, "stored", {"data": {}, "version": 1})
    monkeypatch.setattr(_Changing, "meanwhile", [{"other": two.to_json()}])
    changing.serve({"own": one})
    assert _Changing.stored["data"] == {"other": two.to_json(), "own": one.to_json()}
