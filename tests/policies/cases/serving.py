"""Cases of policies about Triton and its autoscaling."""

from dataclasses import replace

from tests.policies.case import ABSENT, Case, changed, fail, made
from triton_policies.pods import DEPLOYMENT
from triton_policies.serving import DISRUPTION_BUDGET, HPA, MONITORS, SCALED_OBJECT

_SPEC = "spec.template.spec"
_CONTAINER = f"{_SPEC}.containers[0]"
_OPENAI = "/opt/tritonserver/python/openai/openai_frontend/main.py"
_REPOSITORY, _MODE, _EXIT = 0, 1, 2
_TRITON = {
    "metadata": {"name": "triton", "namespace": "triton"},
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "triton"}},
            "spec": {
                "terminationGracePeriodSeconds": 100,
                "topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname"}],
                "containers": [
                    {
                        "command": ["tritonserver"],
                        "image": "registry/nvidia/tritonserver:26.07-py3",
                        "args": [
                            "--model-repository=s3://triton-models-prod-1/releases/9e0e34d8d342",
                            "--model-control-mode=none",
                            "--exit-timeout-secs=65",
                        ],
                        "lifecycle": {"preStop": {"sleep": {"seconds": 30}}},
                        "startupProbe": {"httpGet": {}},
                        "readinessProbe": {"httpGet": {}},
                        "livenessProbe": {"httpGet": {}},
                        "ports": [{"containerPort": 8000}, {"containerPort": 8002}],
                    }
                ],
            },
        }
    },
}
_SIGNERS = [{"name": "MODEL_SIGNERS", "value": "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"}]
_SIGNED = changed(
    _TRITON,
    {
        f"{_CONTAINER}.args[{_REPOSITORY}]": "--model-repository=/models/current",
        f"{_SPEC}.initContainers": [
            {"args": ["follow", "--once"], "env": _SIGNERS},
            {"args": ["follow"], "env": [{"name": "HOME", "value": "/tmp"}, *_SIGNERS]},
        ],
    },
)
_HOLDS_THE_IMAGE = {
    "spec": {
        "template": {"spec": {"containers": [{"command": ["sleep"], "image": "registry/nvidia/tritonserver:26.07-py3"}]}}
    }
}
_SCALER = {
    "metadata": {"name": "triton", "namespace": "triton"},
    "spec": {
        "scaleTargetRef": {"name": "triton"},
        "minReplicaCount": 3,
        "maxReplicaCount": 8,
        "triggers": [{"type": "prometheus"}],
        "fallback": {"failureThreshold": 4, "replicas": 3},
    },
}
_HPA = {
    "metadata": {"name": "triton", "namespace": "triton"},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "triton"}, "minReplicas": 2, "maxReplicas": 4},
}
_BUDGET = {"metadata": {"namespace": "triton"}, "spec": {"selector": {"matchLabels": {"app": "triton"}}}}
_MONITOR = {
    "metadata": {"namespace": "monitoring"},
    "spec": {"namespaceSelector": {"matchNames": ["triton"]}, "selector": {"matchLabels": {"app": "triton"}}},
}
_SERVICE = {
    "metadata": {"annotations": {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"}},
    "spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"]},
}

CASES = (
    Case(
        policy="triton-probes",
        type=DEPLOYMENT,
        passes=_TRITON,
        fails=(
            fail(
                {f"{_CONTAINER}.startupProbe": ABSENT},
                (
                    "it: spec.template.spec.containers[0].startupProbe: is not set: a model that loads for minutes "
                    "is killed for it. "
                    "Fix: set startupProbe"
                ),
            ),
            fail(
                {f"{_CONTAINER}.readinessProbe": ABSENT},
                (
                    "it: spec.template.spec.containers[0].readinessProbe: is not set: requests come before the "
                    "models are there. "
                    "Fix: set readinessProbe"
                ),
            ),
            fail(
                {f"{_CONTAINER}.livenessProbe": ABSENT},
                (
                    "it: spec.template.spec.containers[0].livenessProbe: is not set: a server that hangs stays. "
                    "Fix: set livenessProbe"
                ),
            ),
            fail(
                {f"{_CONTAINER}.ports[1]": ABSENT},
                (
                    "it: spec.template.spec.containers[0].ports: has no 8002: nobody sees its metrics. "
                    "Fix: name the metrics port"
                ),
            ),
            # Without a command, the image's own command runs.
            fail(
                {f"{_CONTAINER}.command": ABSENT, f"{_CONTAINER}.livenessProbe": ABSENT},
                (
                    "it: spec.template.spec.containers[0].livenessProbe: is not set: a server that hangs stays. "
                    "Fix: set livenessProbe"
                ),
            ),
            fail(
                {f"{_CONTAINER}.command": ["python3", _OPENAI], f"{_CONTAINER}.livenessProbe": ABSENT},
                (
                    "it: spec.template.spec.containers[0].livenessProbe: is not set: a server that hangs stays. "
                    "Fix: set livenessProbe"
                ),
            ),
        ),
        unknown=f"{_CONTAINER}.command",
    ),
    Case(policy="triton-probes", type=DEPLOYMENT, passes=_HOLDS_THE_IMAGE, fails=(), unknown=None),
    Case(
        policy="triton-drain",
        type=DEPLOYMENT,
        passes=_TRITON,
        fails=(
            fail(
                {f"{_SPEC}.terminationGracePeriodSeconds": 60},
                (
                    "it: spec.template.spec.terminationGracePeriodSeconds: is 60, less than preStop 30 + "
                    "--exit-timeout-secs 65: requests are cut off at every rollout. "
                    "Fix: raise terminationGracePeriodSeconds"
                ),
            ),
            fail(
                {f"{_SPEC}.terminationGracePeriodSeconds": ABSENT},
                (
                    "it: spec.template.spec.terminationGracePeriodSeconds: is 30, less than preStop 30 + "
                    "--exit-timeout-secs 65: requests are cut off at every rollout. "
                    "Fix: raise terminationGracePeriodSeconds"
                ),
            ),
        ),
        unknown=f"{_SPEC}.terminationGracePeriodSeconds",
    ),
    Case(
        policy="triton-release",
        type=DEPLOYMENT,
        passes=_TRITON,
        fails=(
            fail(
                {f"{_CONTAINER}.args[{_MODE}]": "--model-control-mode=poll"},
                (
                    "it: spec.template.spec.containers[0].args[1]: is poll: the server loads half-uploaded models, "
                    "and lists the bucket for ever. "
                    "Fix: use none or explicit"
                ),
            ),
            fail(
                {f"{_CONTAINER}.args[{_MODE}]": ABSENT},
                (
                    "it: spec.template.spec.containers[0].args: has no --model-control-mode: what the server loads "
                    "is its default's choice. "
                    "Fix: use none or explicit"
                ),
            ),
            fail(
                {f"{_CONTAINER}.args[{_REPOSITORY}]": "--model-repository=s3://triton-models-prod-1/models"},
                (
                    "it: spec.template.spec.containers[0].args[0]: reads s3://triton-models-prod-1/models: what is "
                    "served changes with every upload. "
                    "Fix: name a release, s3://bucket/releases/<id>"
                ),
            ),
            fail(
                {f"{_CONTAINER}.args[{_REPOSITORY}]": ABSENT},
                (
                    "it: spec.template.spec.containers[0].args: has no --model-repository: nothing is served. "
                    "Fix: name a release of the model bucket"
                ),
            ),
        ),
        unknown=f"{_CONTAINER}.args[{_REPOSITORY}]",
    ),
    Case(
        policy="release-signed",
        type=DEPLOYMENT,
        passes=_SIGNED,
        fails=(
            fail(
                {f"{_SPEC}.initContainers": ABSENT},
                (
                    "it: spec.template.spec.initContainers: verify no signature: the server reads the bucket as it is. "
                    "Fix: use models.access: local, and list who signs releases in models.signers"
                ),
            ),
            fail(
                {f"{_CONTAINER}.args[{_REPOSITORY}]": "--model-repository=s3://triton-models-prod-1/releases/9e0e34d8d342"},
                (
                    "it: spec.template.spec.initContainers: verify no signature: the server reads the bucket as it is. "
                    "Fix: use models.access: local, and list who signs releases in models.signers"
                ),
            ),
            *(
                fail(
                    {f"{_SPEC}.initContainers[1].env": env},
                    (
                        "it: spec.template.spec.initContainers[1].env: has no MODEL_SIGNERS: it brings releases that "
                        "nobody signed. "
                        "Fix: list who signs releases in models.signers, and sign with `modelctl release --sign`"
                    ),
                )
                for env in (ABSENT, [*_SIGNERS, {"name": "MODEL_SIGNERS", "value": ""}])
            ),
        ),
        unknown=f"{_SPEC}.initContainers[0].env",
    ),
    Case(
        policy="release-signed",
        type=DEPLOYMENT,
        passes=_HOLDS_THE_IMAGE,
        fails=(),
        unknown=None,
    ),
    Case(
        policy="release-signed",
        type=DEPLOYMENT,
        passes=_TRITON,
        fails=(),
        unknown=None,
        environment="staging",
    ),
    Case(
        policy="triton-disruption",
        type="",
        passes=(
            made(DEPLOYMENT, "server", _TRITON),
            made(SCALED_OBJECT, "scaler", _SCALER),
            made(DISRUPTION_BUDGET, "budget", _BUDGET),
        ),
        fails=(
            fail(
                {"budget": ABSENT},
                (
                    "server: has no PodDisruptionBudget: a drain may take all of its pods at once. "
                    "Fix: make a PodDisruptionBudget that selects its pods"
                ),
            ),
            fail(
                {"budget": {"spec.selector.matchLabels.app": "another"}},
                (
                    "server: has no PodDisruptionBudget: a drain may take all of its pods at once. "
                    "Fix: make a PodDisruptionBudget that selects its pods"
                ),
            ),
            fail(
                {"server": {f"{_SPEC}.topologySpreadConstraints": ABSENT}},
                (
                    "server: spec.template.spec.topologySpreadConstraints: is not set: all pods may be on one node "
                    "of one zone. "
                    "Fix: spread over zones and nodes"
                ),
            ),
        ),
        unknown=("scaler", "spec.maxReplicaCount"),
    ),
    Case(
        policy="release-signed",
        type=DEPLOYMENT,
        passes=_SIGNED,
        fails=(
            fail(
                {f"{_SPEC}.initContainers": ABSENT},
                (
                    "it: spec.template.spec.initContainers: verify no signature: the server reads the bucket as it is. "
                    "Fix: use models.access: local, and list who signs releases in models.signers"
                ),
            ),
            fail(
                {f"{_CONTAINER}.args[{_REPOSITORY}]": "--model-repository=s3://triton-models-prod-1/releases/9e0e34d8d342"},
                (
                    "it: spec.template.spec.initContainers: verify no signature: the server reads the bucket as it is. "
                    "Fix: use models.access: local, and list who signs releases in models.signers"
                ),
            ),
            *(
                fail(
                    {f"{_SPEC}.initContainers[1].env": env},
                    (
                        "it: spec.template.spec.initContainers[1].env: has no MODEL_SIGNERS: it brings releases that "
                        "nobody signed. "
                        "Fix: list who signs releases in models.signers, and sign with `modelctl release --sign`"
                    ),
                )
                for env in (ABSENT, [*_SIGNERS, {"name": "MODEL_SIGNERS", "value": ""}])
            ),
        ),
        unknown=f"{_SPEC}.initContainers[0].env",
    ),
    Case(
        policy="release-signed",
        type=DEPLOYMENT,
        passes=_HOLDS_THE_IMAGE,
        fails=(),
        unknown=None,
    ),
    Case(
        policy="release-signed",
        type=DEPLOYMENT,
        passes=_TRITON,
        fails=(),
        unknown=None,
        environment="staging",
    ),
    Case(
        policy="triton-disruption",
        type="",
        passes=(made(DEPLOYMENT, "one", {**_TRITON, "spec": {**_TRITON["spec"], "replicas": 1}}),),  # type: ignore[dict-item]
        fails=(),
        unknown=None,
    ),
    Case(
        policy="triton-scraped",
        type="",
        passes=(made(DEPLOYMENT, "server", _TRITON), made(MONITORS[0], "monitor", _MONITOR)),
        fails=(
            fail(
                {"monitor": ABSENT},
                (
                    "server: has no PodMonitor or ServiceMonitor: no alert will ever be about it. "
                    "Fix: make a PodMonitor that selects its pods"
                ),
            ),
            fail(
                {"monitor": {"spec.namespaceSelector.matchNames": ["another"]}},
                (
                    "server: has no PodMonitor or ServiceMonitor: no alert will ever be about it. "
                    "Fix: make a PodMonitor that selects its pods"
                ),
            ),
        ),
        unknown=("monitor", "spec.selector"),
    ),
    Case(
        policy="scaling-bounds",
        type=SCALED_OBJECT,
        passes=_SCALER,
        fails=(
            fail({"spec.maxReplicaCount": ABSENT}, "it: spec.maxReplicaCount: is not set: KEDA takes 100. Fix: set it"),
            fail(
                {"spec.maxReplicaCount": 100},
                ("it: spec.maxReplicaCount: is 100, more than 20. Fix: lower it, or raise `maxReplicas` of this policy"),
            ),
            fail(
                {"spec.minReplicaCount": 0},
                ("it: spec.minReplicaCount: is 0, less than 2: one pod less and customers wait. Fix: set it to 2 or more"),
            ),
            fail(
                {"spec.minReplicaCount": 1},
                ("it: spec.minReplicaCount: is 1, less than 2: one pod less and customers wait. Fix: set it to 2 or more"),
                environment="staging",
            ),
            fail(
                {"spec.minReplicaCount": 1, "spec.scaleTargetRef.name": "triton-green"},
                ("it: spec.minReplicaCount: is 1, less than 2: one pod less and customers wait. Fix: set it to 2 or more"),
            ),
        ),
        unknown="spec.maxReplicaCount",
    ),
    Case(
        policy="scaling-bounds",
        type=SCALED_OBJECT,
        passes={"spec": {"scaleTargetRef": {"name": "triton-worker"}, "minReplicaCount": 0, "maxReplicaCount": 10}},
        fails=(),
        unknown="spec.maxReplicaCount",
    ),
    Case(
        policy="scaling-bounds",
        type=HPA,
        passes=_HPA,
        fails=(
            fail(
                {"spec.maxReplicas": 30},
                ("it: spec.maxReplicas: is 30, more than 20. Fix: lower it, or raise `maxReplicas` of this policy"),
            ),
            fail(
                {"spec.minReplicas": 1},
                ("it: spec.minReplicas: is 1, less than 2: one pod less and customers wait. Fix: set it to 2 or more"),
            ),
        ),
        unknown="spec.minReplicas",
    ),
    Case(
        policy="scaling-signal",
        type=SCALED_OBJECT,
        passes=_SCALER,
        fails=(
            fail(
                {"spec.fallback": ABSENT},
                (
                    "it: spec.fallback: is not set: when Prometheus is down, nothing is scaled and nobody notices. "
                    "Fix: set it"
                ),
            ),
            fail(
                {"spec.triggers": [{"type": "cpu"}]},
                (
                    "it: spec.triggers[0].type: is cpu: a GPU server that is overloaded has an idle CPU. "
                    "Fix: scale by queue and busy instances"
                ),
            ),
        ),
        unknown="spec.triggers",
    ),
    Case(
        policy="scaling-one-owner",
        type="",
        passes=(made(DEPLOYMENT, "server", _TRITON), made(SCALED_OBJECT, "scaler", _SCALER)),
        fails=(
            fail(
                {"server": {"spec.replicas": 2}},
                ("server: spec.replicas: is set, and scaler scales it: every `up` undoes the scaling. Fix: leave it out"),
            ),
            fail(
                {"second": made(HPA, "second", _HPA)},
                ("server: is scaled by scaler, second: they undo each other's work. Fix: keep one of them"),
            ),
        ),
        unknown=("scaler", "spec.scaleTargetRef"),
    ),
    # A stack that has just got its autoscaler.
    Case(
        policy="scaling-one-owner",
        type="",
        passes=(
            replace(made(DEPLOYMENT, "server", changed(_TRITON, {"spec.replicas": 8})), ignored=("spec.replicas",)),
            made(SCALED_OBJECT, "scaler", _SCALER),
        ),
        fails=(),
        unknown=None,
    ),
    # A live object; the engine did not say which inputs the program registers.
    Case(
        policy="scaling-one-owner",
        type="",
        passes=(
            made(DEPLOYMENT, "server", changed(_TRITON, {"spec.replicas": 1, "metadata.uid": "5d0c"})),
            made(SCALED_OBJECT, "scaler", _SCALER),
        ),
        fails=(),
        unknown=None,
    ),
    Case(
        policy="service-not-public",
        type="kubernetes:core/v1:Service",
        passes=_SERVICE,
        fails=(
            fail({"spec.type": "NodePort"}, "it: spec.type: is NodePort: every node has the port open. Fix: use ClusterIP"),
            fail(
                {("metadata", "annotations", "service.beta.kubernetes.io/aws-load-balancer-scheme"): "internet-facing"},
                (
                    'it: metadata.annotations["service.beta.kubernetes.io/aws-load-balancer-scheme"]: is '
                    "internet-facing: the load balancer is on the internet. "
                    "Fix: set it to internal"
                ),
            ),
            fail(
                {"spec.loadBalancerSourceRanges": ABSENT},
                (
                    "it: spec.loadBalancerSourceRanges: is not set: every network that reaches the load balancer "
                    "may use it. "
                    "Fix: name those that may"
                ),
            ),
        ),
        unknown="spec.type",
    ),
)
