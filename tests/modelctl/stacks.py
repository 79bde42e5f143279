"""A complete, valid stack file with a test's wants."""

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
    """Write `Pulumi.<stack>.yaml` with these `models.serving`: dev's tracked file with one pod, on these instance types."""
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
    """Return the minimum wants for a model, as in a stack file."""
    return {"device": "cpu", "sloP95Ms": 50, "expectedRate": 40, "peakRate": 120, **more}
