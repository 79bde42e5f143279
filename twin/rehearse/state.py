"""The exported state of a real stack: read, checked, and rewritten for the twin's engine.

`pulumi stack export` prints it. Its secrets are encrypted with a key of the real stack, which the twin does not have.
The official providers also leave inputs there that do not come from the program. This module handles both.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twin.plugins import differences, releases
from twin.plugins.values import SECRET, SIGNATURE
from twin.rehearse import export
from twin.rehearse.export import NotAState

UNKNOWN_SECRET = "[encrypted with a key of the real stack]"
_PROVIDER = "pulumi:providers:"
_KUBERNETES = _PROVIDER + "kubernetes"
_BUILT_IN = _PROVIDER + "pulumi"
"""The engine's own provider, for the engine's own resources."""
_ARN = re.compile(r"arn:aws(?:-[a-z]+)*:[a-z0-9-]+:((?:[a-z]+-)+[0-9]|):([0-9]{12}):.+")
_OF_THE_PROVIDER = frozenset({"tagsAll", "region"})
"""Inputs that pulumi-aws adds to each resource in its Check (provider/tags.go), without listing them as defaults."""
_ABOUT_THE_PLUGIN = frozenset({"pluginDownloadURL", "pluginChecksums", "__internal"})
"""Engines since 2024 put the first two below the third (pkg/resource/deploy/providers/registry.go of pulumi)."""


@dataclass(frozen=True)
class State:
    """An exported state. `interrupted`: operations that began and did not finish, as `creating NAME (TYPE)`.

    `hidden`: by URN, the paths of inputs whose values are encrypted, so changes to them cannot be seen.
    """

    stack: str
    account: str
    region: str
    resources: tuple[Mapping[str, Any], ...]
    interrupted: tuple[str, ...]
    hidden: Mapping[str, tuple[differences.Path, ...]]

    @property
    def retained(self) -> frozenset[str]:
        """Return the URNs of resources that stay in AWS when Pulumi deletes them."""
        return frozenset(one["urn"] for one in self.resources if one.get("retainOnDelete"))


def read(path: Path) -> State:
    """Return the state in a file. Raises NotAState, or Unreadable if the file is not JSON."""
    exported = export.read(path)
    resources = exported.resources
    return State(
        exported.stack,
        *_account(path, resources),
        resources=tuple(resources),
        interrupted=tuple(_told(one) for one in exported.operations),
        hidden={
            one["urn"]: paths
            for one in resources
            if not one["type"].startswith(_PROVIDER) and (paths := tuple(_encrypted(one.get("inputs") or {})))
        },
    )


def _account(path: Path, resources: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the account and the region that occur most often in the ARNs of AWS resources."""
    arns = [_ARN.fullmatch(str((one.get("outputs") or {}).get("arn"))) for one in resources if _is_aws(one)]
    accounts = Counter(match[2] for match in arns if match is not None)
    regions = Counter(match[1] for match in arns if match is not None and match[1])
    if not accounts or not regions:
        raise NotAState(f"{path}: nothing in it has an ARN of an account and a region; is it the state of a whole stack?")
    return accounts.most_common(1)[0][0], regions.most_common(1)[0][0]


def _told(operation: Mapping[str, Any]) -> str:
    urn = operation["resource"]["urn"]
    return f"{operation['type']} {urn.rpartition('::')[2]} ({export.type_of(urn)})"


def _encrypted(value: Any, path: differences.Path = ()) -> Iterator[differences.Path]:
    if _is_encrypted(value):
        yield path
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _encrypted(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _encrypted(member, (*path, index))


def _is_encrypted(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get(SIGNATURE) == SECRET and "plaintext" not in value


def _is_aws(resource: Mapping[str, Any]) -> bool:
    return str(resource["type"]).startswith("aws:")


def importable(state: State, providers: Mapping[str, str], kubeconfig: str, salt: str) -> dict[str, Any]:
    """Return the document for `pulumi stack import` on a twin. Raises NotAState for a provider that the twin lacks.

    `providers`: the version of each of the twin's providers; `kubeconfig`: the twin's, as JSON; `salt`: from its stack
    file.
    """
    return {
        "version": 3,
        "deployment": {
            "manifest": {"time": "0001-01-01T00:00:00Z", "magic": "", "version": ""},
            "secrets_providers": {"type": "passphrase", "state": {"salt": salt}},
            "resources": [_of_the_twin(one, providers, kubeconfig) for one in state.resources],
        },
    }


def _of_the_twin(resource: Mapping[str, Any], providers: Mapping[str, str], kubeconfig: str) -> dict[str, Any]:
    made = _readable(resource)
    type_ = made["type"]
    if type_.startswith(_PROVIDER) and type_ != _BUILT_IN:
        package = type_.removeprefix(_PROVIDER)
        if package not in providers:
            raise NotAState(
                f"the state has a provider of {package} ({made['urn'].rpartition('::')[2]}); the twin has those of "
                f"{', '.join(providers)}"
            )
        # The engine requests the plugin of that version, and would configure it to reach the real cluster.
        own = {"version": providers[package], **({"kubeconfig": kubeconfig} if type_ == _KUBERNETES else {})}
        for part in ("inputs", "outputs"):
            given = made.get(part) or {}
            kept = {key: value for key, value in given.items() if key not in _ABOUT_THE_PLUGIN}
            made[part] = {**kept, **{key: value for key, value in own.items() if key in given or key == "version"}}
    elif _is_aws(made):
        made["inputs"] = {key: value for key, value in (made.get("inputs") or {}).items() if key not in _OF_THE_PROVIDER}
    elif type_ == releases.TOKEN:
        made["inputs"] = _without_zeros(made.get("inputs") or {})
    return made


def _readable(value: Any) -> Any:
    """Return the value with a placeholder for each encrypted secret. Secrets in plain text stay, marked as secret."""
    if _is_encrypted(value):
        return {SIGNATURE: SECRET, "plaintext": json.dumps(UNKNOWN_SECRET)}
    if isinstance(value, Mapping):
        return {key: _readable(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_readable(member) for member in value]
    return value


def _without_zeros(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release's inputs without empty values: the official provider writes every option that was not set.

    Its inputs are a whole Go structure (Check in provider/pkg/provider/helm_release.go of pulumi-kubernetes).
    """
    repository = inputs.get("repositoryOpts")
    if isinstance(repository, Mapping) and SIGNATURE not in repository:
        inputs = {**inputs, "repositoryOpts": {key: value for key, value in repository.items() if value != ""}}
    return {key: value for key, value in inputs.items() if key == "values" or value not in (False, "", None, {}, [])}
