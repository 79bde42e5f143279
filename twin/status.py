"""What a twin has right now, for people and for programs."""

import collections
import dataclasses
import json
from typing import Any

from twin import stack_files
from twin.home import TwinHome, read_json
from twin.servers import Servers
from twin.up import STACK, last_inference_file


@dataclasses.dataclass(frozen=True)
class Status:
    """`resources` counts the stack's resources by type; `pods` are the whole cluster's; `endpoints` are URLs and files."""

    stack: str
    release: dict[str, Any] | None
    resources: dict[str, int]
    pods: list[dict[str, Any]]
    endpoints: dict[str, str]
    last_inference: dict[str, Any] | None

    def to_json(self) -> str:
        """The document that `python -m twin status --json` prints."""
        return json.dumps(dataclasses.asdict(self), indent=2)


def read(home: TwinHome, servers: Servers) -> Status:
    """Reads the status of a running twin. Raises EngineError when the stack was never brought up."""
    engine = servers.engine()
    types = collections.Counter(resource["type"] for resource in engine.resources(STACK))
    return Status(
        stack=STACK,
        release=stack_files.pinned_release(home, STACK),
        resources=dict(sorted(types.items())),
        pods=[dataclasses.asdict(pod) for pod in servers.cluster().pods()],
        endpoints=servers.endpoints(),
        last_inference=read_json(last_inference_file(home)),
    )
