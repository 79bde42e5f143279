"""Cases of policies about nodes with GPUs."""

from tests.policies.case import ABSENT, UNKNOWN, Case, fail, made
from triton_policies.nodes import NODE_GROUP, NODE_POOL, TEMPLATE

_GPU_GROUP = {
    "amiType": "AL2023_x86_64_NVIDIA",
    "instanceTypes": ["g5.xlarge"],
    "labels": {"nvidia.com/gpu.present": "true"},
    "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
    "scalingConfig": {"maxSize": 4},
    "releaseVersion": "1.35.6-20260728",
}
_GPU_POOL = {
    "spec": {
        "limits": {"nvidia.com/gpu": "9"},
        "disruption": {"budgets": [{"nodes": "1"}]},
        "template": {
            "metadata": {"labels": {"nvidia.com/gpu.present": "true"}},
            "spec": {
                "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.xlarge"]}],
            },
        },
    }
}

CASES = (
    Case(
        policy="ng-gpu-ami-matches",
        type=NODE_GROUP,
        passes=_GPU_GROUP,
        fails=(
            fail(
                {"amiType": "AL2023_x86_64_STANDARD"},
                (
                    "it: amiType: is AL2023_x86_64_STANDARD, which has no driver for the GPU of g5.xlarge. "
                    "Fix: set it to AL2023_x86_64_NVIDIA for GPU types, to AL2023_x86_64_STANDARD for the others"
                ),
            ),
            fail(
                {"instanceTypes[0]": "m7i.large"},
                (
                    "it: amiType: is AL2023_x86_64_NVIDIA, and m7i.large has no NVIDIA GPU. "
                    "Fix: set it to AL2023_x86_64_NVIDIA for GPU types, to AL2023_x86_64_STANDARD for the others"
                ),
            ),
        ),
        unknown="amiType",
    ),
    Case(
        policy="ng-gpu-taint-label",
        type=NODE_GROUP,
        passes=_GPU_GROUP,
        fails=(
            fail(
                {"taints": []},
                (
                    "it: taints: has no nvidia.com/gpu: any pod may take the place of one that needs the GPU. "
                    "Fix: taint the nodes nvidia.com/gpu=present:NoSchedule"
                ),
            ),
            fail(
                {"labels": {"team": "ml"}},
                (
                    'it: labels["nvidia.com/gpu.present"]: is not true: the device plugin passes the nodes by, and '
                    "pods find no GPU. "
                    "Fix: label the nodes nvidia.com/gpu.present=true"
                ),
            ),
        ),
        unknown="labels",
    ),
    Case(
        policy="ng-gpu-taint-label",
        type=NODE_POOL,
        passes=_GPU_POOL,
        fails=(
            fail(
                {"spec.template.spec.taints": ABSENT},
                (
                    "it: spec.template.spec.taints: has no nvidia.com/gpu: any pod may take the place of one that "
                    "needs the GPU. "
                    "Fix: taint the nodes nvidia.com/gpu=present:NoSchedule"
                ),
            ),
            fail(
                {"spec.template.metadata": ABSENT},
                (
                    'it: spec.template.metadata.labels["nvidia.com/gpu.present"]: is not true: the device plugin '
                    "passes the nodes by, and pods find no GPU. "
                    "Fix: label the nodes nvidia.com/gpu.present=true"
                ),
            ),
        ),
        unknown="spec.template.spec.taints",
    ),
    Case(
        policy="ng-instance-allowlist",
        type=NODE_GROUP,
        passes=_GPU_GROUP,
        fails=(
            fail(
                {"instanceTypes[0]": "p3.2xlarge"},
                (
                    "it: instanceTypes[0]: is p3.2xlarge; GPU families here are g5, g6, g6e, p4d, p4de, p5. "
                    "Fix: choose one of them, or put the family into `gpuFamilies` of this policy for the "
                    "environment"
                ),
            ),
            fail(
                {"instanceTypes[0]": "g9.xlarge"},
                (
                    "it: instanceTypes[0]: is g9.xlarge; GPU families here are g5, g6, g6e, p4d, p4de, p5. "
                    "Fix: choose one of them, or put the family into `gpuFamilies` of this policy for the "
                    "environment"
                ),
            ),
            fail(
                {"instanceTypes": ["g5.xlarge", "p5.48xlarge"]},
                (
                    "it: instanceTypes[1]: is p5.48xlarge; GPU families here are g4dn, g5, g6. "
                    "Fix: choose one of them, or put the family into `gpuFamilies` of this policy for the "
                    "environment"
                ),
                environment="dev",
            ),
        ),
        unknown="instanceTypes[0]",
    ),
    Case(
        policy="ng-instance-allowlist",
        type=TEMPLATE,
        passes={"instanceType": "p5.48xlarge"},
        fails=(
            fail(
                {"instanceType": "p3dn.24xlarge"},
                (
                    "it: instanceType: is p3dn.24xlarge; GPU families here are g5, g6, g6e, p4d, p4de, p5. "
                    "Fix: choose one of them, or put the family into `gpuFamilies` of this policy for the "
                    "environment"
                ),
            ),
        ),
        unknown="instanceType",
    ),
    Case(
        policy="ng-instance-allowlist",
        type=NODE_POOL,
        passes=_GPU_POOL,
        fails=(
            fail(
                {"spec.template.spec.requirements[0].values": ["p3.2xlarge"]},
                (
                    "it: spec.template.spec.requirements[0].values[0]: is p3.2xlarge; GPU families here are g5, g6, "
                    "g6e, p4d, p4de, p5. "
                    "Fix: choose one of them, or put the family into `gpuFamilies` of this policy for the "
                    "environment"
                ),
            ),
            fail(
                {
                    "spec.template.spec.requirements[0]": {
                        "key": "karpenter.k8s.aws/instance-family",
                        "operator": "In",
                        "values": ["p3"],
                    }
                },
                (
                    "it: spec.template.spec.requirements[0].values[0]: is p3; GPU families here are g5, g6, g6e, "
                    "p4d, p4de, p5. "
                    "Fix: choose one of them, or put the family into `gpuFamilies` of this policy for the "
                    "environment"
                ),
            ),
            fail(
                {"spec.template.spec.requirements": []},
                (
                    "it: spec.template.spec.requirements: does not say node.kubernetes.io/instance-type or "
                    "karpenter.k8s.aws/instance-family: Karpenter may start any instance type. "
                    "Fix: require node.kubernetes.io/instance-type In the types that may run"
                ),
            ),
        ),
        unknown="spec.template.spec.requirements",
    ),
    Case(
        policy="ng-max-size-cap",
        type="",
        passes=(
            made(NODE_GROUP, "small", {"instanceTypes": ["m7i.large"], "scalingConfig": {"maxSize": 40}}),
            made(NODE_GROUP, "g5", {"instanceTypes": ["g5.xlarge", "g5.12xlarge"], "scalingConfig": {"maxSize": 4}}),
            made(NODE_POOL, "p4d", {"spec": {"limits": {"nvidia.com/gpu": "16"}}}),
        ),
        fails=(
            fail(
                {"p4d": {("spec", "limits", "nvidia.com/gpu"): "24"}},
                (
                    "the stack may start 40 GPUs (g5 16, p4d 24), 32 is the most here. "
                    "Fix: lower the largest sizes, or raise `maxGpus` of this policy for the environment"
                ),
            ),
            fail(
                {},
                (
                    "the stack may start 32 GPUs (g5 16, p4d 16), 8 is the most here. "
                    "Fix: lower the largest sizes, or raise `maxGpus` of this policy for the environment"
                ),
                environment="staging",
            ),
        ),
        unknown=("g5", "scalingConfig.maxSize"),
    ),
    # A Capacity Block: the launch template has the type.
    Case(
        policy="ng-max-size-cap",
        type="",
        passes=(
            made(NODE_GROUP, "block", {"scalingConfig": {"maxSize": 4}}, launchTemplate="template"),
            made(TEMPLATE, "template", {"id": "lt-1", "instanceType": "p5.48xlarge"}),
        ),
        fails=tuple(
            fail(
                {"block": group},
                (
                    "the stack may start 40 GPUs (block 40), 32 is the most here. "
                    "Fix: lower the largest sizes, or raise `maxGpus` of this policy for the environment"
                ),
            )
            for group in (
                {"scalingConfig.maxSize": 5},
                {"scalingConfig.maxSize": 5, "instanceTypes": UNKNOWN},
                made(NODE_GROUP, "block", {"scalingConfig": {"maxSize": 5}, "launchTemplate": {"id": "lt-1"}}),
            )
        ),
        unknown=("template", "instanceType"),
    ),
    Case(
        policy="ng-max-size-cap",
        type="",
        passes=(made(NODE_POOL, "pool", _GPU_POOL),),
        fails=(
            fail(
                {"pool": {"spec.limits": {"cpu": "1000"}}},
                'pool: spec.limits["nvidia.com/gpu"]: is not set: the pool may start GPUs without end. Fix: set it',
            ),
            # A family that the pack does not know counts as the largest one.
            fail(
                {"pool": made(NODE_GROUP, "new", {"instanceTypes": ["p9.48xlarge"], "scalingConfig": {"maxSize": 5}})},
                (
                    "the stack may start 40 GPUs (new 40), 32 is the most here. "
                    "Fix: lower the largest sizes, or raise `maxGpus` of this policy for the environment"
                ),
            ),
        ),
        unknown=("pool", "spec.limits"),
    ),
)
