"""Build the serving part of an exported state on a separate twin, then change it under load."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from modelctl.release import publish
from modelctl.store.bucket import Store
from modelctl.store.errors import Place
from spec import yaml_writer
from spec.files import write_whole
from spec.names import RELEASES_PREFIX
from twin.aws.base.clients import Clients
from twin.cluster.kube_errors import KubeError
from twin.commands import inference, readiness
from twin.engine import stack_files
from twin.engine.engine import EngineError
from twin.host.home import REPOSITORY, TwinHome
from twin.host.processes import DeadlinePassed
from twin.load import requests
from twin.plugins import awaiting
from twin.plugins.kubeconfig import parse_kubeconfig
from twin.rehearse import changing, load, registering, stand_in
from twin.rehearse.measured import Measured
from twin.rehearse.part import Manifest, NotMade, Part, type_of
from twin.rehearse.serving import DEPLOYMENT, Server
from twin.rehearse.stand_in import Models
from twin.rehearse.state import State
from twin.services import release_sources, scratch
from twin.services.servers import Servers

MOST = 3
"""At most this many pods of a Deployment: each is a server on this machine."""
_BUCKET = "triton-models-twin"
_WITHOUT_LOCATION = "us-east-1"
"""S3 assumes this region if a request has no LocationConstraint, and refuses it as a LocationConstraint."""
_WAIT_SECONDS = 900.0
"""For a rollout: pods stop one after the other, each after its `preStop` hook."""


def make(home: TwinHome, found: State, part: Part, progress: Console) -> Measured:
    """Make the change to a state's servers under load; return the outcome of the requests.

    Raises NotMade if the servers do not come up here, Lacking if this machine cannot run pods.
    """
    stack = found.stack

    def say(line: str) -> None:
        progress.print(line, markup=False)

    with scratch.platform(home, (), progress, pictures=False) as started, changing.on_standard_error():
        servers = dataclasses.replace(started, program=_program(started, found))
        say(f"making what serves in {stack}: {len(part.before)} objects of its state ...")
        asked = [one.name for one in part.servers if one.pods]
        try:
            models = _release(servers, found.region)
            _join(servers, part)
            _apply(servers, stack, fitted(part, models, is_after=False))
            _wait(servers, models, part.servers, say)
            for name in asked:
                readiness.addresses(servers.cluster(), service=name)
        except (EngineError, KubeError, readiness.NotServing, DeadlinePassed) as failure:
            raise NotMade(f"what serves in the state does not come up here: {failure}") from None
        model = requests.model_of(release_sources.SAMPLES, inference.MODEL)

        def change() -> None:
            _apply(servers, stack, fitted(part, models, is_after=True))
            _wait(servers, models, part.servers_after, say)

        say(f"making the change, with {load.RATE:g} requests/s to {model.name} ...")
        return changing.under_load(servers, stack, model, dict.fromkeys(asked, 1), change)


def pods(servers: Sequence[Server]) -> dict[str, int]:
    """Return the number of pods of each Triton Deployment on the twin."""
    return {one.name: min(one.pods, MOST) for one in servers}


def fitted(part: Part, models: Models, *, is_after: bool) -> dict[str, Manifest]:
    """Return the twin's objects as they are before or after the change."""
    objects, servers = (part.after, part.servers_after) if is_after else (part.before, part.servers)
    counts = pods(servers)
    return {
        key: stand_in.fitted(
            key, one, models, counts.get(one["metadata"]["name"]), "after" if is_after and key in part.rolled else "before"
        )
        for key, one in objects.items()
    }


def _program(servers: Servers, found: State) -> Path:
    """Write the Pulumi program that registers the objects of a file, and its stack file; return the folder."""
    folder = servers.home.path / "program"
    stack_file = stack_files.tracked_file(found.stack, folder)
    stack_file.parent.mkdir(parents=True)
    shutil.copyfile(REPOSITORY / "Pulumi.yaml", folder / "Pulumi.yaml")
    write_whole(stack_file, yaml_writer.dump({"config": {"aws:region": found.region}}))
    enter = (
        f"import sys\nfrom pathlib import Path\n\nsys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from twin.rehearse.registering import FILE, main\n\nmain(Path(__file__).with_name(FILE))\n"
    )
    write_whole(folder / "__main__.py", enter.encode())
    return folder


def _release(servers: Servers, region: str) -> Models:
    """Release the sample models, with their own configs, to a bucket of the twin."""
    client = Clients(region, servers.aws_url)("s3")
    place = {} if region == _WITHOUT_LOCATION else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    client.create_bucket(Bucket=_BUCKET, **place)
    manifest = publish.release(release_sources.SAMPLES, Store(client, Place(_BUCKET, servers.aws_url)))
    paths = tuple(f"{name}/versions/{entry.version}" for name, entry in manifest.models.items())
    return Models(f"s3://{servers.aws_url}/{_BUCKET}/{RELEASES_PREFIX}{manifest.id}", paths)


def _join(servers: Servers, part: Part) -> None:
    """Create a node for each pod that will run."""
    found: dict[str, dict[str, Any]] = {}
    for objects, counts in ((part.before, pods(part.servers)), (part.after, pods(part.servers_after))):
        for key, one in objects.items():
            if type_of(key) == DEPLOYMENT and (count := counts.get(one["metadata"]["name"])):
                found |= {node["metadata"]["name"]: node for node in stand_in.nodes(one, count)}
    client = servers.cluster().client
    for node in found.values():
        client.create("/api/v1/nodes", node)


def _apply(servers: Servers, stack: str, objects: Mapping[str, Manifest]) -> None:
    kubeconfig = json.dumps(parse_kubeconfig(str(servers.kubeconfig)), sort_keys=True)
    document = {"kubeconfig": kubeconfig, "objects": objects}
    write_whole(servers.program / registering.FILE, json.dumps(document).encode())
    if servers.engine().run(stack, ["up", "--yes", "--skip-preview"], awaiting.WITHOUT) != 0:
        raise EngineError(f"`pulumi up` of what serves in {stack} failed; what it says above is the cause")


def _wait(servers: Servers, models: Models, expected: Sequence[Server], say: Callable[[str], None]) -> None:
    names = [one.name for one in expected]
    readiness.wait(servers.home, servers.cluster(), models.release, say, _WAIT_SECONDS, names)
