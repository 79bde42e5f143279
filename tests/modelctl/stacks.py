"""A stack file of the tests: complete, valid, with the wants that a test gives."""

from pathlib import Path
from typing import Any

import yaml

from tests.paths import ROOT


def write_stack(
    directory: Path,
    serving: dict[str, dict[str, Any]],
    *,
    stack: str = "dev",
    instance_types: list[str] | None = None,
    triton: dict[str, Any] | None = None,
) -> Path:
    """`Pulumi.<stack>.yaml` with these `models.serving`: the tracked file of dev with one pod, on these instance types."""
    document = yaml.load((ROOT / "stacks" / "Pulumi.dev.yaml").read_text(), yaml.CSafeLoader)
    config = document["config"]
    config["triton-eks:environment"] = stack
    config["triton-eks:models"] = {"oldReleaseDays": 14, **({"serving": serving} if serving else {})}
    del config["triton-eks:autoscaling"], config["triton-eks:monitoring"], config["triton-eks:triton"]["autoscaler"]
    config["triton-eks:triton"] |= {"replicas": 1, **(triton or {})}
    if instance_types is not None:
        config["triton-eks:gpu"]["pools"][0]["instanceTypes"] = instance_types
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False))
    return file


def wants(**more: Any) -> dict[str, Any]:
    """The least that a stack says of a model, in the words of a stack file."""
    return {"device": "cpu", "sloP95Ms": 50, "expectedRate": 40, "peakRate": 120, **more}
