"""The images of modelctl and the worker: built from this checkout, and run without a container engine.

Command, arguments, environment, user and volumes of each process come from the rendered pods.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import ssl
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pulumi_kubernetes as k8s
import pytest

from infra.serving.comparer import Compared, Comparer
from infra.serving.parity import ParityExporter
from modelctl.store.bucket import Store, open_store
from spec.helm_values import merge
from spec.names import COMPARER, PARITY_EXPORTER
from spec.versions import PROJECT
from tests import http_server
from tests.charts import rendering, test_worker_chart
from tests.charts.rendering import IN_PLACE
from tests.charts.test_fetched_release import with_fetch
from tests.infra.access import access
from tests.infra.test_parity_exporter import IMAGE
from tests.modelctl.conftest import BUCKET
from tests.modelctl.fetch.releases import files, put
from tests.modelctl.fetch.test_follow import Site as LiveSite
from tests.modelctl.fetch.test_follow import put as put_versions
from tests.paths import ROOT
from tests.spec.test_stack_mistakes_worker import BY_HAND
from tests.system.component.engine.account import fresh_account
from tests.system.component.engine.program import run
from tests.system.e2e.containers import Image
from tests.system.serving import models
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet, Pod, free_address, running_kubelet
from tests.worker.requests import echo, key
from tests.worker.site import BUCKET as REQUESTS
from tests.worker.site import REGION, Site, running_site
from twin.aws.base.clients import Clients
from twin.cluster import certificates
from twin.host import processes
from twin.host.home import TwinHome

pytestmark = pytest.mark.timeout(1800)
MODELCTL, WORKER = "modelctl", "triton-worker"
TARGET_BYTES = 250 * 10**6
"""The size of both images on a node, which stores their shared layers once."""
KEYS = [{"name": name, "value": "test"} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
"""The credentials that replace a pod's role."""
Object = dict[str, Any]


def build(to: Path) -> dict[str, str]:
    """Build both images, and return the digests that the command prints."""
    done = subprocess.run(["images/build", str(to)], cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split("@") for line in done.stdout.splitlines())


@dataclass
class Node:
    """Both images, and the running containers of them."""

    digests: dict[str, str]
    images: dict[str, Image]
    directory: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, image: str, pod: Object, container: Object, address: str, volumes: Mapping[str, Path]) -> Container:
        """Start a container of a pod. Volumes without a folder here are empty."""
        number = len(self.running)
        places = dict(volumes)
        for volume in pod["volumes"]:
            if volume["name"] not in places:
                places[volume["name"]] = folder = self.directory / f"{number}-{volume['name']}"
                folder.mkdir()
                folder.chmod(0o777)
        log = self.directory / f"{number}-{container['name']}.log"
        with log.open("wb") as output:
            argv = self.images[image].argv(pod, container, places, address)
            process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self.running.append(process)
        return Container(process, log)


@dataclass(frozen=True)
class Container:
    process: subprocess.Popen[bytes]
    log: Path

    def ended(self) -> int:
        code = self.process.wait(120)
        assert code == 0, self.log.read_text()
        return code

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def met() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            with contextlib.suppress(httpx.TransportError):
                return condition()
            return False

        processes.wait_until(met, what, 120)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("images")
    digests = build(folder / "built")
    images = {}
    for name in digests:
        (folder / name).mkdir(mode=0o755)
        images[name] = Image.extracted(folder / "built" / name, folder / name)
    for above in (folder, *folder.parents):
        if above != above.parent and not above.stat().st_mode & stat.S_IXOTH:
            above.chmod(above.stat().st_mode | stat.S_IXOTH)  # pytest's own folders are accessible only to their owner
    built = Node(digests, images, tmp_path_factory.mktemp("node"))
    try:
        yield built
    finally:
        for process in built.running:
            if process.poll() is None:
                process.kill()
            process.wait(10)


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    with running_kubelet(tmp_path_factory.mktemp("kubelet"), tmp_path_factory.mktemp("backends")) as running:
        yield running


@pytest.fixture(scope="module")
def tritons(kubelet: Kubelet, tmp_path_factory: pytest.TempPathFactory) -> list[Pod]:
    """Return two servers: `echo` answers its number plus 1 on the first, plus 2 on the other."""
    pods = []
    for version in (1, 2):
        repository = tmp_path_factory.mktemp("repository")
        models.write(repository, version=version, timing=Timing(batch=8, queue=64))
        pods.append(kubelet.pod({"echo": version}, repository).start())
    return [pod.until_ready() for pod in pods]


@pytest.fixture
def address() -> str:
    return free_address()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_site(tmp_path / "site") as running:
        yield running


@pytest.fixture
def store(site: Site, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a bucket for models in the site's moto."""
    for entry in KEYS:
        monkeypatch.setenv(entry["name"], entry["value"])
    site.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return open_store(BUCKET, site.url, region=REGION)


@pytest.fixture(scope="module")
def deployed() -> dict[str, Object]:
    """Return the pods of the parity exporter and the comparer, by name, as the program registers them."""

    def program() -> None:
        cluster = access(provider=k8s.Provider("kubernetes", kubeconfig="{}"))
        ParityExporter("parity", cluster, IMAGE)
        Comparer("comparer", cluster, Compared(IMAGE, "triton", "triton-green", {"echo": 1e-5}, 60))

    with fresh_account(), contextlib.chdir(ROOT):
        made = run(program, project=PROJECT, stack="staging", config={}, root=ROOT, clients=Clients(REGION))
    found = [each.checked for each in made.registrations if each.type == "kubernetes:apps/v1:Deployment"]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in found}


def test_two_builds_have_the_same_digests(node: Node, tmp_path: Path) -> None:
    assert sorted(node.digests) == [MODELCTL, WORKER]
    assert build(tmp_path / "again") == node.digests == {name: image.digest for name, image in node.images.items()}


def test_both_images_have_at_most_250_mb_of_files(node: Node) -> None:
    layers = {digest: size for image in node.images.values() for digest, size in image.layers.items()}
    assert sum(layers.values()) <= TARGET_BYTES


@pytest.mark.parametrize("name", [MODELCTL, WORKER])
def test_python_is_the_only_program(node: Node, name: str) -> None:
    """No shell, compiler or package manager. A library is no program, although its file may be executable."""
    found = [path for path in node.images[name].root.rglob("*") if path.is_file() and not path.is_symlink()]
    programs = {
        str(path.relative_to(node.images[name].root))
        for path in found
        if path.stat().st_mode & 0o111 and path.read_bytes()[:4] == b"\x7fELF" and not re.search(r"\.so(\.|$)", path.name)
    }
    assert programs == {"usr/bin/python3.11"}
    assert [
        path for path in found if path.read_bytes()[:2] == b"#!" and path.stat().st_mode & 0o111 and path.suffix != ".py"
    ] == []
    assert [path for path in found if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)] == []


def fetching(site: Site, release: str | None, name: str) -> tuple[Object, Object]:
    """Return a Triton pod that copies a release from the site, else the live one, and one of its init containers."""
    values = {"modelRepository": {"s3": {"bucket": BUCKET, "region": REGION, "endpoint": site.url}}}
    if release is None:
        values = merge(values, IN_PLACE)
    else:
        values = merge(values, {"release": {"id": release}, "modelRepository": {"s3": {"prefix": f"releases/{release}"}}})
    pod = rendering.pod(with_fetch(values))
    (container,) = [each for each in pod["initContainers"] if each["name"] == name]
    return pod, {**container, "env": [*container["env"], *KEYS]}


def disk(tmp_path: Path) -> Path:
    """Return the pod's volume of models."""
    folder = tmp_path / "models"
    folder.mkdir()
    os.chown(folder, 1000, 1000)
    return folder


def test_a_fetched_release_is_served(
    node: Node, site: Site, store: Store, kubelet: Kubelet, tmp_path: Path, address: str
) -> None:
    models.write(tmp_path / "repository", timing=Timing(batch=8, queue=64))
    release = put(store, files(tmp_path / "repository"))
    pod, container = fetching(site, release, "fetch")
    folder = disk(tmp_path)
    node.start(MODELCTL, pod, container, address, {"models": folder}).ended()
    fetched = folder / "releases" / release
    assert files(fetched) == files(tmp_path / "repository")
    assert {path.stat().st_uid for path in fetched.rglob("*")} == {1000}
    server = kubelet.pod({"echo": 1}, fetched).start().until_ready()
    assert answer(server.http, 3) == 4


def test_a_changed_object_is_not_fetched(node: Node, site: Site, store: Store, tmp_path: Path, address: str) -> None:
    release = put(store, {"classify/1/weights.bin": b"right"})
    site.s3.put_object(Bucket=BUCKET, Key=f"releases/{release}/classify/1/weights.bin", Body=b"wrong")
    pod, container = fetching(site, release, "fetch")
    started = node.start(MODELCTL, pod, container, address, {"models": disk(tmp_path)})
    assert started.process.wait(120) == 1
    assert "error: classify/1/weights.bin in s3://" in started.log.read_text()
    assert not (tmp_path / "models" / "current").exists()


def test_a_rollout_in_place_is_followed(node: Node, site: Site, store: Store, tmp_path: Path, address: str) -> None:
    folder = disk(tmp_path)
    live = LiveSite(store, tmp_path / "unused")
    first, second = put_versions(store, {"a": 1}), put_versions(store, {"a": 2})
    live.write(first, a=[1])
    pod, once = fetching(site, None, "fetch")
    node.start(MODELCTL, pod, once, address, {"models": folder}).ended()
    assert (folder / "current/a/1/model.bin").read_bytes().startswith(b"a 1 ")

    _, following = fetching(site, None, "follow")
    follower = node.start(MODELCTL, pod, following, address, {"models": folder})
    live.write(second, a=[2])
    follower.until((folder / "current/a/2/model.bin").exists, "the next version on the disk")
    assert (folder / "current/a/2/model.bin").read_bytes().startswith(b"a 2 ")
    follower.process.send_signal(signal.SIGTERM)
    follower.process.wait(30)


def answer(url: str, number: float) -> float:
    """Return the answer of `echo` to a number."""
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [number]}]}
    got = httpx.post(f"{url}/v2/models/echo/infer", json=body, timeout=30, trust_env=False)
    return float(got.raise_for_status().json()["outputs"][0]["data"][0])


def test_pods_that_differ_are_exported(
    node: Node, deployed: dict[str, Object], tritons: list[Pod], tmp_path: Path, address: str
) -> None:
    """The EndpointSlices are fake, because a real API server refuses loopback addresses."""
    account = tmp_path / "account"
    account.mkdir()
    pki = certificates.ensure(TwinHome(tmp_path / "home"))
    (account / "ca.crt").write_bytes(pki.ca.read_bytes())
    (account / "token").write_text("token-of-the-pod")
    slices = {
        "metadata": {"name": "triton-x", "labels": {"kubernetes.io/service-name": "triton-headless"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": [
            {"addresses": [pod.address], "targetRef": {"kind": "Pod", "name": pod.name, "uid": pod.uid}} for pod in tritons
        ],
    }

    class Api(http_server.Handler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"].lower() == "bearer token-of-the-pod"
            listed = self.path.startswith("/apis/discovery.k8s.io/v1/namespaces/triton/endpointslices?")
            self.answer(
                200 if allowed and listed else 403, json.dumps({"items": [slices]}).encode(), content_type="application/json"
            )

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki.serving.certificate, pki.serving.key)
    with http_server.listening(Api, tls) as api:
        pod = deployed[PARITY_EXPORTER]
        (container,) = pod["containers"]
        # The volume that the kubelet adds for an account with a token.
        service = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.server_port)}
        container = {
            **container,
            "env": [*container["env"], *({"name": name, "value": value} for name, value in service.items())],
            "volumeMounts": [
                *container["volumeMounts"],
                {"name": "account", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
            ],
        }
        exporter = node.start(MODELCTL, pod, container, address, {"account": account})
        page = f"http://{address}:9108/metrics"
        exporter.until(lambda: httpx.get(page, trust_env=False).status_code == 200, "the exporter")
        lines = httpx.get(page, timeout=30, trust_env=False).text.splitlines()
    assert 'triton_model_config_fleet_up{namespace="triton"} 1.0' in lines
    assert 'triton_model_config_unreachable_pods{namespace="triton"} 0.0' in lines
    served = {
        tuple(re.findall(r'(?:pod|version)="([^"]+)"', line))
        for line in lines
        if line.startswith("triton_model_config_info{")
    }
    assert served == {(tritons[0].name, "1"), (tritons[1].name, "2")}


def test_answers_that_differ_are_counted(node: Node, deployed: dict[str, Object], tritons: list[Pod], address: str) -> None:
    pod = deployed[COMPARER]
    (container,) = pod["containers"]
    places = {"release": tritons[0], "candidate": tritons[1]}
    real = {
        **{f"--{name}-http": server.http for name, server in places.items()},
        **{f"--{name}-grpc": f"ipv4:{server.grpc}" for name, server in places.items()},
    }
    words = [
        f"{option}={real.get(option, value)}" if value else option
        for option, _, value in (word.partition("=") for word in container["args"])
    ]
    comparer = node.start(MODELCTL, pod, {**container, "args": words}, address, {})
    metrics = f"http://{address}:8002/metrics"
    comparer.until(lambda: httpx.get(metrics, trust_env=False).status_code == 200, "the comparer")
    body = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [3]}]}
    httpx.post(f"http://{address}:8000/v2/models/echo/infer", json=body, trust_env=False)
    counted = 'triton_copies_total{model="echo",result="different"} 1.0'
    comparer.until(lambda: counted in httpx.get(metrics, trust_env=False).text, "the two answers to be compared")


def test_a_worker_answers_messages_and_ends_when_it_is_told(
    node: Node, site: Site, tritons: list[Pod], address: str
) -> None:
    values = merge(
        test_worker_chart.computed(BY_HAND),
        {
            "aws": {"endpoint": site.url},
            "queue": {"url": site.queue, "replyUrls": []},
            "bucket": REQUESTS,
            "triton": {"url": f"ipv4:{tritons[0].grpc}"},
        },
    )
    pod = rendering.only(test_worker_chart.render(values), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ids = site.send([echo(number) for number in range(20)])
    worker = node.start(WORKER, pod, {**container, "env": [*container["env"], *KEYS]}, address, {})
    worker.until(lambda: site.left() == 0, "the queue to be empty")
    assert [site.document(key(message))["outputs"][0]["data"] for message in ids] == [[number + 1.0] for number in range(20)]
    worker.process.send_signal(signal.SIGTERM)
    worker.ended()


def test_the_root_of_a_container_cannot_be_written(node: Node, deployed: dict[str, Object], address: str) -> None:
    """The other tests depend on it."""
    pod = deployed[PARITY_EXPORTER]
    (container,) = pod["containers"]
    code = "import os; print(os.getuid(), os.listdir('/tmp')); open('/app/x', 'w')"
    tried = node.start(MODELCTL, pod, {**container, "command": ["python", "-c", code], "args": []}, address, {})
    assert tried.process.wait(60) == 1
    said = tried.log.read_text()
    assert said.startswith("1000 []\n") and "OSError: [Errno 30] Read-only file system: '/app/x'" in said
