"""The example programs as a person runs them: their output and their errors."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from examples.server import MODELS as SAMPLES
from tests import http_server
from tests.system.serving.pods import Pod, running_kubelet
from twin.host.home import REPOSITORY

NOBODY = "127.255.255.254"
PROGRAMS = [
    "grpc_client", "http_client", "sequence_client", "stream_client", "shared_memory", "measure_shared_memory", "server"
]  # fmt: skip


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, triton_cache: Path) -> Iterator[Pod]:
    repository = tmp_path_factory.mktemp("repository")
    for model in ("normalize", "classify", "pipeline"):
        shutil.copytree(REPOSITORY / "models" / model, repository / model, ignore=shutil.ignore_patterns("2"))
    for model in ("running_sum", "generate", "to_gray"):
        shutil.copytree(SAMPLES / model, repository / model)
    served = {path.name: 1 for path in repository.iterdir()}
    with running_kubelet(tmp_path_factory.mktemp("node"), triton_cache) as kubelet:
        yield kubelet.pod(served, repository).start().until_ready()


def run(program: str, *arguments: str, api_key: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "TRITON_ADMIN_KEY")}
    environment["TRITON_API_KEY"] = api_key
    return subprocess.run(
        [sys.executable, "-m", f"examples.{program}", *arguments],
        cwd=REPOSITORY,
        env={**environment, "NO_COLOR": "1", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def printed(program: str, *arguments: str) -> str:
    done = run(program, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def complaint(program: str, *arguments: str, api_key: str = "") -> str:
    """Return the only sentence on standard error of a run that must fail with exit code 1."""
    done = run(program, *arguments, api_key=api_key)
    assert (done.returncode, done.stdout) == (1, ""), done
    (sentence,) = done.stderr.splitlines()
    return sentence


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_explains_itself(program: str) -> None:
    assert f"Usage: python -m examples.{program}" in printed(program, "--help")


def test_grpc(pod: Pod) -> None:
    line = "class 0, scores [1.25, -1.5, 1.0], version 1, attempts 1\n"
    assert printed("grpc_client", f"ipv4:{pod.grpc}", "--requests", "2") == line * 2


def test_http(pod: Pod) -> None:
    assert printed("http_client", pod.http) == "class 0, scores [1.25, -1.5, 1.0], version 1, attempts 1\n"


def test_sequence(pod: Pod) -> None:
    expected = "".join(f"sum {total} at {pod.grpc}\n" for total in (1, 3, 6))
    assert printed("sequence_client", pod.grpc, "--values", "1,2,3") == expected


def test_stream(pod: Pod) -> None:
    assert printed("stream_client", pod.grpc, "to be or not", "--words", "6") == "to be or not to be\n"


def test_shared_memory(pod: Pod) -> None:
    said = printed("shared_memory", pod.grpc, "--admin-key", pod.admin_key, "--height", "2", "--width", "3")
    assert said.startswith("3 x 2: mean grey ")
    assert said.endswith(", 24 bytes not sent\n")


def test_measuring_shared_memory_prints_a_row_for_each_size(pod: Pod) -> None:
    said = printed("measure_shared_memory", pod.grpc, "--admin-key", pod.admin_key, "--rounds", "3")
    assert [line.split("|")[1].strip() for line in said.splitlines()[2:]] == ["128 x 128", "640 x 480", "1920 x 1080"]


@pytest.mark.parametrize(
    ("program", "place", "arguments"),
    [
        ("grpc_client", f"ipv4:{NOBODY}:8001", ("--deadline", "60")),
        ("http_client", f"http://{NOBODY}:8000", ("--deadline", "60")),
        ("sequence_client", f"{NOBODY}:8001", ("--deadline", "60")),
        ("stream_client", f"{NOBODY}:8001", ("a", "--deadline", "60")),
        ("shared_memory", f"{NOBODY}:8001", ()),
    ],
)
def test_a_server_that_is_not_there(program: str, place: str, arguments: tuple[str, ...]) -> None:
    """The attempts finish long before the deadline; otherwise the deadline would end the last one with another error."""
    said = complaint(program, place, *arguments)
    assert said.startswith(f"{place} cannot be reached")
    assert said.endswith(": is a server there, and is it ready?")


@pytest.mark.parametrize("program", ["grpc_client", "http_client", "sequence_client", "stream_client"])
def test_an_unknown_model(pod: Pod, program: str) -> None:
    place = {"grpc_client": f"ipv4:{pod.grpc}", "http_client": pod.http}.get(program, pod.grpc)
    prompt = ["a"] if program == "stream_client" else []
    said = complaint(program, place, *prompt, "--model", "absent")
    assert said == f"{place} does not serve that model or version: Request for unknown model: 'absent' is not found"


@pytest.mark.parametrize("program", ["grpc_client", "http_client"])
def test_a_wrong_shape(pod: Pod, program: str) -> None:
    place = f"ipv4:{pod.grpc}" if program == "grpc_client" else pod.http
    assert complaint(program, place, "--features", "1,2,3") == (
        f"{place} refused the request: unexpected shape for input 'FEATURES' for model 'pipeline'. "
        "Expected [-1,4], got [1,3]"
    )


@pytest.mark.parametrize(
    ("program", "arguments", "sentence"),
    [
        ("grpc_client", ("ipv4:127.0.0.1:1", "--features", "1,x"), "--features: '1,x' is no list of numbers"),
        ("http_client", ("127.0.0.1:8000",), "127.0.0.1:8000: no URL; write http://<host>:8000"),
        ("sequence_client", ("127.0.0.1:1", "--values", "1,x"), "--values: '1,x' is no list of whole numbers"),
        ("sequence_client", ("nowhere",), "nowhere: no address; write <host>:<port>"),
        (
            "grpc_client",
            ("ipv4:127.0.0.1:1", "--follow-versions"),
            "--follow-versions: neither in a cluster nor a kubeconfig: ",
        ),
    ],
)
def test_a_mistake_in_the_arguments(program: str, arguments: tuple[str, ...], sentence: str) -> None:
    assert complaint(program, *arguments).startswith(sentence)


@contextlib.contextmanager
def refusing_gateway(program: str, refuses: Mapping[str | None, Any]) -> Iterator[str]:
    """Run a gateway that refuses every client, and yield its target; the header `authorization` decides the answer."""
    if program == "http_client":

        class Answers(http_server.Handler):
            def do_POST(self) -> None:
                self.body()
                self.answer(refuses[self.headers["authorization"]])

        with http_server.listening(Answers) as server:
            yield server.url
        return

    class Refusing(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            sent = dict(details.invocation_metadata)
            code = refuses[sent.get("authorization")]
            return grpc.unary_unary_rpc_method_handler(lambda request, context: context.abort(code, code.name.title()))

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"ipv4:127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize(
    ("program", "unknown", "forbidden"),
    [
        ("http_client", 401, 403),
        ("grpc_client", grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED),
    ],
)
def test_the_key_of_a_client_is_sent_and_a_refusal_told(program: str, unknown: Any, forbidden: Any) -> None:
    with refusing_gateway(program, {None: unknown, "Bearer the-key": forbidden}) as target:
        assert complaint(program, target).startswith(f"{target} does not know who asks: ")
        assert complaint(program, target, api_key="the-key").startswith(f"{target} does not let this client ask that: ")


def test_shared_memory_without_the_key(pod: Pod) -> None:
    assert complaint("shared_memory", pod.grpc) == (
        f"{pod.grpc} refused the request: This protocol is restricted, expecting header 'triton-grpc-protocol-admin-key'"
    )
