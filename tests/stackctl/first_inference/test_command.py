"""`stackctl first-inference`, step by step: it skips finished steps, and reports obstacles.

The whole run, on a real cluster's API: tests/system/e2e/test_first_inference.py.
"""

from __future__ import annotations

import http.server
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.stub import Stubber
from kubernetes.client.exceptions import ApiException

from console import pulumi_program
from spec.settings import Settings
from stackctl.account.cluster import Cluster, ClusterUnusable, Pod, connect
from stackctl.account.read_only import Readers
from stackctl.first_inference import command
from stackctl.first_inference.command import NotServing, NotUp
from stackctl.first_inference.nodes import NodeWait
from stackctl.first_inference.question import Question, WrongAnswer, ask, question
from tests import http_server
from tests.aws_environment import use_none_of_the_developers
from tests.paths import ROOT
from tests.spec.stack_config import REMOVED, settings
from tests.spec.test_blue_green import NEXT, WITH_CANDIDATE
from tests.spec.test_fleets import THREE, released
from tests.spec.test_stack_mistakes_autoscaling import SCALED, scaling
from tests.spec.test_stack_mistakes_worker import BY_HAND

RIGHT = {"outputs": [{"name": "TEXT", "data": ["EKS"]}]}
ASKED = Question({"inputs": []}, {"TEXT": ["EKS"]})
OUTPUTS = {"clusterName": "triton-staging", "region": "us-west-2", "modelBucket": "b", "tritonRoleArn": "arn"}
HISTORY = "stack history --json --page-size 1 --stack staging"
SIGNER = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQawat/2aFIDW+MEb9tX78BS0iFg3
jyUzqFPcT2OA9qKXT/08Tpz89J2LRAH9FnRCacjhuCJV+X3JsQqaPRedug==
-----END PUBLIC KEY-----
"""
WITHOUT_A_RELEASE = {"models.release": REMOVED}
PICTURES = {"models.release.models": {"text_in_picture": 1}, "models.release.id": "3f2a9c1b7d04" + 52 * "0"}


def post(*answers: tuple[int, Any]) -> Callable[[str, dict[str, Any]], tuple[int, bytes]]:
    """Answer with these in turn, and then always with the last one."""
    left = list(answers)

    def answer(_path: str, _body: dict[str, Any]) -> tuple[int, bytes]:
        status, document = left.pop(0) if len(left) > 1 else left[0]
        return status, document if isinstance(document, bytes) else json.dumps(document).encode()

    return answer


def test_the_question_is_the_samples_own_with_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    asked = question()
    [given] = asked.body["inputs"]
    assert (given["name"], given["datatype"], given["shape"]) == ("PICTURE", "UINT8", [40, 112, 3])
    assert (len(given["data"]), asked.expected) == (40 * 112 * 3, {"TEXT": ["EKS"]})


def test_an_answer_with_a_key_twice_is_read() -> None:
    twice = b'{"parameters":{"sequence_id":0,"sequence_id":0},"outputs":[{"name":"TEXT","data":["EKS"]}]}'
    assert ask(ASKED, post((200, twice))).outputs == {"TEXT": ["EKS"]}


def test_a_triton_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stackctl.first_inference.question._POLL_SECONDS", 0)
    assert ask(ASKED, post((503, {}), (429, {}), (200, RIGHT))).outputs == {"TEXT": ["EKS"]}


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (404, b'{"error":"unknown model"}', 'text_in_picture answers 404: {"error":"unknown model"}'),
        (503, b"", "text_in_picture answers 503: nothing"),
        (200, b"<html>", "text_in_picture answers with what is no inference ("),
        (
            200,
            b'{"outputs": [{"name": "TEXT", "data": ["ECS"]}]}',
            "text_in_picture answers TEXT ['ECS'], and examples/packaged/text_in_picture/1/golden.json ",
        ),
        (
            200,
            b'{"outputs": []}',
            "text_in_picture answers TEXT None, and examples/packaged/text_in_picture/1/golden.json says ['EKS']",
        ),
    ],
)
def test_another_answer_is_told_as_it_is(status: int, content: bytes, said: str) -> None:
    with pytest.raises(WrongAnswer) as told:
        ask(ASKED, post((status, content)), busy_seconds=0)
    assert str(told.value).startswith(said)


@pytest.fixture
def pulumi(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """Record Pulumi's calls; an `up` succeeds, and its stack then serves the release of `settings()`."""
    calls: list[list[str]] = []

    def ask(arguments: Sequence[str]) -> SimpleNamespace:
        calls.append(list(arguments))
        if arguments[:2] == ["stack", "history"]:
            return SimpleNamespace(returncode=0, stdout='[{"result": "succeeded"}]', stderr="")
        served = {**OUTPUTS, "releaseId": "3f2a9c1b7d04" + 52 * "0" if ["up"] in [call[:1] for call in calls] else None}
        return SimpleNamespace(returncode=0, stdout=json.dumps(served), stderr="")

    monkeypatch.setattr(pulumi_program, "ask", ask)
    monkeypatch.setattr(pulumi_program, "run", lambda arguments: ask(arguments).returncode)
    yield calls


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record calls of other programs; they pin a release."""
    calls: list[list[str]] = []

    def run(words: Sequence[str], **_: Any) -> SimpleNamespace:
        calls.append(list(words[1:]))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("stackctl.first_inference.command.subprocess.run", run)
    monkeypatch.setattr("stackctl.first_inference.command.settings_of", lambda _stack: settings(PICTURES))
    return calls


def serve(given: Settings, outputs: dict[str, Any], *, yes: bool = True) -> dict[str, Any]:
    return command._serve("staging", given, outputs, yes=yes, say=lambda _line: None)


def test_models_have_to_be_there_where_none_are_released(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    command.require_models(settings(PICTURES))
    with pytest.raises(
        NotUp, match=r"^there is no directory \.models, whose models are to be served: `make models` makes it"
    ):
        command.require_models(settings(WITHOUT_A_RELEASE))


def test_a_stack_with_signers_gets_its_first_release_from_whoever_can_sign() -> None:
    image = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/modelctl@sha256:{32 * '1b'}"
    signed = {"models.access": "local", "models.fetcher": {"image": image}, "models.signers": [SIGNER]}
    with pytest.raises(NotUp) as refused:
        command.require_models(settings({**WITHOUT_A_RELEASE, **signed}))
    assert str(refused.value).startswith(
        "stacks/Pulumi.staging.yaml has models.signers, and only you can sign: "
        "`python3 -m modelctl release .models --stack staging --sign KEY`, then "
    )
    command.require_models(settings({**PICTURES, **signed}))


def test_a_stack_without_a_release_gets_the_models_that_make_writes(
    pulumi: list[list[str]], releases: list[list[str]]
) -> None:
    assert serve(settings(WITHOUT_A_RELEASE), {**OUTPUTS})["releaseId"] == "3f2a9c1b7d04" + 52 * "0"
    assert releases == [
        ["-m", "modelctl", "release", ".models", "--bucket", "b", "--pin", "stacks/Pulumi.staging.yaml"],
    ]
    assert [" ".join(call) for call in pulumi] == [
        "up --stack staging --yes --skip-preview --non-interactive",
        "stack output --json --stack staging",
    ]


def test_a_fleet_that_may_have_no_pod_is_not_waited_for() -> None:
    to_zero = settings({**SCALED, "worker": BY_HAND, "autoscaling": scaling(minReplicas=0)})
    with pytest.raises(NotUp, match=r"^triton may have no pod .* give minReplicas 1$"):
        command._require_pods(to_zero.each_fleet[0])
    command._require_pods(settings().each_fleet[0])


def test_a_release_that_is_pinned_and_not_up_is_brought_up_and_not_made_again(
    pulumi: list[list[str]], releases: list[list[str]]
) -> None:
    serve(settings(PICTURES), {**OUTPUTS}, yes=False)
    assert (releases, pulumi[0]) == ([], ["up", "--stack", "staging"])


def test_a_release_that_is_up_is_left_alone(pulumi: list[list[str]], releases: list[list[str]]) -> None:
    up = {**OUTPUTS, "releaseId": "3f2a9c1b7d04" + 52 * "0"}
    assert (serve(settings(PICTURES), up), releases) == (up, [])
    assert [" ".join(call) for call in pulumi] == [HISTORY]


@pytest.mark.parametrize(("given", "made"), [(PICTURES, 0), (WITHOUT_A_RELEASE, 1)], ids=["pinned", "no longer pinned"])
@pytest.mark.parametrize("result", ["failed", "in-progress"])
def test_an_up_that_failed_is_gone_on_with_though_its_outputs_name_the_release(
    given: dict[str, Any],
    made: int,
    result: str,
    pulumi: list[list[str]],
    releases: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_pulumi = pulumi_program.ask
    failed = SimpleNamespace(returncode=0, stdout=json.dumps([{"result": result}]), stderr="")
    monkeypatch.setattr(pulumi_program, "ask", lambda words: failed if "history" in words else as_pulumi(words))
    serve(settings(given), {**OUTPUTS, "releaseId": "3f2a9c1b7d04" + 52 * "0"})
    assert len(releases) == made
    assert [" ".join(call) for call in pulumi] == [
        "up --stack staging --yes --skip-preview --non-interactive",
        "stack output --json --stack staging",
    ]


@pytest.mark.parametrize(
    ("given", "served"),
    [
        (lambda: settings(), "resnet50"),
        (lambda: released(), "embed, pipeline, rank or tokenize"),
        (lambda: settings(THREE), "embed, pipeline, rank or tokenize"),
        (lambda: settings(WITH_CANDIDATE), "classify, detect or embed"),
    ],
    ids=["one fleet", "fleets", "fleets without a release", "blue-green"],
)
@pytest.mark.parametrize("up", [False, True])
def test_a_stack_of_other_models_is_told_with_them_whether_or_not_it_is_up(
    given: Callable[[], Settings], served: str, up: bool, pulumi: list[list[str]], releases: list[list[str]]
) -> None:
    read = given()
    release = read.models.release
    with pytest.raises(NotUp) as told:
        serve(read, {**OUTPUTS, "releaseId": release.id if up and release is not None else "0123456789ab" + 52 * "0"})
    assert str(told.value) == (
        "stacks/Pulumi.staging.yaml serves no text_in_picture, the model that is asked here: ask one of its own instead, "
        f"{served}"
    )
    assert ([" ".join(call) for call in pulumi], releases) == ([HISTORY], [])


def test_the_fleet_that_has_the_model_is_asked() -> None:
    assert command._asked_fleet(settings(PICTURES)).release == "triton"
    assert command._asked_fleet(settings(WITHOUT_A_RELEASE)).release == "triton"
    pictures = {**NEXT, "models": {"text_in_picture": 1}}
    candidate = settings({**WITH_CANDIDATE, "models.candidate": {"release": pictures, "percent": 5}})
    assert command._asked_fleet(candidate).release == "triton-green"


def test_an_up_that_nobody_agreed_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    unchanged = SimpleNamespace(returncode=0, stdout=json.dumps(OUTPUTS), stderr="")
    monkeypatch.setattr(pulumi_program, "ask", lambda _arguments: unchanged)
    monkeypatch.setattr(pulumi_program, "run", lambda _arguments: 0)
    with pytest.raises(NotUp, match=r"^`pulumi up` was not agreed to"):
        serve(settings(PICTURES), {**OUTPUTS})


class Fleet:
    """A cluster whose Triton passes through these states and stays in the last; its answers are correct."""

    def __init__(self, *states: list[Pod]) -> None:
        self._states = list(states)
        self.asked: list[str] = []

    def rolled_out(self) -> bool:
        return all(pod.ready for pod in self._states[0])

    def pods(self) -> list[Pod]:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def last_lines(self, pod: str) -> list[str]:
        return [f"the log of {pod}"]

    def post(self, pod: str, _path: str, _body: Any) -> tuple[int, bytes]:
        self.asked.append(pod)
        return 200, json.dumps(RIGHT).encode()


def nodes(*causes: str) -> NodeWait:
    """Return a wait for nodes that ends with these causes."""
    return cast(NodeWait, SimpleNamespace(causes=lambda _pods: list(causes)))


def test_what_holds_pods_up_is_told_once_until_they_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_POLL_SECONDS", 0)
    pending = [Pod("a", "Unschedulable: 0/2 nodes", hopeless=False)]
    fleet, said = (
        Fleet(pending, pending, [Pod("a", "Running", hopeless=False)], [Pod("a", "Ready", hopeless=False)]),
        list[str](),
    )
    assert command.wait_until_ready(cast(Cluster, fleet), nodes(), said.append) == "a"
    assert said == ["  a: Unschedulable: 0/2 nodes", "  a: Running", "  a: Ready"]


@pytest.mark.parametrize(
    ("pod", "seconds", "why"),
    [
        (Pod("a", "CrashLoopBackOff: back-off 2s", hopeless=True), 60, "Triton does not start:"),
        (Pod("a", "Running", hopeless=False), -1, "Triton is not ready after -1 s:"),
    ],
)
def test_a_triton_that_does_not_start_is_told_with_its_log(pod: Pod, seconds: float, why: str) -> None:
    with pytest.raises(NotServing) as told:
        command.wait_until_ready(cast(Cluster, Fleet([pod])), nodes(), lambda _line: None, seconds)
    assert str(told.value).splitlines()[:3] == [why, f"  a: {pod.status}", "    the log of a"]


def test_a_pod_that_no_node_comes_for_is_not_waited_for() -> None:
    pod = Pod("a", "Unschedulable: 0/2 nodes", hopeless=False, unschedulable=True)
    with pytest.raises(NotServing) as told:
        command.wait_until_ready(
            cast(Cluster, Fleet([pod])), nodes("node group g5 is CREATE_FAILED"), lambda _line: None, -1
        )
    lines = str(told.value).splitlines()
    assert lines[:3] == ["Triton does not start:", "  node group g5 is CREATE_FAILED", "  a: Unschedulable: 0/2 nodes"]


def test_a_gateway_that_is_not_reached_from_here_is_gone_around() -> None:
    fleet, said = Fleet([]), list[str]()
    gone = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    url = f"http://127.0.0.1:{gone.server_port}"
    gone.server_close()
    answer, way = command._ask(cast(Cluster, fleet), "a", url, lambda send: ask(ASKED, send), said.append)
    assert (answer.outputs, way, fleet.asked) == ({"TEXT": ["EKS"]}, "pod a, by the API server", ["a"])
    assert said[0].startswith(f"the gateway at {url} is not reached from here (")


class _Gateway(http_server.Handler):
    def do_POST(self) -> None:
        assert (self.path, self.headers["content-type"]) == ("/v2/models/text_in_picture/infer", "application/json")
        self.answer(200, json.dumps(RIGHT).encode())


def test_a_gateway_that_is_reached_is_asked() -> None:
    fleet = Fleet([])
    with http_server.listening(_Gateway) as server:
        url = server.url
        answer, way = command._ask(cast(Cluster, fleet), "a", url, lambda send: ask(ASKED, send), print)
    assert (answer.outputs, way, fleet.asked) == ({"TEXT": ["EKS"]}, f"by the gateway at {url}", [])


GATEWAY = {"gateway": {"replicas": 2, "cpu": "1", "memoryMiB": 512}}


@pytest.mark.parametrize(
    ("tls", "address", "url"),
    [
        ({"tlsSecret": "cert"}, "x.elb.amazonaws.com", "https://x.elb.amazonaws.com:443"),
        ({"tlsSecret": "cert"}, None, None),
    ],
)
def test_the_gateways_address_is_the_clusters_own(tls: dict[str, str], address: str | None, url: str | None) -> None:
    gateway = settings({"gateway": {**GATEWAY["gateway"], **tls}}).gateway
    cluster = SimpleNamespace(gateway_address=lambda: address)
    assert command._gateway_url(cast(Cluster, cluster), gateway) == url


def _cluster(**answers: Any) -> Cluster:
    """Return a cluster whose API answers this by operation name; an exception is raised."""
    cluster = Cluster(cast(Any, SimpleNamespace(configuration=SimpleNamespace(host="https://api"))))

    def call(answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    api = SimpleNamespace(**{name: lambda *_, _answer=answer, **__: call(_answer) for name, answer in answers.items()})
    cluster._core = cluster._apps = cluster._custom = cast(Any, api)
    return cluster


def _account(role: str) -> SimpleNamespace:
    return SimpleNamespace(metadata=SimpleNamespace(annotations={"eks.amazonaws.com/role-arn": role}))


def test_another_stacks_cluster_is_refused() -> None:
    cluster = _cluster(read_namespaced_service_account=_account("arn:other"))
    with pytest.raises(ClusterUnusable, match=r"^the cluster at https://api, which KUBECONFIG names, is not this stack's: "):
        cluster.require_role("arn:mine")
    _cluster(read_namespaced_service_account=_account("arn:mine")).require_role("arn:mine")


@pytest.mark.parametrize("text", ["a: [", "[1, 2]", "{" * 5000, "current-context: none"])
def test_what_is_no_kubeconfig_is_a_sentence(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with (
        pytest.raises(
            ClusterUnusable,
            match=rf"^{tmp_path}/config is no kubeconfig \(.+\); unset KUBECONFIG, or set it to the stack's$",
        ),
        connect("triton-dev", "us-west-2", "arn"),
    ):
        pass


def _deployment(**status: int) -> SimpleNamespace:
    names = ("observed_generation", "updated_replicas", "replicas", "available_replicas")
    return SimpleNamespace(
        metadata=SimpleNamespace(generation=2),
        spec=SimpleNamespace(replicas=1),
        status=SimpleNamespace(**dict.fromkeys(names), **{}) if not status else SimpleNamespace(**status),
    )


@pytest.mark.parametrize(
    ("status", "done"),
    [
        ({"observed_generation": 2, "updated_replicas": 1, "replicas": 1, "available_replicas": 1}, True),
        ({"observed_generation": 1, "updated_replicas": 1, "replicas": 1, "available_replicas": 1}, False),
        ({"observed_generation": 2, "updated_replicas": 1, "replicas": 2, "available_replicas": 2}, False),
        ({"observed_generation": 2, "updated_replicas": 1, "replicas": 1, "available_replicas": 0}, False),
        ({}, False),
    ],
)
def test_a_rollout_is_over_when_every_pod_is_new_and_ready(status: dict[str, int], done: bool) -> None:
    assert _cluster(read_namespaced_deployment=_deployment(**status)).rolled_out() is done


@pytest.mark.parametrize(
    ("gateway", "address"),
    [({"status": {"addresses": [{"type": "Hostname", "value": "x"}]}}, "x"), ({"status": {}}, None), ({}, None)],
)
def test_a_gateway_may_have_no_address_yet(gateway: dict[str, Any], address: str | None) -> None:
    assert _cluster(get_namespaced_custom_object={"metadata": {}, **gateway}).gateway_address() == address


def test_a_cluster_that_refuses_is_a_sentence() -> None:
    refused = ApiException(status=403, reason="Forbidden")
    refused.body = json.dumps({"message": 'deployments.apps "triton" is forbidden'})
    with pytest.raises(
        ClusterUnusable, match=r'^the cluster at https://api answers 403: deployments.apps "triton" is forbidden$'
    ):
        _cluster(read_namespaced_deployment=refused).rolled_out()


def test_outside_of_the_checkout_it_says_where_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        command.Failure,
        match=r"^examples/packaged/text_in_picture/1/golden.json: .*; run this from the root of the checkout$",
    ):
        question()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "404",
            "stacks/Pulumi.staging.yaml pins release 3f2a9c1b7d04, and "
            f"s3://b/releases/3f2a9c1b7d04{52 * '0'}/manifest.json is not there: `pulumi config rm --path "
            "triton-eks:models.release --stack staging`, `pulumi up --stack staging`, then "
            "run the same command again, it goes on from here",
        ),
        ("403", None),  # without permission to list the bucket, the code is 403
    ],
)
def test_a_pin_of_a_release_that_went_with_an_earlier_bucket_is_told(
    code: str, said: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_none_of_the_developers(monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-nobody")
    readers = Readers("us-west-2", {"s3": {"HeadObject": "s3:GetObject"}})
    with Stubber(readers("s3")) as s3:
        s3.add_client_error("head_object", code)
        try:
            command._require_release(settings(), readers, "b")
        except NotUp as told:
            assert str(told) == said
        else:
            assert said is None
