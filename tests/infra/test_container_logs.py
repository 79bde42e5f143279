"""Container logs: the allowed settings, the permissions to write, and the configuration of Fluent Bit.

The chart cannot be pulled here: the tests compare its values with rendered output (docs/facts/charts.md#fluent-bit).
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra.platform.container_logs import policy, values
from spec.names import LOG_SENDER, container_log_group
from tests import snapshots
from tests.pod_identity import assert_credentials
from tests.spec.stack_config import complaints, settings

GROUP = "arn:aws:logs:us-west-2:123456789012:log-group:/aws/containerinsights/triton-prod/application"
REGISTERED = snapshots.resources("prod")
SECTIONS = ("service", "inputs", "filters", "outputs")


def entry(section: str) -> dict[str, str]:
    """Return the keys of a section of Fluent Bit's configuration."""
    lines = values("us-west-2", "group")["config"][section].splitlines()
    return dict(line.strip().split(maxsplit=1) for line in lines[1:])


def registered(name: str) -> dict[str, Any]:
    (found,) = (resource["inputs"] for label, resource in REGISTERED.items() if label.startswith(f"{name} "))
    return dict(found)


def test_the_group_is_made_encrypted_and_with_the_retention_that_the_stack_says() -> None:
    group = registered("container-logs-log-group")
    assert group["name"] == container_log_group("triton-prod") == "/aws/containerinsights/triton-prod/application"
    assert group["retentionInDays"] == 90
    assert group["kmsKeyId"] == registered("network-flow-logs-log-group")["kmsKeyId"]


def test_the_role_may_write_to_this_group_and_do_nothing_else() -> None:
    (statement,) = json.loads(policy(GROUP))["Statement"]
    assert statement["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert statement["Resource"] == [f"{GROUP}:*"]


def test_the_pods_get_credentials_and_write_to_the_group_of_their_region() -> None:
    found = values("eu-west-1", "/aws/containerinsights/triton-dev/application")
    assert found["serviceAccount"] == {"create": True, "name": LOG_SENDER.name}
    assert_credentials(found["env"], found["extraVolumeMounts"], found["extraVolumes"])
    own = {each["name"]: each["value"] for each in found["env"] if each["name"].startswith("LOG_")}
    assert own == {"LOG_REGION": "eu-west-1", "LOG_GROUP": "/aws/containerinsights/triton-dev/application"}
    asked = set(re.findall(r"\$\{(\w+)\}", "".join(found["config"][section] for section in SECTIONS)))
    assert asked == own.keys()


def test_each_node_has_one_whatever_its_taints() -> None:
    found = values("us-west-2", "group")
    assert (found["tolerations"], found["priorityClassName"]) == ([{"operator": "Exists"}], "system-node-critical")


def test_a_line_is_sent_alone_to_the_stream_of_its_container_until_it_is_taken() -> None:
    output = entry("outputs")
    assert output["log_key"] == "log"
    assert output["log_stream_template"] == (
        "$kubernetes['namespace_name'].$kubernetes['pod_name'].$kubernetes['container_name']"
    )
    assert (output["Retry_Limit"], output["storage.total_limit_size"]) == ("False", "512M")
    assert output["auto_create_group"] == "Off"  # its role may not


def test_it_writes_only_where_the_node_lets_it() -> None:
    found = values("us-west-2", "group")
    writable = [mount["mountPath"] for mount in found["daemonSetVolumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/fluent-bit"]
    assert found["securityContext"]["readOnlyRootFilesystem"] is True
    for written in (entry("service")["storage.path"], entry("inputs")["DB"]):
        assert written.startswith("/var/lib/fluent-bit/")


def test_its_own_log_is_left_out() -> None:
    excluded = f"/var/log/containers/fluent-bit-*_{LOG_SENDER.namespace}_*.log"
    assert entry("inputs")["Exclude_Path"] == excluded


def test_a_stack_without_the_section_sends_none() -> None:
    assert settings().logs is None


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "logs.containers: is missing; add the section: what the containers of all pods write"),
        (
            {"containers": {}},
            "logs.containers.retentionDays: is missing; give days that the logs of containers are kept, like 30",
        ),
    ],
)
def test_a_mistake_is_said_where_it_is(section: dict[str, Any], said: str) -> None:
    assert complaints({"logs": section}) == [said]
