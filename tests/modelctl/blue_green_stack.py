"""A stack file with two Deployments (`triton.rollout: blue-green`), each with a given number of pods."""

from pathlib import Path
from typing import Any

import yaml

from tests.modelctl.stacks import write_stack

GATEWAY = {"replicas": 1, "cpu": "1", "memoryMiB": 512}


def write_blue_green(directory: Path, serving: dict[str, dict[str, Any]] | None = None, *, pods: int = 1) -> Path:
    """Write `Pulumi.dev.yaml` with these models.serving; its pool has room for both releases."""
    file = write_stack(directory, serving or {}, triton={"rollout": "blue-green", "replicas": pods})
    document = yaml.load(file.read_text(), yaml.CSafeLoader)
    document["config"]["triton-eks:gateway"] = GATEWAY
    document["config"]["triton-eks:gpu"]["pools"][0] |= {"desired": 2 * pods, "max": 2 * pods}
    file.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False))
    return file
