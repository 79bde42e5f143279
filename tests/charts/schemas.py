"""Validates rendered objects: against strict schemas of a Kubernetes minor, custom resources against their CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from unittest import mock

import kubernetes_validate
from kubernetes_validate import utils

from tests import crds

KUBERNETES_MINORS = ("1.34", "1.35", "1.36")
"""The Kubernetes minors that the platform installs (spec/charts.py)."""
CUSTOM_KINDS: Mapping[str, str] = {"monitoring.coreos.com": "kube-prometheus-stack"}
"""API group -> the chart that defines it, for kinds that charts create and Kubernetes lacks."""

# Without this the library reads its multi-megabyte schemas again for each document.
_schema_once = cache(utils.schema_contents)
_validated: set[tuple[str, str]] = set()


def assert_valid(objects: Iterable[Mapping[str, Any]], minor: str) -> None:
    """Check for unknown or missing fields and wrong types. A kind without a schema fails too.

    Equal documents are validated once. Skips the test if the definitions of a custom kind are unavailable.
    """
    for document in objects:
        text = json.dumps(document, sort_keys=True)
        if (text, minor) in _validated:
            continue
        chart = CUSTOM_KINDS.get(document["apiVersion"].partition("/")[0])
        if chart is None:
            with mock.patch.object(utils, "schema_contents", _schema_once):
                kubernetes_validate.validate(document, minor, strict=True)
        else:
            problems = crds.problems(chart, document)
            assert not problems, f"{document['kind']} {document['metadata']['name']}: {problems}"
        _validated.add((text, minor))
