"""The Stages of kwok: its actions on the twin's nodes and pods.

kwok simulates the kubelet for every pod except pods that run as processes, which the agent runs (twin/pods/runner.py).
"""

from pathlib import Path

import yaml

from spec.files import write_whole

_STAGES = Path(__file__).with_name("kwok_stages.yaml")


def write(path: Path, containers: str) -> None:
    """Write the Stages to a file, so that they ignore pods with a container that matches `containers`.

    `containers` is a regular expression of name, space and image; if it is empty, no pod is ignored.
    """
    stages = list(yaml.safe_load_all(_STAGES.read_text()))
    for stage in stages:
        if containers and stage["spec"]["resourceRef"]["kind"] == "Pod":
            stage["spec"]["selector"]["matchExpressions"].append(_without(containers))
    write_whole(path, yaml.safe_dump_all(stages, sort_keys=False).encode())


def _without(containers: str) -> dict[str, str]:
    """Return the expression that no such pod matches: the key is a jq query, and an empty result means DoesNotExist."""
    return {"key": f'.spec.containers[] | .name + " " + .image | select(test("{containers}"))', "operator": "DoesNotExist"}
