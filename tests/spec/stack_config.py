"""A valid stack config with changes, shared by the settings tests."""

import copy
import json
import re
from datetime import date
from typing import Any

from jsonschema import Draft7Validator

from spec.settings import Settings, SettingsError, load
from spec.settings.schema import schema_text

TODAY = date(2026, 11, 21)
SCHEMA = Draft7Validator(json.loads(schema_text()))


class _Removed:
    """A marker for a removed key; its repr names test cases, equal in every pytest worker."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED = _Removed()
DIGEST = "sha256:" + "0123456789abcdef" * 4
ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com"
ADMIN = "arn:aws:iam::123456789012:role/platform-admin"
# 207 GiB for pods minus 30 of images; the pod uses them for /tmp and logs (1.25 GiB) and two copies of the release.
LARGEST_ON_G5_XLARGE = (177 * 1024 - 1280) * 1024**2 // 2

_STAGING: dict[str, Any] = {
    "aws:region": "us-west-2",
    "aws:allowedAccountIds": ["123456789012"],
    "environment": "staging",
    "tags": {"owner": "ml-platform", "cost-center": "inference"},
    "network": {
        "cidr": "10.30.0.0/16",
        "zones": ["us-west-2a", "us-west-2b", "us-west-2c"],
        "nat": "single",
        "endpoints": "full",
        "flowLogRetentionDays": 30,
    },
    "cluster": {
        "version": "1.35",
        "endpoint": "private",
        "apiAccess": {"cidrs": ["10.30.0.0/16"]},
        "adminRoleArns": [ADMIN],
        "deletionProtection": True,
        "logRetentionDays": 365,
    },
    "nodes": {"system": {"instanceTypes": ["m7i.xlarge"], "min": 2, "desired": 3, "max": 3, "diskGiB": 50}},
    "gpu": {
        "pools": [
            {
                "name": "g5",
                "instanceTypes": ["g5.xlarge"],
                "capacity": "on-demand",
                "min": 1,
                "desired": 2,
                "max": 4,
                "diskGiB": 200,
            },
            {
                "name": "p4d",
                "instanceTypes": ["p4d.24xlarge"],
                "capacity": "on-demand",
                "min": 0,
                "desired": 0,
                "max": 2,
                "diskGiB": 500,
            },
        ]
    },
    "models": {
        "oldReleaseDays": 30,
        "release": {"id": "3f2a9c1b7d04" + 52 * "0", "bytes": 123456, "models": {"resnet50": 1}},
    },
    "triton": {
        "version": "26.07",
        "image": f"{ECR}/nvidia/tritonserver@{DIGEST}",
        "pool": "g5",
        "gpus": 1,
        "replicas": 2,
        "cpu": "3",
        "memoryGiB": 12,
    },
}
_PROD = {"environment": "prod", "network.nat": "per_az"}


def config(changes: dict[str, Any], stack: str = "staging") -> dict[str, Any]:
    """Return a stack's valid config with changes: `{"gpu.pools[0].min": 9}`; the value REMOVED deletes a key."""
    document = copy.deepcopy(_STAGING)
    for path, value in {**(_PROD if stack == "prod" else {}), **changes}.items():
        steps: list[Any] = [int(step) if step.isdigit() else step for step in re.split(r"[.\[\]]+", path) if step]
        target: Any = document
        for step in steps[:-1]:
            target = target[step]
        if value is REMOVED:
            del target[steps[-1]]
        elif isinstance(target, list) and steps[-1] == len(target):
            target.append(value)
        else:
            target[steps[-1]] = copy.deepcopy(value)
    return {key if ":" in key else f"triton-eks:{key}": value for key, value in document.items()}


def settings(changes: dict[str, Any] | None = None, stack: str = "staging", today: date = TODAY) -> Settings:
    """Return a stack's settings with changes, which must also be valid by the JSON Schema."""
    given = config(changes or {}, stack)
    read = load(given, stack, today=today)
    assert [error.message for error in SCHEMA.iter_errors({"config": given})] == []
    return read


def complaints(changes: dict[str, Any], stack: str = "staging", today: date = TODAY) -> list[str]:
    """Return the errors of a stack with mistakes, by line, without the file's name."""
    try:
        load(config(changes, stack), stack, today=today)
    except SettingsError as error:
        lines = str(error).splitlines()
        prefix = f"stacks/Pulumi.{stack}.yaml: "
        assert all(line.startswith(prefix) for line in lines)
        return [line.removeprefix(prefix) for line in lines]
    raise AssertionError(f"the mistakes {changes} were accepted")
