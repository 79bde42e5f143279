"""The Stages of kwok: what it does to the twin's nodes and pods.

kwok plays the kubelet for every pod except those that run as processes, which the agent runs (twin/pods/runner.py).
"""

from pathlib import Path

import yaml

from spec.files import write_whole

_STAGES = Path(__file__).with_name("kwok_stages.yaml")


def write(path: Path, images: str) -> None:
    """Write the Stages to a file, all of which leave pods alone that have a container whose image matches `images`.

    `images` is a regular expression; an empty one leaves no pod alone.
    """
    stages = list(yaml.safe_load_all(_STAGES.read_text()))
    for stage in stages:
        if images and stage["spec"]["resourceRef"]["kind"] == "Pod":
            stage["spec"]["selector"]["matchExpressions"].append(_without(images))
    write_whole(path, yaml.safe_dump_all(stages, sort_keys=False).encode())


def _without(images: str) -> dict[str, str]:
    """Return the expression that no such pod matches: a key is a query of jq, and no result means that it does not exist."""
    return {"key": f'.spec.containers[].image | select(test("{images}"))', "operator": "DoesNotExist"}
