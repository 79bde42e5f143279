"""Cases of policies about pods."""

from tests.policies.case import ABSENT, Case, fail, made
from triton_policies.pods import DEPLOYMENT
from triton_policies.workloads import CLUSTER_ROLE, NAMESPACE, NETWORK_POLICY

_IMAGE = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/worker@sha256:{'a' * 64}"
_POD = {
    "automountServiceAccountToken": False,
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "volumes": [{"name": "tmp", "emptyDir": {}}],
    "containers": [
        {
            "name": "worker",
            "image": _IMAGE,
            "env": [{"name": "LEVEL", "value": "info"}, {"name": "API_TOKEN", "valueFrom": {"secretKeyRef": {"name": "t"}}}],
            "resources": {
                "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
                "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"},
            },
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}
_DEPLOYMENT = {
    "metadata": {"name": "worker", "namespace": "triton-worker"},
    "spec": {"template": {"metadata": {"labels": {"app": "worker"}}, "spec": _POD}},
}
_SPEC = "spec.template.spec"
_CONTAINER = f"{_SPEC}.containers[0]"

CASES = (
    Case(
        policy="pod-privileges",
        type=DEPLOYMENT,
        passes=_DEPLOYMENT,
        fails=(
            fail(
                {f"{_SPEC}.hostNetwork": True},
                ("it: spec.template.spec.hostNetwork: is true: the pod sees the node's network. Fix: leave hostNetwork out"),
            ),
            fail(
                {f"{_SPEC}.hostPID": True},
                ("it: spec.template.spec.hostPID: is true: the pod sees the node's processes. Fix: leave hostPID out"),
            ),
            fail(
                {f"{_SPEC}.hostIPC": True},
                ("it: spec.template.spec.hostIPC: is true: the pod sees the node's shared memory. Fix: leave hostIPC out"),
            ),
            fail(
                {f"{_SPEC}.volumes[0]": {"name": "root", "hostPath": {"path": "/"}}},
                (
                    "it: spec.template.spec.volumes[0].hostPath: is set: the pod reads and writes the node's files. "
                    "Fix: use an emptyDir"
                ),
            ),
            fail(
                {f"{_CONTAINER}.securityContext.privileged": True},
                (
                    "it: spec.template.spec.containers[0].securityContext.privileged: is true: the pod is the node. "
                    "Fix: leave it out"
                ),
            ),
            fail(
                {f"{_CONTAINER}.securityContext.allowPrivilegeEscalation": ABSENT},
                (
                    "it: spec.template.spec.containers[0].securityContext.allowPrivilegeEscalation: is not set: a "
                    "program in it may become root. "
                    "Fix: set it to false"
                ),
            ),
            fail(
                {f"{_CONTAINER}.securityContext.runAsNonRoot": False},
                (
                    "it: spec.template.spec.containers[0].securityContext.runAsNonRoot: is false: programs run as "
                    "root. "
                    "Fix: set it to true"
                ),
            ),
            fail(
                {f"{_CONTAINER}.securityContext.capabilities": ABSENT},
                (
                    "it: spec.template.spec.containers[0].securityContext.capabilities.drop: is not set: "
                    "capabilities of root are left. "
                    "Fix: set it to [ALL]"
                ),
            ),
            fail(
                {f"{_CONTAINER}.securityContext.capabilities.add": ["SYS_ADMIN"]},
                (
                    "it: spec.template.spec.containers[0].securityContext.capabilities.add: is SYS_ADMIN: no "
                    "workload of ours needs them. "
                    "Fix: leave it out"
                ),
            ),
            fail(
                {f"{_SPEC}.securityContext.seccompProfile": ABSENT},
                (
                    "it: spec.template.spec.securityContext.seccompProfile.type: is not set: every system call is "
                    "open. "
                    "Fix: set it to RuntimeDefault"
                ),
            ),
        ),
        unknown=f"{_SPEC}.hostNetwork",
    ),
    Case(
        policy="pod-privileges",
        type="kubernetes:batch/v1:CronJob",
        passes={"spec": {"jobTemplate": {"spec": {"template": {"spec": _POD}}}}},
        fails=(
            fail(
                {"spec.jobTemplate.spec.template.spec.hostPID": True},
                (
                    "it: spec.jobTemplate.spec.template.spec.hostPID: is true: the pod sees the node's processes. "
                    "Fix: leave hostPID out"
                ),
            ),
        ),
        unknown="spec.jobTemplate.spec.template.spec.containers",
    ),
    Case(
        policy="pod-resources",
        type=DEPLOYMENT,
        passes=_DEPLOYMENT,
        fails=(
            fail(
                {f"{_CONTAINER}.resources.requests.cpu": ABSENT},
                (
                    "it: spec.template.spec.containers[0].resources.requests.cpu: is not set: the scheduler counts "
                    "the pod as nothing. "
                    "Fix: set resources.requests.cpu"
                ),
            ),
            fail(
                {f"{_CONTAINER}.resources": ABSENT},
                (
                    "it: spec.template.spec.containers[0].resources.requests.cpu: is not set: the scheduler counts "
                    "the pod as nothing. "
                    "Fix: set resources.requests.cpu"
                ),
                (
                    "it: spec.template.spec.containers[0].resources.requests.memory: is not set: the scheduler "
                    "counts the pod as nothing. "
                    "Fix: set resources.requests.memory"
                ),
                (
                    "it: spec.template.spec.containers[0].resources.limits.memory: is not set: one leak ends other "
                    "pods of the node. "
                    "Fix: set resources.limits.memory"
                ),
            ),
        ),
        unknown=f"{_CONTAINER}.resources",
    ),
    Case(
        policy="pod-images",
        type=DEPLOYMENT,
        passes=_DEPLOYMENT,
        fails=(
            fail(
                {f"{_CONTAINER}.image": f"docker.io/library/redis@sha256:{'a' * 64}"},
                (
                    "it: spec.template.spec.containers[0].image: is of docker.io, which is not among "
                    "*.dkr.ecr.*.amazonaws.com, *.dkr.ecr.*.amazonaws.com.cn. "
                    "Fix: mirror it"
                ),
            ),
            fail(
                {f"{_CONTAINER}.image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/worker:1.2"},
                (
                    "it: spec.template.spec.containers[0].image: is "
                    "123456789012.dkr.ecr.us-west-2.amazonaws.com/worker:1.2, without a digest: what runs may "
                    "change. "
                    "Fix: name its digest (@sha256:…)"
                ),
            ),
            fail(
                {f"{_CONTAINER}.image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/worker:latest"},
                (
                    "it: spec.template.spec.containers[0].image: is "
                    "123456789012.dkr.ecr.us-west-2.amazonaws.com/worker:latest, without a version: what runs may "
                    "change. "
                    "Fix: name a version or a digest"
                ),
                environment="dev",
            ),
            fail(
                {f"{_CONTAINER}.image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/worker"},
                (
                    "it: spec.template.spec.containers[0].image: is "
                    "123456789012.dkr.ecr.us-west-2.amazonaws.com/worker, without a version: what runs may change. "
                    "Fix: name a version or a digest"
                ),
                environment="dev",
            ),
        ),
        unknown=f"{_CONTAINER}.image",
    ),
    Case(
        policy="pod-images",
        type=DEPLOYMENT,
        passes={
            "spec": {"template": {"spec": {"containers": [{"image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/a:1.2"}]}}}
        },
        fails=(),
        unknown=None,
        environment="dev",
    ),
    Case(
        policy="pod-images",
        type=DEPLOYMENT,
        passes={
            "spec": {"template": {"spec": {"containers": [{"image": f"nvcr.io/nvidia/tritonserver@sha256:{'a' * 64}"}]}}}
        },
        fails=(),
        unknown=None,
        environment="dev",
    ),
    Case(
        policy="pod-gpu-toleration",
        type=DEPLOYMENT,
        passes=_DEPLOYMENT,
        fails=(
            fail(
                {f"{_SPEC}.tolerations": []},
                (
                    "it: spec.template.spec.tolerations: has no nvidia.com/gpu: the pod asks for a GPU and no GPU "
                    "node takes it. "
                    "Fix: tolerate nvidia.com/gpu=present:NoSchedule"
                ),
            ),
            fail(
                {(*["spec", "template", "spec", "containers"], 0, "resources", "requests", "nvidia.com/gpu"): "2"},
                (
                    'it: spec.template.spec.containers[0].resources.requests["nvidia.com/gpu"]: is 2, the limit 1: '
                    "Kubernetes refuses the pod. "
                    "Fix: make them equal"
                ),
            ),
        ),
        unknown=f"{_SPEC}.tolerations",
    ),
    Case(
        policy="pod-no-plain-secrets",
        type=DEPLOYMENT,
        passes=_DEPLOYMENT,
        fails=(
            fail(
                {f"{_CONTAINER}.env[0]": {"name": "DB_PASSWORD", "value": "hunter2"}},
                (
                    "it: spec.template.spec.containers[0].env[0]: DB_PASSWORD has its value in the text: whoever "
                    "may read the object knows it. "
                    "Fix: read it from a mounted Secret, or take a role"
                ),
            ),
            fail(
                {f"{_CONTAINER}.env[0]": {"name": "AWS_SECRET_ACCESS_KEY", "value": "abc"}},
                (
                    "it: spec.template.spec.containers[0].env[0]: AWS_SECRET_ACCESS_KEY has its value in the text: "
                    "whoever may read the object knows it. "
                    "Fix: read it from a mounted Secret, or take a role"
                ),
            ),
        ),
        unknown=f"{_CONTAINER}.env",
    ),
    Case(
        policy="pod-no-plain-secrets",
        type=DEPLOYMENT,
        passes={"spec": {"template": {"spec": {"containers": [{"env": [{"name": "ADMIN_TOKEN", "value": "$(POD_UID)"}]}]}}}},
        fails=(),
        unknown=(*["spec", "template", "spec", "containers"], 0, "env", 0, "value"),
    ),
    Case(
        policy="pod-no-plain-secrets",
        type=DEPLOYMENT,
        # EKS's Pod Identity agent: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
        passes={
            "spec": {
                "template": {
                    "spec": {
                        "containers": [
                            {
                                "env": [
                                    {
                                        "name": "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "value": "http://169.254.170.23/v1/credentials",
                                    }
                                ]
                            }
                        ]
                    }
                }
            }
        },
        fails=(
            fail(
                {f"{_CONTAINER}.env[0].value": "http://169.254.170.23/v1/credentials?token=abc"},
                (
                    "it: spec.template.spec.containers[0].env[0]: AWS_CONTAINER_CREDENTIALS_FULL_URI has its value in the "
                    "text: whoever may read the object knows it. "
                    "Fix: read it from a mounted Secret, or take a role"
                ),
            ),
        ),
        unknown=f"{_CONTAINER}.env",
    ),
    *(
        Case(
            policy="pod-no-plain-secrets",
            type=DEPLOYMENT,
            passes={"spec": {"template": {"spec": {"containers": [{"env": [{"name": name, "value": "x"}]}]}}}},
            fails=(),
            unknown=None,
        )
        # The token counts of language models, and the place of a secret.
        for name in ("MAX_TOKENS", "TOKENIZERS_PARALLELISM", "AWS_WEB_IDENTITY_TOKEN_FILE", "DB_SECRET_ARN")
    ),
    Case(
        policy="pod-no-api-token",
        type=DEPLOYMENT,
        passes=_DEPLOYMENT,
        fails=(
            fail(
                {f"{_SPEC}.automountServiceAccountToken": ABSENT},
                (
                    "it: spec.template.spec.automountServiceAccountToken: is not set: the pod gets a token of the "
                    "Kubernetes API. "
                    "Fix: set automountServiceAccountToken to false, or put the workload into `apiClients` of this policy"
                ),
            ),
        ),
        unknown=f"{_SPEC}.automountServiceAccountToken",
    ),
    Case(
        policy="pod-no-api-token",
        type=DEPLOYMENT,
        passes={
            "metadata": {"name": "triton-parity"},
            "spec": {"template": {"spec": {"automountServiceAccountToken": True}}},
        },
        fails=(),
        unknown=None,
    ),
    Case(
        policy="pod-namespace",
        type=DEPLOYMENT,
        passes=_DEPLOYMENT,
        fails=(
            fail(
                {"metadata.namespace": ABSENT},
                ("it: metadata.namespace: is default: nothing bounds what is there. Fix: give it a namespace"),
            ),
            fail(
                {"metadata.namespace": "default"},
                ("it: metadata.namespace: is default: nothing bounds what is there. Fix: give it a namespace"),
            ),
        ),
        unknown="metadata.namespace",
    ),
    Case(
        policy="namespace-pod-security",
        type=NAMESPACE,
        passes={"metadata": {"name": "triton", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
        fails=(
            fail(
                {"metadata.labels": ABSENT},
                (
                    'it: metadata.labels["pod-security.kubernetes.io/enforce"]: is not set: any pod may do anything '
                    "in it. "
                    "Fix: label it pod-security.kubernetes.io/enforce=restricted"
                ),
            ),
            fail(
                {("metadata", "labels", "pod-security.kubernetes.io/enforce"): "privileged"},
                (
                    'it: metadata.labels["pod-security.kubernetes.io/enforce"]: is privileged; only '
                    "nvidia-device-plugin, monitoring, logging may. "
                    "Fix: label it pod-security.kubernetes.io/enforce=restricted"
                ),
            ),
        ),
        unknown="metadata.labels",
    ),
    Case(
        policy="namespace-pod-security",
        type=NAMESPACE,
        passes={"metadata": {"name": "monitoring", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
        fails=(),
        unknown=None,
    ),
    Case(
        policy="rbac-no-cluster-secrets",
        type=CLUSTER_ROLE,
        passes={
            "rules": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
                {"apiGroups": ["keda.sh"], "resources": ["*"], "verbs": ["get"]},
            ]
        },
        fails=tuple(
            fail(
                {"rules[1]": {"apiGroups": [group], "resources": [resource], "verbs": [verb]}},
                f"it: rules[1]: reads {resource} of every namespace, and so every Secret. "
                "Fix: use a Role in the namespace that has them",
            )
            for group, resource, verb in (
                ("", "secrets", "list"),
                ("*", "*", "get"),
                ("", "*", "watch"),
                ("", "secrets", "*"),
            )
        ),
        unknown="rules[0].resources",
    ),
    Case(
        policy="rbac-no-cluster-secrets",
        type=CLUSTER_ROLE,
        passes={"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete"]}]},
        fails=(),
        unknown=None,
    ),
    Case(
        policy="pod-network-policy",
        type="",
        passes=(
            made(DEPLOYMENT, "worker", _DEPLOYMENT),
            made(
                NETWORK_POLICY,
                "rules",
                {"metadata": {"namespace": "triton-worker"}, "spec": {"podSelector": {"matchLabels": {"app": "worker"}}}},
            ),
        ),
        fails=(
            fail(
                {"rules": ABSENT},
                (
                    "worker: has no NetworkPolicy in triton-worker: every pod of the cluster reaches it, and it "
                    "reaches all. "
                    "Fix: make a NetworkPolicy that selects its pods"
                ),
            ),
            fail(
                {"rules": {"spec.podSelector.matchLabels.app": "another"}},
                (
                    "worker: has no NetworkPolicy in triton-worker: every pod of the cluster reaches it, and it "
                    "reaches all. "
                    "Fix: make a NetworkPolicy that selects its pods"
                ),
            ),
            fail(
                {"worker": {"spec.template.metadata": ABSENT}},
                (
                    "worker: has no NetworkPolicy in triton-worker: every pod of the cluster reaches it, and it "
                    "reaches all. "
                    "Fix: make a NetworkPolicy that selects its pods"
                ),
            ),
            *(
                fail(
                    {"rules": {"spec.podSelector": {"matchExpressions": [{"key": "app", **expression}]}}},
                    (
                        "worker: has no NetworkPolicy in triton-worker: every pod of the cluster reaches it, and it "
                        "reaches all. "
                        "Fix: make a NetworkPolicy that selects its pods"
                    ),
                )
                for expression in (
                    {"operator": "In", "values": ["another"]},
                    {"operator": "NotIn", "values": ["worker"]},
                    {"operator": "DoesNotExist"},
                )
            ),
            fail(
                {"rules": {"metadata.namespace": "another"}},
                (
                    "worker: has no NetworkPolicy in triton-worker: every pod of the cluster reaches it, and it "
                    "reaches all. "
                    "Fix: make a NetworkPolicy that selects its pods"
                ),
            ),
        ),
        unknown=("rules", "spec.podSelector"),
    ),
)
