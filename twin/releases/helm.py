"""Render Helm charts offline, with real Helm (PyPI `helm-python-sdk`), into Kubernetes objects.

The result is the output of `helm template --no-hooks`: no NOTES.txt, no hooks, no `crds/` folder. In addition, this module
enforces `kubeVersion` of Chart.yaml, which the binding's render call ignores, and refuses duplicate keys, which PyYAML
ignores.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml
from helm_python import _native

from spec import reading
from spec.helm_values import merge

DEFAULT_KUBE_VERSION = "v1.35.0"

# The order in which Helm itself installs kinds; other kinds come last.
INSTALL_ORDER = (
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)

Object = dict[str, Any]


class HelmError(Exception):
    """A chart cannot be rendered. The text is for people: one problem per line, with the paths of values."""


def render(
    chart_dir: str | Path,
    *,
    name: str,
    namespace: str,
    values: Mapping[str, Any],
    value_files: Iterable[str | Path] = (),
    kube_version: str = DEFAULT_KUBE_VERSION,
    api_versions: Sequence[str] = (),
) -> list[Object]:
    """Return the Kubernetes objects of a chart, in Helm's install order, which is always the same.

    `value_files` are merged in their order, and then `values`. `kube_version` ("v1.35.0") and `api_versions`
    ("monitoring.coreos.com/v1") are the templates' `.Capabilities`. Raises HelmError for a missing chart or value file,
    values against the schema, or a chart's own `fail`. Also raises it for a Kubernetes version outside the chart's
    `kubeVersion`, and for output that is not a Kubernetes object.
    """
    layers = {str(path): _value_file(Path(path)) for path in value_files}
    merged = merge(*layers.values(), values)
    options = {
        "name": name,
        "namespace": namespace,
        "kube_version": kube_version,
        "api_versions": list(api_versions),
    }
    try:
        helm_python.validate_release_name(name)
        with helm_python.Chart.load(chart_dir) as chart:
            _require_kube_version(chart.metadata, kube_version)
            sources = json.loads(_native.call_string("helm_render", chart._raw(), json.dumps(merged), json.dumps(options)))
    except helm_python.HelmError as error:
        raise HelmError(_schema_sentences(str(error), layers, values) or _sentences(str(error))) from None
    return _install_order(sources)


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: dates stay strings, `=` is a string, duplicate keys are an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value}", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: node.value)


def _value_file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(reading.text(reading.file(path)), _Loader)  # noqa: S506 - a subclass of the safe loader
    except reading.Unreadable as error:
        raise HelmError(f"{path}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise HelmError(f"{path}: {_one_line(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise HelmError(f"{path}: holds a {type(content).__name__}, not a map of values")
    return content


def _install_order(sources: Mapping[str, str]) -> list[Object]:
    rank = {kind: position for position, kind in enumerate(INSTALL_ORDER)}
    found = [
        (rank.get(document["kind"], len(rank)), template, position, document)
        for template in sorted(sources)
        if not template.endswith("/NOTES.txt")
        for position, document in enumerate(_documents(template, sources[template]))
    ]
    return [document for *_, document in sorted(found, key=lambda entry: entry[:3])]


def _documents(template: str, text: str) -> Iterator[Object]:
    try:
        for document in yaml.load_all(text, _Loader):
            if document is None:
                continue
            if not isinstance(document, dict) or not {"apiVersion", "kind", "metadata"} <= document.keys():
                raise HelmError(f"{template}: renders something that is no Kubernetes object")
            if "helm.sh/hook" not in (document["metadata"].get("annotations") or {}):
                yield document
    except yaml.YAMLError as error:
        raise HelmError(f"{template}: renders broken YAML: {_one_line(error)}") from None


def _require_kube_version(metadata: Mapping[str, Any], kube_version: str) -> None:
    constraint = metadata.get("kubeVersion")
    if constraint and not _satisfies(constraint, kube_version):
        raise HelmError(f"chart {metadata['name']} {metadata['version']}: needs Kubernetes {constraint}, not {kube_version}")


@cache
def _satisfies(constraint: str, version: str) -> bool:
    """Return whether the version meets the constraint, as decided by Helm's own semver library in a one-line chart."""
    with tempfile.TemporaryDirectory(prefix="helm-") as folder:
        templates = Path(folder) / "templates"
        templates.mkdir()
        (Path(folder) / "Chart.yaml").write_text("apiVersion: v2\nname: constraint\nversion: 0.0.0\n")
        (templates / "answer").write_text("{{ semverCompare .Values.constraint .Values.version }}")
        with helm_python.Chart.load(folder) as chart:
            answers = chart.render({"constraint": constraint, "version": version}, name="constraint")
    return answers["constraint/templates/answer"] == "true"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _sentences(text: str) -> str:
    """Return Helm's message without its stack; a chart's own messages unchanged."""
    own = re.split(r"execution error at \([^)]*\): ", text)
    if len(own) > 1:
        return own[-1].strip()
    return text.strip()


def _schema_sentences(text: str, layers: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]) -> str:
    """Return schema errors, one per line: `file: path: problem`, without the file if no value file is the cause."""
    errors = re.findall(r"^\s*- at '([^']*)': (?!validation failed$)(.*)$", text, flags=re.MULTILINE)
    lines = []
    for pointer, what in errors:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
        unknown = re.findall(r"'([^']*)'", what) if what.startswith("additional properties") else []
        file = _origin([*steps, *unknown[:1]], layers, values)
        lines.append(f"{file + ': ' if file else ''}{_value_path(steps)}: {what}")
    return "\n".join(sorted(lines))


def _origin(steps: Sequence[str], layers: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any]) -> str:
    """Return the value file that sets the final value at that path; "" if none does, or `values` does."""
    if _has(values, steps):
        return ""
    return next((file for file, content in reversed([*layers.items()]) if _has(content, steps)), "")


def _has(content: Any, steps: Sequence[str]) -> bool:
    for step in steps:
        if isinstance(content, Mapping) and step in content:
            content = content[step]
        elif isinstance(content, list) and step.isdigit() and int(step) < len(content):
            content = content[int(step)]
        else:
            return False
    return True


def _value_path(steps: Sequence[str]) -> str:
    """Return the path in the usual notation: `tolerations[0].key`."""
    path = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)
    return path.removeprefix(".") or "values"
