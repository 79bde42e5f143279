from decimal import Decimal
from typing import Any

import pytest

from twin.cluster import quantity
from twin.pods.pod_spec import Sources, SpecError, arguments, environment, expand, port_number

ADDRESS = "127.244.200.7"
POD: dict[str, Any] = {
    "metadata": {"name": "triton-0", "namespace": "triton", "uid": "u-1", "labels": {"app": "triton"}},
    "spec": {"nodeName": "g5-0", "serviceAccountName": "triton", "containers": []},
}
SOURCES = Sources({"settings": {"level": b"1", "mode": b"none"}}, {"admin": {"key": b"s3cret"}})


def variables(*entries: dict[str, Any], **container: Any) -> dict[str, str]:
    return environment({"env": list(entries), **container}, POD, ADDRESS, SOURCES)


def reference(kind: str, name: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": key, **more}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--key=$(KEY)", "--key=v"),
        ("$(KEY)$(KEY)", "vv"),
        ("$$(KEY)", "$(KEY)"),
        ("$$$(KEY)", "$v"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("${KEY} $KEY", "${KEY} $KEY"),
        ("$(KEY", "$(KEY"),
        ("$", "$"),
        ("a$(EMPTY)b", "ab"),
    ],
)
def test_expansion_is_the_kubelets(text: str, expected: str) -> None:
    assert expand(text, {"KEY": "v", "EMPTY": ""}) == expected


def test_a_variable_sees_those_before_it_only() -> None:
    found = variables({"name": "A", "value": "1$(B)"}, {"name": "B", "value": "2$(A)"})
    assert found == {"A": "1$(B)", "B": "21$(B)"}


def test_arguments_follow_the_command_and_are_expanded() -> None:
    container = {"command": ["tritonserver"], "args": ["--id=$(ID)", "$$(ID)"]}
    assert arguments(container, {"ID": "7"}) == ["tritonserver", "--id=7", "$(ID)"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status.podIP", ADDRESS),
        ("metadata.name", "triton-0"),
        ("metadata.namespace", "triton"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "triton"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "g5-0"),
        ("spec.serviceAccountName", "triton"),
    ],
)
def test_a_field_of_the_pod(path: str, value: str) -> None:
    assert variables({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}) == {"X": value}


def test_a_field_that_kubernetes_does_not_offer_is_refused() -> None:
    with pytest.raises(SpecError, match=r"'status\.phase' is not a field"):
        variables({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}})


@pytest.mark.parametrize(
    ("amount", "divisor", "value"), [("2Gi", "1Mi", "2048"), ("500m", None, "1"), ("3", "1", "3"), ("1500m", "1m", "1500")]
)
def test_a_resource_in_whole_divisors(amount: str, divisor: str | None, value: str) -> None:
    source = {"resource": "limits.x", **({"divisor": divisor} if divisor else {})}
    entry = {"name": "X", "valueFrom": {"resourceFieldRef": source}}
    assert variables(entry, resources={"limits": {"x": amount}}) == {"X": value}


def test_keys_of_config_maps_and_secrets() -> None:
    assert variables(reference("configMap", "settings", "level")) == {"X": "1"}
    assert variables(reference("secret", "admin", "key")) == {"X": "s3cret"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (reference("configMap", "gone", "level"), "configMap 'gone' not found"),
        (reference("secret", "admin", "gone"), "secret 'admin' has no key 'gone'"),
    ],
)
def test_what_is_missing_is_named_unless_it_is_optional(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        variables(entry)
    assert (error.value.reason, str(error.value)) == ("CreateContainerConfigError", message)
    next(iter(entry["valueFrom"].values()))["optional"] = True
    assert variables(entry) == {}


def test_a_whole_config_map_with_a_prefix_and_env_on_top() -> None:
    source = [{"configMapRef": {"name": "settings"}, "prefix": "T_"}]
    assert variables({"name": "T_mode", "value": "poll"}, envFrom=source) == {"T_level": "1", "T_mode": "poll"}


def test_ports_are_found_by_number_or_name() -> None:
    containers = [{"ports": [{"name": "http", "containerPort": 8000}]}, {}]
    assert port_number(9, containers) == 9
    assert port_number("9", containers) == 9
    assert port_number("http", containers) == 8000
    with pytest.raises(SpecError, match="no container port is named 'grpc'; there are http"):
        port_number("grpc", containers)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", Decimal(1)), ("500m", Decimal("0.5")), ("2Gi", Decimal(2**31)), ("1e3", Decimal(1000)), ("1.5k", Decimal(1500))],
)
def test_quantities(text: str, value: Decimal) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize("text", ["", "1 Gi", "GiB", "1GiB", "0x10"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        quantity.parse(text)
