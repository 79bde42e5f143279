"""Mistakes in `helm-values` that chart schemas cannot express: each is refused with file, value and remedy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from spec import helm_value_rules
from spec.settings import SettingsError, load_stack_file
from tests.paths import ROOT
from tests.spec.stack_config import settings
from tests.spec.test_capacity import POOL
from tests.spec.test_stack_mistakes_worker import KEDA

IMAGE = "mirror/helper@sha256:" + "0123456789abcdef" * 4
HELPER: dict[str, Any] = {"name": "helper", "image": IMAGE, "resources": {"cpu": "100m", "memory": "128Mi"}}
CONTAINER = "extraContainers[0]"
DECIDED = "the stack file decides it; remove it here"
OPEN = "is open to the internet without authentication; give a range of /8 or narrower"
LIBRARIES = "decides which libraries the server loads; the image sets it; remove it"
GPUS = "is set by the device plugin; another value breaks the isolation of GPUs; remove it"
ROLE = "would replace the role of the service account; remove it"
PLAIN = "is a secret in plain text; take it from a Secret (valueFrom)"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with the charts' defaults and without user values."""
    monkeypatch.chdir(tmp_path)
    for chart in ("triton", "worker"):
        (tmp_path / "charts" / chart).mkdir(parents=True)
        shutil.copy(ROOT / "charts" / chart / "values.yaml", tmp_path / "charts" / chart)
        (tmp_path / "helm-values" / chart).mkdir(parents=True)
        (tmp_path / "helm-values" / chart / "base.yaml").write_text("{}")
    return tmp_path / "helm-values"


def refused(changes: dict[str, Any] | None = None, environment: str = "staging") -> list[str]:
    try:
        helm_value_rules.check(settings(changes, environment))
    except SettingsError as error:
        return str(error).splitlines()
    return []


def client(**peer: Any) -> dict[str, Any]:
    return {"networkPolicy": {"clients": [peer]}}


def variable(name: str, **source: Any) -> dict[str, Any]:
    return {"extraEnv": [{"name": name, **(source or {"value": "x"})}]}


def helper(**more: Any) -> dict[str, Any]:
    return {"extraContainers": [{**HELPER, **more}]}


def config(name: str, **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    # settings of the stack file
    ({"image": {"digest": "sha256:0"}}, [f"image.digest: {DECIDED}"]),
    ({"rollout": {"mode": "in-place"}}, [f"rollout.mode: {DECIDED}"]),
    ({"replicaCount": 3}, [f"replicaCount: {DECIDED}"]),
    ({"modelRepository": {"volume": {"claimName": "a"}}}, [f"modelRepository.volume: {DECIDED}"]),
    ({"tracing": {"endpoint": "http://collector:80/v1/traces"}}, [f"tracing.endpoint: {DECIDED}"]),
    (
        {"server": {"openai": {"tokenizer": "/t"}, "responseCacheBytes": 1}},
        [f"server.responseCacheBytes: {DECIDED}", f"server.openai: {DECIDED}"],
    ),
    (
        {"resources": {"nvidia.com/gpu": 1}},
        ["resources.nvidia.com/gpu: triton.gpus of the stack file sets the GPUs; remove it"],
    ),
    # flags
    (
        {"server": {"extraArgs": ["--log-verbose=1", "--log-verbose=2"]}},
        ["server.extraArgs: --log-verbose: is there twice, one of them would be ignored; give it once"],
    ),
    (
        {"server": {"extraArgs": ["--http-thread-count"]}},
        ["server.extraArgs: --http-thread-count: needs a value; write --http-thread-count=<value>"],
    ),
    (
        {"server": {"extraArgs": ["--log-info=maybe"]}},
        ["server.extraArgs: --log-info: 'maybe' is no truth value; give true or false"],
    ),
    (
        {"server": {"extraArgs": ["--backend-config=trt,precision_mode=FP16"]}},
        [
            "server.extraArgs: --backend-config: there is no backend 'trt'; use python, onnxruntime, tensorrt, openvino or "
            "pytorch"
        ],
    ),
    # times
    (
        {"drain": {"longestBatchSeconds": 61}},
        [
            "drain.longestBatchSeconds: 61 s are more than drain.longestRequestSeconds (60), and a batch is a part of its "
            "requests; give 60 or less"
        ],
    ),
    (
        {"readiness": {"periodSeconds": 2}},
        ["readiness.timeoutSeconds: 5 s are more than readiness.periodSeconds; give 2 or less"],
    ),
    (
        {"liveness": {"timeoutSeconds": 11}},
        ["liveness.timeoutSeconds: 11 s are more than liveness.periodSeconds; give 10 or less"],
    ),
    (
        {"modelRepository": {"fetch": {"memory": "13Gi"}}},
        ["modelRepository.fetch.memory: 13312 MiB are more than the 12 GiB of a pod (triton.memoryGiB); give 12Gi or less"],
    ),
    # addresses
    (client(ipBlock={"cidr": "0.0.0.0/0"}), [f"networkPolicy.clients[0].ipBlock.cidr: 0.0.0.0/0 {OPEN}"]),
    (client(ipBlock={"cidr": "8.0.0.0/7"}), [f"networkPolicy.clients[0].ipBlock.cidr: 8.0.0.0/7 {OPEN}"]),
    (
        {"networkPolicy": {"monitoring": [{"ipBlock": {"cidr": "::/0"}}]}},
        [f"networkPolicy.monitoring[0].ipBlock.cidr: ::/0 {OPEN}"],
    ),
    *(
        (
            client(ipBlock={"cidr": "10.0.0.0/16", "except": [part]}),
            [
                f"networkPolicy.clients[0].ipBlock.except[0]: '{part}' is not a part of 10.0.0.0/16; give a smaller "
                "range inside it"
            ],
        )
        for part in ("10.1.0.0/24", "10.0.0.0/16", "10.0.256.0/24", "2001:db8::/48")
    ),
    *(
        (
            {"networkPolicy": {"extraEgress": [{"to": [{"ipBlock": {"cidr": text}}]}]}},
            [
                f"networkPolicy.extraEgress[0].to[0].ipBlock.cidr: '{text}' is not a range of addresses; give one like "
                "10.0.0.0/16"
            ],
        )
        for text in ("300.0.0.0/8", "::1::2/64")
    ),
    (
        {"networkPolicy": {"extraEgress": [{"ports": [{"port": 100, "endPort": 90}]}]}},
        ["networkPolicy.extraEgress[0].ports[0].endPort: 90 is less than port; give 100 or more"],
    ),
    # variables
    (variable("LD_AUDIT"), [f"extraEnv[0].name: LD_AUDIT {LIBRARIES}"]),
    (variable("PYTHONPATH"), [f"extraEnv[0].name: PYTHONPATH {LIBRARIES}"]),
    (variable("CUDA_VISIBLE_DEVICES"), [f"extraEnv[0].name: CUDA_VISIBLE_DEVICES {GPUS}"]),
    (variable("NVIDIA_VISIBLE_DEVICES"), [f"extraEnv[0].name: NVIDIA_VISIBLE_DEVICES {GPUS}"]),
    (variable("POD_IP"), ["extraEnv[0].name: POD_IP is set by the chart; remove it"]),
    (
        variable("AWS_ENDPOINT_URL_S3"),
        [
            "extraEnv[0].name: AWS_ENDPOINT_URL_S3 follows from models.s3Endpoint of the stack file, which the "
            "NetworkPolicy uses too; remove it"
        ],
    ),
    (variable("AWS_ROLE_ARN"), [f"extraEnv[0].name: AWS_ROLE_ARN {ROLE}"]),
    (variable("AWS_ACCESS_KEY_ID"), [f"extraEnv[0].name: AWS_ACCESS_KEY_ID {ROLE}"]),
    ({"extraEnv": [{"name": "A", "value": "1"}] * 2}, ["extraEnv[1].name: A is already used; give each its own"]),
    # additions to the pod
    (
        {"podLabels": {"triton-eks/pool": "a"}},
        ["podLabels.triton-eks/pool: is set by the chart or by Kubernetes; use another key"],
    ),
    (
        {"podLabels": {"app.kubernetes.io/name": "a"}},
        ["podLabels.app.kubernetes.io/name: is set by the chart or by Kubernetes; use another key"],
    ),
    (
        {"podAnnotations": {"triton-eks/models": "a"}},
        ["podAnnotations.triton-eks/models: is set by the program or the chart; use another key"],
    ),
    (
        {"podAnnotations": {"container.apparmor.security.beta.kubernetes.io/triton": "unconfined"}},
        [
            "podAnnotations.container.apparmor.security.beta.kubernetes.io/triton: the restricted standard requires the "
            "runtime's profile; remove it"
        ],
    ),
    (
        {"extraVolumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}]},
        ["extraVolumes[0].name: tmp is already used; give each its own"],
    ),
    (
        {"extraVolumes": [{"name": "a", "configMap": {"name": "a"}}] * 2},
        ["extraVolumes[1].name: a is already used; give each its own"],
    ),
    (
        {"extraVolumeMounts": [{"name": "data", "mountPath": "/mnt/data"}]},
        ["extraVolumeMounts[0].name: there is no volume data; add it to extraVolumes"],
    ),
    *(
        (
            {"extraVolumeMounts": [{"name": "tmp", "mountPath": path}]},
            [
                f"extraVolumeMounts[0].mountPath: {path} would hide files that the server needs; use another path, like "
                "/mnt/data or /opt/tritonserver/backends/mine"
            ],
        )
        for path in ("/opt/tritonserver/backends", "/dev/shm", "/models/a", "/var/run/secrets/a", "/run/triton", "/etc")
    ),
    (
        {"extraVolumeMounts": [{"name": "tmp", "mountPath": "/mnt/a"}] * 2},
        ["extraVolumeMounts[1].mountPath: /mnt/a is already used; give each its own"],
    ),
    (helper(name="triton"), [f"{CONTAINER}.name: triton is already used; give each its own"]),
    (
        {"extraInitContainers": [HELPER], "extraContainers": [HELPER]},
        [f"{CONTAINER}.name: helper is already used; give each its own"],
    ),
    (
        helper(restartPolicy="Always"),
        [f"{CONTAINER}.restartPolicy: belongs to extraInitContainers, where Always makes a sidecar; remove it"],
    ),
    (
        helper(ports=[{"containerPort": 8001}]),
        [
            f"{CONTAINER}.ports[0].containerPort: 8001 is the port of triton, and containers of a pod share ports; use "
            "another"
        ],
    ),
    (
        helper(env=[{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}]),
        [f"{CONTAINER}.env[0].name: AWS_SECRET_ACCESS_KEY {PLAIN}"],
    ),
    (
        helper(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        [
            f"{CONTAINER}.env[0].name: NVIDIA_VISIBLE_DEVICES would give the container the server's GPUs past the device "
            "plugin; remove it"
        ],
    ),
    (
        helper(volumeMounts=[{"name": "data", "mountPath": "/d"}]),
        [f"{CONTAINER}.volumeMounts[0].name: there is no volume data; add it to extraVolumes"],
    ),
    (
        {"extraObjects": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}]},
        ["extraObjects[0].kind: values must not contain a Secret; create it elsewhere, or by an ExternalSecret"],
    ),
    (
        {"extraObjects": [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"}}]},
        ["extraObjects[0].kind: a ClusterRole belongs to the whole cluster; create it elsewhere"],
    ),
    ({"extraObjects": [config("a")] * 2}, ["extraObjects[1]: ConfigMap a is listed twice; list it once"]),
    (
        {"extraObjects": [config("a", namespace="kube-system")]},
        ["extraObjects[0].metadata.namespace: kube-system is not triton; remove it"],
    ),
]


@pytest.mark.parametrize(("values", "said"), REFUSED, ids=[said[0].partition(": ")[0] for _, said in REFUSED])
def test_a_mistake_in_the_values_of_triton_is_refused(checkout: Path, values: dict[str, Any], said: list[str]) -> None:
    (checkout / "triton" / "base.yaml").write_text(json.dumps(values))
    assert refused() == [f"helm-values/triton/base.yaml: {line}" for line in said]


OWN_FLAGS = [
    "--model-control-mode=poll",
    "--model-repository=/models",
    "--model-store=/models",
    "--repository-poll-secs=5",
    "--load-model=*",
    "--exit-on-error=false",
    "--exit-timeout-secs=5",
    "--strict-model-config=false",
    "--strict-readiness=false",
    "--disable-auto-complete-config",
    "--allow-client-shm=true",
    "--http-port=9000",
    "--grpc-restricted-protocol=health:a=b",
    "--http-restricted-api=health:a=b",
    "--http-max-input-size=1",
    "--metrics-config=summary_latencies=true",
    "--log-format=default",
    "--rate-limit=off",
    "--rate-limit-resource=slots:2",
    "--cache-config=local,size=1048576",
    "--response-cache-byte-size=1048576",
    "--model-config-name=h100",
]


@pytest.mark.parametrize("flag", OWN_FLAGS)
def test_a_flag_of_the_chart_is_refused(checkout: Path, flag: str) -> None:
    (checkout / "triton" / "base.yaml").write_text(json.dumps({"server": {"extraArgs": [flag]}}))
    assert refused() == [
        f"helm-values/triton/base.yaml: server.extraArgs: {flag} is set by the chart, or undoes what the chart relies on; "
        "remove it"
    ]


def test_flags_of_tracing_belong_to_the_stack_file_where_it_traces(checkout: Path) -> None:
    (checkout / "triton" / "base.yaml").write_text(json.dumps({"server": {"extraArgs": ["--trace-config=rate=1"]}}))
    assert refused() == []
    [line] = refused({"tracing": {"exporter": "xray", "keepPercent": 1}})
    assert "--trace-config=rate=1 is set by the chart" in line


def test_credentials_of_another_store_come_from_a_secret(checkout: Path) -> None:
    own = {"models.s3Endpoint": "https://minio.example.com:9000"}
    file = checkout / "triton" / "base.yaml"
    file.write_text(json.dumps(variable("AWS_SECRET_ACCESS_KEY", value="s3cr3t")))
    assert refused(own) == [f"helm-values/triton/base.yaml: extraEnv[0].name: AWS_SECRET_ACCESS_KEY {PLAIN}"]
    file.write_text(json.dumps(variable("AWS_SECRET_ACCESS_KEY", valueFrom={"secretKeyRef": {"name": "a", "key": "b"}})))
    assert refused(own) == []


@pytest.mark.parametrize(
    "values",
    [
        client(ipBlock={"cidr": "10.0.0.0/16", "except": ["10.0.3.0/24"]}),
        client(ipBlock={"cidr": "2001:db8::/32", "except": ["2001:db8:1::/48"]}),
        {"networkPolicy": {"extraEgress": [{"ports": [{"port": 8000, "endPort": 9000}, {"port": "https"}]}]}},
        {"networkPolicy": {"extraEgress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}},
        {"server": {"extraArgs": ["--log-verbose=1"]}},
        {
            "extraVolumes": [{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}],
            **helper(volumeMounts=[{"name": "a", "mountPath": "/a"}]),
        },
        {"extraVolumeMounts": [{"name": "tmp", "mountPath": "/opt/tritonserver/backends/mine"}]},
        {"resources": {"vpc.amazonaws.com/efa": 1}, "podLabels": {"team": "vision"}},
        {"extraEnv": "not a list", "networkPolicy": {"clients": [{"ipBlock": "not a mapping"}]}},
        {
            "networkPolicy": "none",
            "drain": "60s",
            "extraObjects": [{"kind": "ConfigMap", "metadata": "a"}],
            "podLabels": "a",
        },
    ],
    ids=str,
)
def test_other_values_are_for_people_and_for_the_schema(checkout: Path, values: dict[str, Any]) -> None:
    (checkout / "triton" / "base.yaml").write_text(json.dumps(values))
    assert refused() == []


def test_mistakes_of_all_files_are_reported_at_once_each_with_the_file_that_holds(checkout: Path) -> None:
    (checkout / "triton" / "base.yaml").write_text(json.dumps({**variable("POD_IP"), "podLabels": {"triton-eks/a": "b"}}))
    (checkout / "triton" / "staging.yaml").write_text(
        json.dumps({"podLabels": {"a": "b"}, "liveness": {"periodSeconds": 4}})
    )
    (checkout / "worker" / "base.yaml").write_text(json.dumps({"serviceAccount": {"name": "mine"}}))
    assert [line.rpartition(": ")[0].split(": ")[:2] for line in refused({"worker": KEDA})] == [
        ["helm-values/triton/staging.yaml", "liveness.timeoutSeconds"],
        ["helm-values/triton/base.yaml", "extraEnv[0].name"],
        ["helm-values/triton/base.yaml", "podLabels.triton-eks/a"],
        ["helm-values/worker/base.yaml", "serviceAccount.name"],
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"probes": {"timeoutSeconds": 11}},
            "probes.timeoutSeconds: 11 s are more than probes.periodSeconds; give 5 or less",
        ),
        (
            {"networkPolicy": {"monitoring": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}},
            f"networkPolicy.monitoring[0].ipBlock.cidr: 0.0.0.0/0 {OPEN}",
        ),
        ({"queue": {"url": "https://sqs.us-west-2.amazonaws.com/1/a"}}, f"queue.url: {DECIDED}"),
        ({"drain": {"graceSeconds": 1}}, f"drain: {DECIDED}"),
    ],
)
def test_a_mistake_in_the_values_of_the_workers_is_refused(checkout: Path, values: dict[str, Any], said: str) -> None:
    (checkout / "worker" / "base.yaml").write_text(json.dumps(values))
    assert refused({"worker": KEDA}) == [f"helm-values/worker/base.yaml: {said}"]
    assert refused() == []


def test_a_file_of_another_name_is_refused(checkout: Path) -> None:
    (checkout / "triton" / "stagin.yaml").write_text("{}")
    assert refused() == [
        "helm-values/triton/stagin.yaml: the file: has no effect; use base.yaml, local.yaml, dev.yaml, staging.yaml or "
        "prod.yaml"
    ]


def test_a_key_that_is_there_twice_is_refused_with_both_lines(checkout: Path) -> None:
    (checkout / "triton" / "staging.yaml").write_text("probes: {}\n\nprobes: {periodSeconds: 3}\n", encoding="utf-8")
    assert refused() == [
        "helm-values/triton/staging.yaml: line 3, column 1: 'probes' is there twice, first on line 1; keep one of them"
    ]


def slow(**slo_p95_ms: int) -> dict[str, Any]:
    wants = {name: {"device": "cpu", "sloP95Ms": slo, "expectedRate": 1, "peakRate": 1} for name, slo in slo_p95_ms.items()}
    return {"models.release": None, "models.serving": wants}


def test_a_pod_is_not_stopped_before_the_longest_request_that_it_accepted(checkout: Path) -> None:
    """The queue timeout of a model is its SLO."""
    assert refused(slow(quick=50, slow=30_000)) == []
    said = (
        "drain.longestRequestSeconds: 60 s, but a request of slow may wait 30.001 s in the queue and then take its SLO, "
        "30.001 s; give 61 or more"
    )
    assert refused(slow(quick=50, slow=30_001)) == [f"helm-values/triton/base.yaml: {said}"]
    (checkout / "triton" / "staging.yaml").write_text("drain: {longestRequestSeconds: 59}")
    assert refused(slow(slow=29_501)) == [
        "helm-values/triton/staging.yaml: drain.longestRequestSeconds: 59 s, but a request of slow may wait 29.501 s in the "
        "queue and then take its SLO, 29.501 s; give 60 or more"
    ]


def test_the_program_waits_for_streams_of_a_known_length_by_itself(checkout: Path) -> None:
    changes = slow(chat=50)
    changes["models.serving"]["chat"] |= {"decoupled": True, "longestStreamSeconds": 300}
    assert refused(changes) == []


@pytest.mark.parametrize("environment", ["local", "dev", "staging", "prod"])
def test_the_shipped_values_have_no_mistake(environment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    helm_value_rules.check(load_stack_file(ROOT / "stacks" / f"Pulumi.{environment}.yaml"))


def test_what_the_program_computes_for_packed_pods_and_for_nodes_of_workers_is_refused(checkout: Path) -> None:
    (checkout / "triton" / "base.yaml").write_text("spread: {host: DoNotSchedule}")
    assert refused() == []
    assert refused(POOL) == [
        "helm-values/triton/base.yaml: spread.host: Karpenter packs these pods on nodes, so the program sets it; remove it "
        "here"
    ]
    (checkout / "triton" / "base.yaml").write_text("{}")
    (checkout / "worker" / "base.yaml").write_text("nodeSelector: {a: b}\nspread: {hosts: false}")
    assert refused({"worker": KEDA}) == []
    nodes = {"instanceTypes": ["m7i.large"], "max": 2, "diskGiB": 50}
    assert refused({**POOL, "worker": KEDA, "nodes.cpu": nodes}) == [
        f"helm-values/worker/base.yaml: {key}: nodes.cpu of the stack file decides it; remove it here"
        for key in ("nodeSelector", "spread")
    ]
