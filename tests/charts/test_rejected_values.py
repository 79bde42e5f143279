"""Bad values: each is refused with its path and a sentence, and all of them at once."""

from typing import Any

import pytest

from spec.triton_flags import FLAGS
from tests.charts import rendering
from tests.charts.rendering import IN_PLACE, RELEASE_ID
from twin.releases import helm
from twin.releases.helm import HelmError

SUBDOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
"""A name of an object of Kubernetes, as Helm prints the pattern of one."""


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
        "image.digest: 'sha256:abc' does not match pattern '^(sha256:[0-9a-f]{64})?$'",
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
    ({"resources": {"memory": "12G"}}, "resources.memory: '12G' does not match pattern '^([1-9][0-9]{0,9}(Mi|Gi))?$'"),
    (
        {"resources": {"limits": {"memory": "12Gi"}}},
        "resources: additional properties 'limits' not allowed",
    ),
    ({"shm": {"size": "1.5Gi"}}, "shm.size: '1.5Gi' does not match pattern '^[1-9][0-9]{0,9}(Mi|Gi)$'"),
    (
        {"release": {"id": "v1.2"}},
        "release.id: 'v1.2' does not match pattern '^([0-9a-f]{64})?$'",
    ),
    ({"release": {"bytes": -1}}, "release.bytes: minimum: got -1, want 0"),
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
        "'^([1-9][0-9]{0,6}m?|[1-9][0-9]{0,3}\\\\.[0-9]{1,3}|0\\\\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))?$'",
    ),
    (
        {"resources": {"cpu": "0m"}},
        "resources.cpu: '0m' does not match pattern "
        "'^([1-9][0-9]{0,6}m?|[1-9][0-9]{0,3}\\\\.[0-9]{1,3}|0\\\\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))?$'",
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
    ({"server": None}, "values: missing property 'server'"),
    ({"networkPolicy": {"clients": None}}, "networkPolicy: missing property 'clients'"),
    ({"drain": {"preStopSeconds": None}}, "drain: missing property 'preStopSeconds'"),
]

CONTRADICTIONS = [
    (
        {"server": {"extraArgs": ["--log-verbose=1", "--log-verbose=2"]}},
        "server.extraArgs: --log-verbose is there twice; give it once",
    ),
    (
        {"server": {"extraArgs": ["--http-thread-count"]}},
        "server.extraArgs: --http-thread-count has no value; write --http-thread-count=<value>",
    ),
    (
        {"server": {"extraArgs": ["--pinned-memory-pool-byte-size=1G"]}},
        "server.extraArgs: --pinned-memory-pool-byte-size: '1G' is not a whole number; give digits only",
    ),
    (
        {"server": {"extraArgs": ["--log-info=maybe"]}},
        "server.extraArgs: --log-info: 'maybe' is no truth value; give true or false",
    ),
    (
        client(ipBlock={"cidr": "10.0.0.0/16", "except": ["10.1.0.0/24"]}),
        "networkPolicy.clients[0].ipBlock.except[0]: 10.1.0.0/24 is no part of 10.0.0.0/16; give a smaller range inside it",
    ),
    (
        client(ipBlock={"cidr": "10.0.0.0/16", "except": ["10.0.0.0/16"]}),
        "networkPolicy.clients[0].ipBlock.except[0]: 10.0.0.0/16 is no part of 10.0.0.0/16; give a smaller range inside it",
    ),
    (
        client(ipBlock={"cidr": "10.0.0.0/16", "except": ["10.0.256.0/24"]}),
        "networkPolicy.clients[0].ipBlock.except[0]: 10.0.256.0/24 is not a range of addresses, like 10.0.1.0/24",
    ),
    (
        client(ipBlock={"cidr": "::1::2/64"}),
        "networkPolicy.clients[0].ipBlock.cidr: ::1::2/64 is not a range of addresses, like 10.0.0.0/16",
    ),
    (
        client(ipBlock={"cidr": "10.0.0.0/16"}, podSelector={}),
        "networkPolicy.clients[0].ipBlock.cidr: Kubernetes takes no podSelector beside an ipBlock; make two peers of it",
    ),
    (
        {"networkPolicy": {"extraEgress": [{"to": [{"ipBlock": {"cidr": "300.0.0.0/8"}}]}]}},
        "networkPolicy.extraEgress[0].to[0].ipBlock.cidr: 300.0.0.0/8 is not a range of addresses, like 10.0.0.0/16",
    ),
    (
        egress({"port": 100, "endPort": 90}),
        "networkPolicy.extraEgress[0].ports[0].endPort: is 90, less than port (100)",
    ),
    (
        {"modelRepository": {"s3": {"bucket": "192.168.1.1"}}},
        "modelRepository.s3.bucket: 192.168.1.1 is not the name of a bucket, in which no dot stands beside a dot or a "
        "hyphen, and which is no address",
    ),
    (
        {"modelRepository": {"s3": {"endpoint": "https://a..b"}}},
        "modelRepository.s3.endpoint: https://a..b is not http://host:port or https://host:port; "
        "bucket and path have their own values",
    ),
    (
        {"extraEnv": [{"name": "AWS_ROLE_ARN", "value": "x"}]},
        "extraEnv: AWS_ROLE_ARN would win over the role of the service account (serviceAccount.annotations)",
    ),
    (
        {"extraEnv": [{"name": "AWS_ENDPOINT_URL_S3", "value": "http://minio:9000"}]},
        "extraEnv: AWS_ENDPOINT_URL_S3 is given by modelRepository.s3.endpoint, which the NetworkPolicy knows too",
    ),
    (
        {"extraEnv": [{"name": "LD_AUDIT", "value": "x"}]},
        "extraEnv: LD_AUDIT decides what the server and its backends load; the image has its own",
    ),
    (
        {"autoscaling": {"owner": "external"}},
        "replicaCount: is 2, but autoscaling.owner is external; leave it out, each apply would reset the autoscaler",
    ),
    (
        {"replicaCount": None},
        "replicaCount: is missing; nobody else sets the number of pods while autoscaling.owner is none",
    ),
    (
        {"server": {"version": "26.06"}},
        "server.version: 26.06 is refused; NVIDIA's security bulletins name holes of servers before 26.07",
    ),
    (
        {"resources": {"nvidia.com/gpu": 1}},
        "resources.nvidia.com/gpu: GPUs are given once, by gpu.count and gpu.resourceName",
    ),
    (
        {"gpu": {"count": 2, "resourceName": "nvidia.com/gpu.shared"}},
        "gpu.count: is 2, but a pod can use one nvidia.com/gpu.shared only; more shares add no capacity",
    ),
    (
        {"shm": {"size": "12Gi"}},
        "shm.size: 12Gi of /dev/shm and 1Gi for the server (shm.memoryMargin) "
        "do not fit into resources.memory, which is 12Gi",
    ),
    (
        {"drain": {"longestBatchSeconds": 61}},
        "drain.longestBatchSeconds: is 61, more than drain.longestRequestSeconds (60); a batch is a part of its requests",
    ),
    (
        {"modelRepository": {"s3": {"endpoint": "http://minio:9000/models"}}},
        "modelRepository.s3.endpoint: http://minio:9000/models is not http://host:port or https://host:port; "
        "bucket and path have their own values",
    ),
    (
        {"modelRepository": {"s3": {"endpoint": "minio:9000"}}},
        "modelRepository.s3.endpoint: minio:9000 is not http://host:port or https://host:port; "
        "bucket and path have their own values",
    ),
    (
        {"modelRepository": {"s3": {"prefix": "releases/000000000000"}}},
        f"modelRepository.s3.prefix: releases/000000000000 does not end in release.id ({RELEASE_ID}); "
        "the pods would be labelled with a release that they do not serve",
    ),
    (
        {"rollout": {"mode": "in-place"}},
        f"modelRepository.s3.prefix: releases/{RELEASE_ID} is one release, but rollout.mode is in-place; "
        "give the prefix that rollouts write to, such as live",
    ),
    (
        {**IN_PLACE, "release": {"configName": "prod"}},
        "release.configName: is prod, but rollout.mode is in-place; leave it out, the rollout writes the config that a "
        "model is served with",
    ),
    (
        {"release": {"models": {}}},
        "release.models: is empty; a release without models would be ready and answer 404 to every request",
    ),
    (
        {"release": {"bytes": 0}},
        "release.bytes: is 0; give the size of the release, it sizes the startup probe and the cache volume",
    ),
    (
        {"serviceAccount": {"create": False}},
        "serviceAccount.name: is missing; name the existing service account, or set serviceAccount.create to true",
    ),
    (
        {"extraEnv": [{"name": "AWS_ACCESS_KEY_ID", "value": "AKIA"}]},
        "extraEnv: AWS_ACCESS_KEY_ID would win over the role of the service account; "
        "AWS is reached without static credentials",
    ),
    (
        {
            "modelRepository": {"s3": {"endpoint": "http://minio:9000"}},
            "extraEnv": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "s3cr3t"}],
        },
        "extraEnv: AWS_SECRET_ACCESS_KEY has its value in the clear; take it from a Secret (valueFrom)",
    ),
    ({"extraEnv": [{"name": "POD_IP", "value": "1.2.3.4"}]}, "extraEnv: POD_IP is set by the chart"),
    (
        {"extraEnv": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]},
        "extraEnv: CUDA_VISIBLE_DEVICES is decided by the device plugin; overriding it breaks the isolation of GPUs",
    ),
    ({"release": {"others": {"resnet51": [1]}}}, "release.others.resnet51: there is no such model in release.models"),
    (
        {"release": {"models": {"Pipeline": 1, "pipeline": 3}}},
        "release.models.pipeline: differs from Pipeline in upper and lower case only, and no release has both",
    ),
    (
        {"release": {"others": {"pipeline": [3]}}},
        "release.others.pipeline: 3 is not lower than 3, which answers requests that name no version",
    ),
    (
        {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "triton"}}},
        "serviceAccount.annotations.eks.amazonaws.com/role-arn: triton is not the ARN of an IAM role, like "
        "arn:aws:iam::123456789012:role/triton",
    ),
    (
        {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/triton/"}}},
        "serviceAccount.annotations.eks.amazonaws.com/role-arn: arn:aws:iam::123456789012:role/triton/ is not"
        " the ARN of an IAM role, like arn:aws:iam::123456789012:role/triton",
    ),
    ({"extraEnv": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "extraEnv: A is there twice; give it once"),
    (
        {"extraEnv": [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        "extraEnv: A has a value and valueFrom; give one of them",
    ),
    (
        {"extraEnv": [{"name": "LD_LIBRARY_PATH", "value": "/opt"}]},
        "extraEnv: LD_LIBRARY_PATH decides what the server and its backends load; the image has its own",
    ),
    (
        {"extraEnv": [{"name": "LD_PRELOAD", "value": "/opt/x.so"}]},
        "extraEnv: LD_PRELOAD decides what the server and its backends load; the image has its own",
    ),
    (
        {"extraEnv": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
        "extraEnv: NVIDIA_VISIBLE_DEVICES is decided by the device plugin; overriding it breaks the isolation of GPUs",
    ),
    (
        {"readiness": {"periodSeconds": 5, "timeoutSeconds": 6}},
        "readiness.timeoutSeconds: is 6, more than readiness.periodSeconds (5); probes would overtake each other",
    ),
    (
        {"liveness": {"periodSeconds": 10, "timeoutSeconds": 11}},
        "liveness.timeoutSeconds: is 11, more than liveness.periodSeconds (10); probes would overtake each other",
    ),
    (
        {"server": {"extraArgs": ["--log-vebose=1"]}},
        "server.extraArgs: tritonserver has no flag --log-vebose, or none that is not deprecated, and would "
        "not start; see tritonserver --help",
    ),
    (
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}},
        "networkPolicy.clients[0].ipBlock.cidr: 0.0.0.0/0 is the world, and nobody is asked who they are; "
        "give a range of /8 or narrower",
    ),
    (
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/99"}}]}},
        "networkPolicy.clients[0].ipBlock.cidr: 10.0.0.0/99 is not a range of addresses, like 10.0.0.0/16",
    ),
    (
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.300/24"}}]}},
        "networkPolicy.clients[0].ipBlock.cidr: 10.0.0.300/24 is not a range of addresses, like 10.0.0.0/16",
    ),
    (
        {"networkPolicy": {"monitoring": [{"ipBlock": {"cidr": "::/0"}}]}},
        "networkPolicy.monitoring[0].ipBlock.cidr: ::/0 is the world, and nobody is asked who they are; "
        "give a range of /8 or narrower",
    ),
    (
        {"networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/16"}, "podSelector": {"matchLabels": {"a": "b"}}}]}},
        "networkPolicy.clients[0].ipBlock.cidr: Kubernetes takes no podSelector beside an ipBlock; make two peers of it",
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "tolerations[0].value: operator Exists takes none; leave it out, or use Equal",
    ),
    (
        {"tolerations": [{"operator": "Equal", "value": "b"}]},
        "tolerations[0].key: is missing; only operator Exists may do without it",
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]},
        "tolerations[0].tolerationSeconds: is for effect NoExecute; leave it out",
    ),
    (
        {"image": {"repository": "mirror.example.com:99999/tritonserver"}},
        "image.repository: 99999 is no port, which is 1 to 65535",
    ),
    (
        {"modelRepository": {"s3": {"endpoint": "http://minio:99999"}}},
        "modelRepository.s3.endpoint: 99999 is no port, which is 1 to 65535",
    ),
    (
        {"tracing": {"endpoint": "http://collector:70000/v1/traces"}},
        "tracing.endpoint: 70000 is no port, which is 1 to 65535",
    ),
]

OWNED_FLAGS = [
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


FLAG_LINES = (rendering.CHART / "flags.txt").read_text().splitlines()
NO_NUMBER, NO_TRUTH = "'x' is not a whole number; give digits only", "'x' is no truth value; give true or false"


def told(flag: str, value: str) -> str | None:
    """Return what the table of flags says of a value."""
    check = FLAGS[flag].value
    return check(value) if check is not None else None


def refusal(overrides: dict[str, Any]) -> str:
    with pytest.raises(HelmError) as error:
        rendering.render(overrides)
    return str(error.value)


@pytest.mark.parametrize(("overrides", "sentence"), SCHEMA)
def test_the_schema_refuses(overrides: dict[str, Any], sentence: str) -> None:
    assert refusal(overrides) == sentence


@pytest.mark.parametrize(("overrides", "sentence"), CONTRADICTIONS)
def test_a_contradiction_is_explained(overrides: dict[str, Any], sentence: str) -> None:
    assert refusal(overrides) == sentence


@pytest.mark.parametrize("flag", OWNED_FLAGS)
def test_a_flag_of_the_charts_own_is_refused_as_an_extra(flag: str) -> None:
    assert refusal({"server": {"extraArgs": [flag]}}) == (
        f"server.extraArgs: {flag} is set by the chart or would undo what the chart relies on; use the values of the chart"
    )


def test_the_chart_knows_what_each_flag_takes() -> None:
    numbers = [name for name in FLAGS if FLAGS[name].value is not None and told(name, "x") == NO_NUMBER]
    truths = [name for name in FLAGS if FLAGS[name].value is not None and told(name, "x") == NO_TRUTH]
    for line in FLAG_LINES:
        name, kind, *repeatable = line.split()
        assert kind == ("whole" if name in numbers else "truth" if name in truths else "text"), name
        assert repeatable == (["repeatable"] if FLAGS[name].repeatable else []), name


def test_the_flags_that_are_taken_are_those_of_the_server_but_for_the_charts_own() -> None:
    taken = [line.split()[0] for line in FLAG_LINES]
    known = {name for name, flag in FLAGS.items() if flag.instead is None}
    assert set(taken) <= known
    own = sorted(known - set(taken))
    assert refusal({"server": {"extraArgs": [f"{name}=1" for name in own]}}).splitlines() == [
        f"server.extraArgs: {name}=1 is set by the chart or would undo what the chart relies on; use the values of the chart"
        for name in own
    ]


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
        "release.id",
        "release.models",
        "release.bytes",
        "resources.cpu",
        "resources.memory",
        "replicaCount",
    ]


def test_all_contradictions_are_reported_at_once() -> None:
    overrides = {"drain": {"longestBatchSeconds": 61}, "server": {"version": "25.12"}}
    assert [line.partition(":")[0] for line in refusal(overrides).splitlines()] == [
        "server.version",
        "drain.longestBatchSeconds",
    ]
