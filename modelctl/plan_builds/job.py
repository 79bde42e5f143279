"""The Job that builds one plan. Modelctl fetches the release, trtexec in Triton's own image builds, modelctl uploads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.names import CURRENT_RELEASE, PLAN_BUILDER, PLANS_PREFIX, TRITON_USER
from spec.placement import placement, resource_of
from spec.settings import Settings
from spec.settings.fields import cpu_millis
from spec.settings.gpu import GpuPool

SCRIPT = Path(__file__).with_name("build_plan.sh")
_HOURS = 6
"""A Job that found no node or does not finish is stopped after this time. No one waits for it."""
_DAYS_KEPT = 1
_MIB = 1024**2
_BUILT = "/built"
_LONGEST_NAME = 63
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True)
class Build:
    """Build a plan from an ONNX file of a model's version, on the GPUs of `pool`. `onnx` is the file's key in the release.

    `stack` has the settings of the fleet with this pool. `release_bytes` and `onnx_bytes` size the volumes.
    """

    release: str
    model: str
    version: int
    onnx: str
    pool: GpuPool
    capability: str
    stack: Settings
    release_bytes: int
    onnx_bytes: int
    arguments: Sequence[str]

    @property
    def file(self) -> str:
        """Return the file name for this GPU, from which `cc_model_filenames` is made."""
        return f"model_cc{self.capability.replace('.', '')}.plan"

    @property
    def key(self) -> str:
        """Return the plan's key in the bucket, which differs between images."""
        return f"{PLANS_PREFIX}{self.release}/{self.stack.triton.version}/{self.model}/{self.version}/{self.file}"


def job(build: Build, bucket: str) -> dict[str, Any]:
    """Return the Job. Its pod requests one GPU and a proportional share of a Triton pod's resources, with the same
    restrictions."""
    labels = {"app.kubernetes.io/name": PLAN_BUILDER.name}
    metadata = {"name": _name(build), "namespace": PLAN_BUILDER.namespace, "labels": labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": _HOURS * 3600,
            "ttlSecondsAfterFinished": _DAYS_KEPT * 86400,
            "template": {
                # Karpenter must not move a build, because it would start again.
                "metadata": {"labels": labels, "annotations": {"karpenter.sh/do-not-disrupt": "true"}},
                "spec": _pod(build, bucket),
            },
        },
    }


def _pod(build: Build, bucket: str) -> dict[str, Any]:
    models, plan = _mebibytes(build.release_bytes), _mebibytes(2 * build.onnx_bytes)
    endpoint = build.stack.models.s3_endpoint
    store = [f"--bucket={bucket}", *([f"--endpoint-url={endpoint}"] if endpoint is not None else [])]
    plan_file = f"{_BUILT}/{build.file}"
    builder = build.stack.models.plan_builder
    assert builder is not None
    server = build.stack.triton
    size = {
        "cpu": f"{cpu_millis(server.cpu) // server.gpus}m",
        "memory": f"{server.memory_gib * 1024 // server.gpus}Mi",
        "ephemeral-storage": f"{models + plan + 2048}Mi",
    }
    modelctl: dict[str, Any] = {"image": builder.image, "command": ["python", "-m", "modelctl"], "resources": _same(size)}
    modelctl["env"] = [
        {"name": "AWS_REGION", "value": build.stack.region},
        # Without its role it must fail instead of using the node's role.
        {"name": "AWS_EC2_METADATA_DISABLED", "value": "true"},
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 - in the container
    ]
    onnx = f"/models/{CURRENT_RELEASE}/{build.onnx}"
    containers: dict[str, dict[str, Any]] = {
        "fetch": {**modelctl, "args": ["fetch", build.release, *store, "--to=/models"]},
        "build": {
            "image": server.image,
            "command": ["bash", "-c", SCRIPT.read_text(encoding="utf-8"), SCRIPT.name],
            "args": [build.capability, onnx, plan_file, *build.arguments],
            "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - in the container
            "resources": _same({**size, resource_of(build.pool): "1"}),
        },
        "write": {**modelctl, "args": ["put-plan", plan_file, build.key, *store]},
    }
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("models", _BUILT[1:], "tmp")]
    fetch, built, write = (
        {
            "name": name,
            **container,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": _RESTRICTED,
            "volumeMounts": mounts,
        }
        for name, container in containers.items()
    )
    return {
        "serviceAccountName": PLAN_BUILDER.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        **placement(build.pool),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": TRITON_USER,
            "runAsGroup": TRITON_USER,
            "fsGroup": TRITON_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [fetch, built],
        "containers": [write],
        "volumes": [
            {"name": name, "emptyDir": {"sizeLimit": f"{mebibytes}Mi"}}
            for name, mebibytes in (("models", models), (_BUILT[1:], plan), ("tmp", 1024))
        ],
    }


def _same(resources: dict[str, str]) -> dict[str, dict[str, str]]:
    return {"requests": resources, "limits": resources}


def _mebibytes(size: int) -> int:
    return 1024 + -(-size // _MIB)


def _name(build: Build) -> str:
    """Return a name that is unique to the build. Models may differ in characters that Kubernetes names cannot have."""
    arguments = "\n".join((build.key, build.stack.triton.image, *build.arguments))
    digest = hashlib.sha256(arguments.encode()).hexdigest()[:8]
    said = re.sub(r"[^a-z0-9]+", "-", f"plan-{build.model}-{build.version}-cc{build.capability}".lower())
    return f"{said[: _LONGEST_NAME - 9].strip('-')}-{digest}"
