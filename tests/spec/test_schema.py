"""The JSON Schema of stack files: the repository's file matches the settings, and editors find mistakes with it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from spec.settings.model import Document
from spec.settings.schema import SCHEMA_FILE, schema_text
from spec.settings.section import Section
from tests.spec.stack_config import REMOVED, config
from tests.spec.test_stack_files import STACKS, stack_path


@pytest.fixture(scope="module")
def schema() -> Draft7Validator:
    content = json.loads(schema_text())
    Draft7Validator.check_schema(content)
    return Draft7Validator(content)


def _sections(base: type[Section] = Section) -> list[type[Section]]:
    return [found for section in base.__subclasses__() for found in (section, *_sections(section))]


def test_every_key_has_a_description() -> None:
    keys = [(section, name, field) for section in _sections() for name, field in section.model_fields.items()]
    assert len(keys) > len(Document.model_fields)
    assert [
        f"{section.__name__}.{name}"
        for section, name, field in keys
        if not field.description and name not in ("stack", "today", "warnings")
    ] == []


def test_the_file_is_what_the_settings_are() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), (
        "stale: run `make reference`, and review what has changed"
    )


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_file_names_the_schema_first_and_holds_to_it(stack: str, schema: Draft7Validator) -> None:
    path = stack_path(stack)
    text = path.read_text(encoding="utf-8")
    named = os.path.relpath(SCHEMA_FILE, path.parent)
    assert text.splitlines()[0] == f"# yaml-language-server: $schema={named}"
    assert _told(schema, yaml.safe_load(text)) == []


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({"network": REMOVED}, ["config"]),
        ({"netwrok": {}}, ["config"]),
        ({"cluster.endpoit": "private"}, ["config.triton-eks:cluster"]),
        ({"cluster.version": 1.35}, ["config.triton-eks:cluster.version"]),
        ({"cluster.endpoint": "open"}, ["config.triton-eks:cluster.endpoint"]),
        ({"cluster.logRetentionDays": 91}, ["config.triton-eks:cluster.logRetentionDays"]),
        ({"cluster.adminRoleArns[0]": "platform-admin"}, ["config.triton-eks:cluster.adminRoleArns.0"]),
        ({"aws:region": "us-west-9"}, ["config.aws:region"]),
        ({"aws:allowedAccountIds": [123456789012]}, ["config.aws:allowedAccountIds"]),
        ({"network.zones": 5}, ["config.triton-eks:network.zones"]),
        ({"gpu.pools[0].max": "4"}, ["config.triton-eks:gpu.pools.0.max"]),
        ({"gpu.pools[0].max": 451}, ["config.triton-eks:gpu.pools.0.max"]),
        ({"gpu.pools[0].sharing": "shared"}, ["config.triton-eks:gpu.pools.0.sharing"]),
        ({"tags.owner": ""}, ["config.triton-eks:tags.owner"]),
        ({"models.release.id": "3F2A9C1B7D04"}, ["config.triton-eks:models.release"]),
        ({"models.release.models": {"res net": 1}}, ["config.triton-eks:models.release"]),
        ({"triton.cpu": "3 cores"}, ["config.triton-eks:triton.cpu"]),
        ({"triton.replicas": True}, ["config.triton-eks:triton.replicas"]),
    ],
)
def test_a_mistake_is_found_where_it_is(changes: dict[str, Any], places: list[str], schema: Draft7Validator) -> None:
    assert _told(schema, {"config": config({})}) == []
    assert _told(schema, {"config": config(changes)}) == places


def test_keys_beside_config_are_pulumis() -> None:
    schema = Draft7Validator(json.loads(schema_text()))
    assert _told(schema, {"config": config({}), "encryptionsalt": "v1:x", "secretsprovider": "awskms://alias/x"}) == []
    assert _told(schema, {"config": config({}), "triton-eks:network": {}}) == [""]
    assert _told(schema, {}) == [""]


def test_the_short_form_of_sharing_is_known(schema: Draft7Validator) -> None:
    assert _told(schema, {"config": config({"gpu.pools[0].sharing": "exclusive"})}) == []
    assert _told(schema, {"config": config({"gpu.pools[0].sharing": {"strategy": "mps", "replicas": 4}})}) == []


def _told(schema: Draft7Validator, document: Any) -> list[str]:
    return sorted({".".join(map(str, error.absolute_path)) for error in schema.iter_errors(document)})
