"""Normalize the fields of built-in kinds like the official provider's Check.

The official provider reads each object, except custom resources, into Kubernetes' own Go types and writes it again
(normalizeInputs in https://github.com/pulumi/pulumi-kubernetes/blob/master/provider/pkg/provider/provider.go). This module
repeats the effects on this program's objects: quantities become canonical, and plain fields with their zero value are
omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from twin.cluster import quantity
from twin.plugins.values import UNKNOWN, Values, has_unknown

_GROUPS = frozenset({"", "apps", "autoscaling", "batch", "policy"})
"""The built-in API groups whose kinds have quantities or pods."""
_OF_QUANTITIES = frozenset({"capacity", "hard", "limits", "requests"})
_QUANTITY = frozenset({"averageValue", "divisor", "sizeLimit"})
_PLAIN = frozenset(
    {
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "minReadySeconds",
        "paused",
        "publishNotReadyAddresses",
        "stdin",
        "stdinOnce",
        "tty",
    }
)
"""Go fields that are not pointers and have `omitempty`: https://github.com/kubernetes/api/blob/master/core/v1/types.go."""
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_NANO = Decimal("1e-9")


def normalized(inputs: Mapping[str, Any]) -> Values:
    """Return the normalized inputs of an object; unchanged for a custom resource or with unknown values."""
    group = str(inputs.get("apiVersion") or "").rpartition("/")[0]
    if group not in _GROUPS or has_unknown(inputs):
        return dict(inputs)
    return {key: value if key in ("metadata", "data", "stringData") else _of(key, value) for key, value in inputs.items()}


def _of(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if key in _OF_QUANTITIES:
            return {name: _quantity(amount) for name, amount in value.items()}
        return {name: _of(name, below) for name, below in value.items() if not (name in _PLAIN and below in (False, 0))}
    if isinstance(value, list):
        return [_of("", item) for item in value]
    return _quantity(value) if key in _QUANTITY else value


def _quantity(value: Any) -> Any:
    """Return a quantity in canonical form, and other values unchanged.

    https://github.com/kubernetes/apimachinery/blob/master/pkg/api/resource/quantity.go (CanonicalizeBytes)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == UNKNOWN:
        return value
    try:
        number = quantity.parse(str(value))
    except ValueError:
        return value
    if str(value).endswith(_BINARY) and abs(number) >= 1024:
        return _binary(number.to_integral_value(ROUND_CEILING))
    if "e" in str(value).lower().rstrip("E"):
        return value  # an exponent, which is not used in practice
    return _decimal(number)


def _binary(number: Decimal) -> str:
    power = 0
    while power < len(_BINARY) and number % 1024 == 0:
        number, power = number / 1024, power + 1
    return f"{number:f}".partition(".")[0] + ("", *_BINARY)[power]


def _decimal(number: Decimal) -> str:
    if not number:
        return "0"
    whole, power = (number / _NANO).to_integral_value(ROUND_CEILING), 0
    while power < len(_DECIMAL) - 1 and whole % 1000 == 0:
        whole, power = whole / 1000, power + 1
    return f"{whole:f}".partition(".")[0] + _DECIMAL[power]
