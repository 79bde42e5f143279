"""The Stages of kwok: what it does to the twin's nodes and pods.

kwok plays the kubelet for every pod except those that run as processes, which the agent runs (twin/pods/runner.py).
"""

from pathlib import Path

import yaml

from spec.files import write_whole

_STAGES = Path(__file__).with_name("kwok_stages.yaml")


def write(path: Path, containers: str) -> None:
    """Write the Stages to a file, all of which leave pods alone that have a container which, as name, a blank and
    image, matches `containers`.

    `containers` is a regular expression; an empty one leaves no pod alone.
    """
    stages = list(yaml.safe_load_all(_STAGES.read_text()))
    for stage in stages:
        if containers and stage["spec"]["resourceRef"]["kind"] == "Pod":
            stage["spec"]["selector"]["matchExpressions"].append(_without(containers))
    write_whole(path, yaml.safe_dump_all(stages, sort_keys=False).encode())


def _without(containers: str) -> dict[str, str]:
    """Return the expression that no such pod matches: a key is a query of jq, and no result means that it does not exist."""
    return {"key": f'.spec.containers[] | .name + " " + .image | select(test("{containers}"))', "operator": "DoesNotExist"}
