"""Values of a wrong type or form: the schema refuses all of them at once, each with its path."""

from typing import Any

import pytest

from tests.charts import rendering
from tests.charts.rendering import RELEASE_ID
from twin.releases import helm
from twin.releases.helm import HelmError

SUBDOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
"""Name of a Kubernetes object, as Helm prints its pattern."""
HOST = r"[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?(\\.[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?)*"


def client(**peer: Any) -> dict[str, Any]:
    return {"networkPolicy": {"clients": [peer]}}


def selecting(key: str, operator: str, **values: Any) -> dict[str, Any]:
    return client(podSelector={"matchExpressions": [{"key": key, "operator": operator, **values}]})


def egress(*ports: dict[str, Any]) -> dict[str, Any]:
    return {"networkPolicy": {"extraEgress": [{"ports": list(ports)}]}}


def variable(**source: Any) -> dict[str, Any]:
    return {"extraEnv": [{"name": "A", "valueFrom": source}]}


SCHEMA = [
    ({"replicas": 2}, "values: additional properties 'replicas' not allowed"),
    ({"image": {"tag": "26.07-py3"}}, "image: additional properties 'tag' not allowed"),
    (
        {"image": {"digest": "sha256:abc"}},
        "image.digest: 'sha256:abc' does not match pattern '^sha256:[0-9a-f]{64}$'",
    ),
    (
        {"image": {"repository": "nvcr.io/nvidia/tritonserver:26.07-py3"}},
        "image.repository: 'nvcr.io/nvidia/tritonserver:26.07-py3' does not match pattern "
        "'^[a-z0-9]+([._-][a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$'",
    ),
    (
        {"image": {"pullPolicy": "Sometimes"}},
        "image.pullPolicy: value must be one of 'Always', 'IfNotPresent', 'Never'",
    ),
    ({"server": {"version": 26.07}}, "server.version: got number, want string"),
    ({"server": {"version": "26.13"}}, "server.version: '26.13' does not match pattern '^[1-9][0-9]\\\\.(0[1-9]|1[0-2])$'"),
    (
        {"server": {"metricsConfig": {"histogram_latency": True}}},
        "server.metricsConfig: additional properties 'histogram_latency' not allowed",
    ),
    (
        {"server": {"extraArgs": ["--log-verbose 1"]}},
        "server.extraArgs[0]: '--log-verbose 1' does not match pattern '^--[a-z][a-z0-9-]*(=.+)?$'",
    ),
    ({"server": {"responseCacheBytes": -1}}, "server.responseCacheBytes: minimum: got -1, want 0"),
    ({"server": {"responseCacheBytes": "64Mi"}}, "server.responseCacheBytes: got string, want integer"),
    ({"server": {"rateLimiter": {"slots": 4}}}, "server.rateLimiter: additional properties 'slots' not allowed"),
    (
        {"server": {"rateLimiter": {"resources": {"slots": 0}}}},
        "server.rateLimiter.resources.slots: minimum: got 0, want 1",
    ),
    (
        {"release": {"configName": "my config"}},
        "release.configName: 'my config' does not match pattern '^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$'",
    ),
    ({"rollout": {"mode": "in_place"}}, "rollout.mode: value must be one of 'rolling', 'in-place'"),
    ({"replicaCount": -1}, "replicaCount: minimum: got -1, want 0"),
    ({"replicaCount": 1.5}, "replicaCount: got number, want null or integer"),
    ({"autoscaling": {"owner": "keda"}}, "autoscaling.owner: value must be one of 'none', 'external'"),
    ({"gpu": {"count": 0.5}}, "gpu.count: got number, want integer"),
    ({"gpu": {"count": "1"}}, "gpu.count: got string, want integer"),
    (
        {"gpu": {"resourceName": "amd.com/gpu"}},
        "gpu.resourceName: 'amd.com/gpu' does not match pattern "
        "'^nvidia\\\\.com/(gpu|gpu\\\\.shared|mig-[0-9]+g\\\\.[0-9]+gb(\\\\.me)?)$'",
    ),
    ({"resources": {"cpu": 3}}, "resources.cpu: got number, want string"),
    ({"resources": {"memory": "12G"}}, "resources.memory: '12G' does not match pattern '^[1-9][0-9]{0,9}(Mi|Gi)$'"),
    (
        {"resources": {"limits": {"memory": "12Gi"}}},
        "resources: additional properties 'limits' not allowed",
    ),
    ({"shm": {"size": "1.5Gi"}}, "shm.size: '1.5Gi' does not match pattern '^[1-9][0-9]{0,9}(Mi|Gi)$'"),
    (
        {"release": {"id": "v1.2"}},
        "release.id: 'v1.2' does not match pattern '^([0-9a-f]{64})?$'",
    ),
    ({"release": {"bytes": 0}}, "release.bytes: minimum: got 0, want 1"),
    ({"release": {"models": {}}}, "release.models: minProperties: got 0, want 1"),
    ({"release": {"models": {"resnet50": 0}}}, "release.models.resnet50: minimum: got 0, want 1"),
    ({"release": {"models": {"resnet50": "latest"}}}, "release.models.resnet50: got string, want integer"),
    (
        {"modelRepository": {"s3": {"bucket": "s3://models"}}},
        "modelRepository.s3.bucket: 's3://models' does not match pattern '^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$'",
    ),
    (
        {"modelRepository": {"s3": {"prefix": f"/releases/{RELEASE_ID}/"}}},
        f"modelRepository.s3.prefix: '/releases/{RELEASE_ID}/' does not match pattern "
        "'^([0-9A-Za-z_-][0-9A-Za-z._-]*(/[0-9A-Za-z_-][0-9A-Za-z._-]*)*)?$'",
    ),
    (
        {"modelRepository": {"s3": {"accessKey": "AKIA"}}},
        "modelRepository.s3: additional properties 'accessKey' not allowed",
    ),
    ({"startup": {"periodSeconds": 0}}, "startup.periodSeconds: minimum: got 0, want 1"),
    ({"drain": {"preStopSeconds": "30s"}}, "drain.preStopSeconds: got string, want integer"),
    ({"networkPolicy": {"clients": []}}, "networkPolicy.clients: minItems: got 0, want 1"),
    ({"networkPolicy": {"monitoring": [{}]}}, "networkPolicy.monitoring[0]: minProperties: got 0, want 1"),
    ({"spread": {"zone": ""}}, "spread.zone: value must be one of 'ScheduleAnyway', 'DoNotSchedule'"),
    ({"spread": {"host": "Never"}}, "spread.host: value must be one of '', 'ScheduleAnyway', 'DoNotSchedule'"),
    ({"tolerations": [{"key": "a", "operater": "Exists"}]}, "tolerations[0]: additional properties 'operater' not allowed"),
    ({"extraEnv": [{"value": "1"}]}, "extraEnv[0]: missing property 'name'"),
    ({"nodeSelector": {"pool": 5}}, "nodeSelector.pool: got number, want string"),
    (
        {"modelRepository": {"s3": {"prefix": f"releases/../{RELEASE_ID}"}}},
        f"modelRepository.s3.prefix: 'releases/../{RELEASE_ID}' does not match pattern "
        "'^([0-9A-Za-z_-][0-9A-Za-z._-]*(/[0-9A-Za-z_-][0-9A-Za-z._-]*)*)?$'",
    ),
    (
        {
            "modelRepository": {
                "volume": {"claimName": "models", "subPath": "../models"},
                "s3": {"bucket": "", "prefix": "", "region": ""},
            }
        },
        "modelRepository.volume.subPath: '../models' does not match pattern "
        "'^([0-9A-Za-z_-][0-9A-Za-z._-]*(/[0-9A-Za-z_-][0-9A-Za-z._-]*)*)?$'",
    ),
    (
        {"resources": {"cpu": "0.0"}},
        "resources.cpu: '0.0' does not match pattern "
        "'^([1-9][0-9]{0,6}m?|[1-9][0-9]{0,3}\\\\.[0-9]{1,3}|0\\\\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$'",
    ),
    (
        {"resources": {"cpu": "0m"}},
        "resources.cpu: '0m' does not match pattern "
        "'^([1-9][0-9]{0,6}m?|[1-9][0-9]{0,3}\\\\.[0-9]{1,3}|0\\\\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$'",
    ),
    (
        {"networkPolicy": {"clients": [{"podSelector": {"matchLabel": {"app": "client"}}}]}},
        "networkPolicy.clients[0].podSelector: additional properties 'matchLabel' not allowed",
    ),
    (
        {"networkPolicy": {"extraEgress": [{"ports": [{"port": 99999}]}]}},
        "networkPolicy.extraEgress[0].ports[0].port: maximum: got 99,999, want 65,535",
    ),
    (
        {"nodeSelector": {"triton-eks/pool": "g5 "}},
        "nodeSelector.triton-eks/pool: 'g5 ' does not match pattern '^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$'",
    ),
    (
        {"priorityClassName": "High Priority"},
        f"priorityClassName: 'High Priority' does not match pattern '^({SUBDOMAIN})?$'",
    ),
    (
        {"extraEnv": [{"name": "A", "valueFrom": {"secretRef": {"name": "a"}}}]},
        "extraEnv[0].valueFrom: additional properties 'secretRef' not allowed",
    ),
    ({"release": {"others": {"resnet50": [1, 1]}}}, "release.others.resnet50: items at 0 and 1 are equal"),
    (
        selecting("a", "In"),
        "networkPolicy.clients[0].podSelector.matchExpressions[0]: missing property 'values'",
    ),
    (
        selecting("a", "NotIn", values=[]),
        "networkPolicy.clients[0].podSelector.matchExpressions[0].values: minItems: got 0, want 1",
    ),
    (
        selecting("a", "Exists", values=["b"]),
        "networkPolicy.clients[0].podSelector.matchExpressions[0].values: maxItems: got 1, want 0",
    ),
    (
        selecting("a b", "Exists"),
        "networkPolicy.clients[0].podSelector.matchExpressions[0].key: 'a b' does not match pattern "
        f"'^({SUBDOMAIN}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?$'",
    ),
    (egress({"endPort": 90}), "networkPolicy.extraEgress[0].ports[0]: missing property 'port'"),
    (
        egress({"port": "http", "endPort": 90}),
        "networkPolicy.extraEgress[0].ports[0].port: got string, want integer",
    ),
    (
        egress({"port": "80"}),
        "networkPolicy.extraEgress[0].ports[0].port: '80' does not match pattern "
        "'^([a-z0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$'",
    ),
    (egress({"port": "a-name-that-is-too-long"}), "networkPolicy.extraEgress[0].ports[0].port: maxLength: got 23, want 15"),
    (
        {"tolerations": [{"key": "a", "value": "not ok!"}]},
        "tolerations[0].value: 'not ok!' does not match pattern '^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$'",
    ),
    ({"serviceAccount": {"name": "a" * 254}}, "serviceAccount.name: maxLength: got 254, want 253"),
    ({"serviceAccount": {"name": "a..b"}}, f"serviceAccount.name: 'a..b' does not match pattern '^({SUBDOMAIN})?$'"),
    (
        variable(secretKeyRef={"name": "a", "key": ".."}),
        "extraEnv[0].valueFrom.secretKeyRef.key: '..' does not match pattern '^\\\\.?[A-Za-z0-9_-][A-Za-z0-9._-]*$'",
    ),
    (
        variable(fieldRef={"fieldPath": "status.podIp"}),
        "extraEnv[0].valueFrom.fieldRef.fieldPath: 'status.podIp' does not match pattern "
        r"'^(metadata\\.(name|namespace|uid|(labels|annotations)\\[\'[^\']+\'\\])|spec\\.(nodeName|serviceAccountName)"
        r"|status\\.(hostIPs?|podIPs?))$'",
    ),
    (
        variable(resourceFieldRef={"resource": "limits.gpu"}),
        "extraEnv[0].valueFrom.resourceFieldRef.resource: 'limits.gpu' does not match pattern "
        r"'^(limits|requests)\\.(cpu|memory|ephemeral-storage|hugepages-.+)$'",
    ),
    ({"readiness": {"failureThreshold": 9999}}, "readiness.failureThreshold: maximum: got 9,999, want 1,000"),
    ({"tmp": {"size": "99999999999Gi"}}, "tmp.size: '99999999999Gi' does not match pattern '^[1-9][0-9]{0,9}(Mi|Gi)$'"),
    ({"replicaCount": None}, "values: missing property 'replicaCount'"),
    (
        client(ipBlock={"cidr": "10.0.0.0/16"}, podSelector={}),
        "networkPolicy.clients[0]: maxProperties: got 2, want 1",
    ),
    (
        {"extraEnv": [{"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]},
        "extraEnv[0]: maxProperties: got 3, want 2",
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "tolerations[0].value: maxLength: got 1, want 0",
    ),
    ({"tolerations": [{"operator": "Equal", "value": "b"}]}, "tolerations[0]: missing property 'key'"),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]},
        "tolerations[0].effect: value must be 'NoExecute'",
    ),
    (
        {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "triton"}}},
        "serviceAccount.annotations.eks.amazonaws.com/role-arn: 'triton' does not match pattern "
        "'^arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:role/([!-~]+/)?[A-Za-z0-9_+=,.@-]{1,64}$'",
    ),
    *(
        (
            {"modelRepository": {"s3": {"endpoint": endpoint}}},
            f"modelRepository.s3.endpoint: '{endpoint}' does not match pattern '^(https?://{HOST}(:[0-9]{{1,5}})?)?$'",
        )
        for endpoint in ("https://a..b", "http://minio:9000/models", "minio:9000")
    ),
    ({"server": None}, "values: missing property 'server'"),
    ({"networkPolicy": {"clients": None}}, "networkPolicy: missing property 'clients'"),
    ({"drain": {"preStopSeconds": None}}, "drain: missing property 'preStopSeconds'"),
]


def refusal(overrides: dict[str, Any]) -> str:
    with pytest.raises(HelmError) as error:
        rendering.render(overrides)
    return str(error.value)


@pytest.mark.parametrize(("overrides", "sentence"), SCHEMA)
def test_the_schema_refuses(overrides: dict[str, Any], sentence: str) -> None:
    assert refusal(overrides) == sentence


@pytest.mark.parametrize(
    "overrides",
    [
        {"release": {"others": {"pipeline": [1, 2]}}},
        {"resources": {"cpu": "0.5"}},
        {"extraEnv": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]},
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.0.3.0/24"]}}]}},
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "2001:db8::/32"}}]}},
        {"networkPolicy": {"clients": [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}},
        {"networkPolicy": {"extraEgress": [{"ports": [{"protocol": "TCP", "port": 443}]}]}},
        {"tolerations": [{"operator": "Exists"}]},
        {"gpu": {"resourceName": "nvidia.com/mig-1g.10gb.me"}},
        client(ipBlock={"cidr": "2001:db8::/32", "except": ["2001:db8:1::/48"]}),
        selecting("a.b/c", "Exists", values=[]),
        egress({"port": 8000, "endPort": 9000}, {"port": "https"}, {"protocol": "UDP"}),
        variable(fieldRef={"fieldPath": "metadata.labels['app.kubernetes.io/name']", "apiVersion": "v1"}),
        variable(resourceFieldRef={"resource": "limits.memory", "divisor": "1Mi"}),
        {"server": {"extraArgs": ["--log-verbose=1"]}},
        {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws-cn:iam::123456789012:role/a/triton"}}},
    ],
    ids=str,
)
def test_what_is_right_is_rendered(overrides: dict[str, Any]) -> None:
    assert "Deployment" in rendering.kinds(rendering.render(overrides))


def test_all_schema_errors_are_reported_at_once() -> None:
    overrides = {"gpu": {"count": 0.5}, "replicas": 1, "shm": {"size": "2G"}}
    assert refusal(overrides).splitlines() == [
        "gpu.count: got number, want integer",
        "shm.size: '2G' does not match pattern '^[1-9][0-9]{0,9}(Mi|Gi)$'",
        "values: additional properties 'replicas' not allowed",
    ]


def test_all_missing_values_are_named_at_once() -> None:
    with pytest.raises(HelmError) as error:
        helm.render(rendering.CHART, name="triton", namespace="triton", values={})
    assert [line.partition(":")[0] for line in str(error.value).splitlines()] == [
        "image.digest",
        "modelRepository.s3.bucket",
        "modelRepository.s3.prefix",
        "modelRepository.s3.region",
        "release.bytes",
        "release.models",
        "resources.cpu",
        "resources.memory",
        "values",
    ]
