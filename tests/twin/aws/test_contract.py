"""The contract between the program and the fake account: outputs that it reads, existing inputs, AWS's errors."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import botocore.session
import pulumi
import pytest
import yaml
from pulumi import _types as reflection

from tests.paths import ROOT
from tests.system.component import test_client_access, test_model_cache, test_runner
from tests.system.component.engine.stack_run import STACKS, previewed
from twin.aws import table
from twin.aws.base.errors import InvalidInputs
from twin.aws.rows import ADDON, ROWS, Row

ALL_ROWS = (*ROWS, ADDON)


def _of_file(path: str) -> Callable[[], dict[str, Any]]:
    return lambda: dict(yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))["config"])


CONFIGS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    **{stack: (stack, _of_file(f"stacks/Pulumi.{stack}.yaml")) for stack in STACKS},
    "a domain": ("staging", lambda: test_client_access.config(test_client_access.Zones("Z1", "Z2"))),
    "a cache": ("staging", test_model_cache.config),
    "a runner": (test_runner.STACK, test_runner.runner_config),
}


@pytest.mark.parametrize("config", CONFIGS)
def test_every_output_that_the_program_reads_is_one_of_the_twins(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's properties read their value with `pulumi.get`."""
    reads: set[tuple[str, str, str]] = set()
    get = pulumi.get

    def spy(self: Any, name: str) -> Any:
        token = str(getattr(type(self), "pulumi_type", ""))
        if isinstance(self, pulumi.CustomResource) and token.startswith("aws:"):
            names = {python: key for python, key, _ in reflection._py_properties(type(self))}
            reads.add((token, self._name, names[name]))
        return get(self, name)

    monkeypatch.setattr(pulumi, "get", spy)
    stack, read = CONFIGS[config]
    recording = previewed(ROOT, stack, read())
    assert reads
    missing = {read for read in reads if read[2] not in recording.one(read[0], read[1]).outputs}
    assert missing == set()


@pytest.mark.parametrize("token", sorted(table.HANDLERS))
def test_no_input_is_accepted_that_the_sdk_has_not(token: str) -> None:
    _, path, name = token.split(":")
    resource = getattr(importlib.import_module(f"pulumi_aws.{path.split('/')[0]}"), name)
    arguments = set(inspect.signature(resource._internal_init).parameters) - {"self", "resource_name", "opts", "__props__"}
    keys = {key for python, key, _ in reflection._py_properties(resource) if python in arguments}
    assert table.HANDLERS[token].inputs <= keys
    with pytest.raises(InvalidInputs, match="noSuchInput: unknown property"):
        table.HANDLERS[token].check({"noSuchInput": True})


@pytest.mark.parametrize("row", ALL_ROWS, ids=lambda row: row.token)
def test_a_row_names_members_and_errors_of_the_model(row: Row) -> None:
    service, operation, *path = row.model.split(".")
    model = botocore.session.Session().get_service_model(service).operation_model(operation)
    shape = model.input_shape
    for member in path:
        shape = (shape.member if shape.type_name == "list" else shape).members[member]
    assert set(row.members.values()) <= set(shape.members)
    assert row.exists.partition(":")[0] in {"", *(error.name for error in model.error_shapes)}
