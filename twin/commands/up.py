"""`make up`: bring the platform up from any state, until it answers an inference; each run repairs a failed one."""

import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from spec.failure import Failure
from spec.names import TRITON_NAMESPACE
from spec.settings import Settings
from spec.settings.fleets import Fleet
from spec.settings.source import load
from twin.aws import moto_server
from twin.cluster.launched import InstanceReader
from twin.cluster.node_groups import AwsReader
from twin.commands import fixed_pods, inference, interrupted, readiness
from twin.commands.inference import Answer
from twin.engine import stack_files
from twin.engine.engine import EngineError
from twin.engine.stack_files import STACK
from twin.host import processes, tools
from twin.host.home import REPOSITORY, TwinHome, write_json
from twin.plugins import awaiting
from twin.plugins.kubeconfig import LOST_ACCOUNT
from twin.services import release_sources
from twin.services.servers import PROGRAMS, Servers


class UpFailed(Failure):
    """`make up` stopped; the text gives the step, what happened there, and where to look."""


def programs(home: TwinHome, families: Sequence[str], output: Console) -> Mapping[str, Path]:
    """Return the programs of `up`. The first run builds them, and shows a preview as soon as Pulumi is built."""
    is_first = home.load_endpoints().kubeconfig is None
    with tools.building([*PROGRAMS, *families], output) as found:
        if is_first and found.lacks("control-plane"):
            preview(Servers.without_cluster(home, found.wait("pulumi"), output.print), output.print)
        return found.wait()


def up(home: TwinHome, servers: Servers, say: Callable[[str], None]) -> Answer | None:
    """Bring the `local` stack up on running servers; return the response of one inference, None if the fleet sleeps.

    The first `pulumi up` creates the platform and its bucket. Then the sample models are released to the bucket, and the
    release is pinned in the twin's copy of the stack. A second `pulumi up` starts Triton. If the bucket exists already, one
    run is enough. Raises UpFailed, EngineError, NotServing, DeadlinePassed or KubeError.
    """
    engine = servers.engine()
    stack_files.pin(home, STACK, "triton-eks:models.s3Endpoint", servers.aws_url)
    if "triton-eks:worker" in stack_files.sections(STACK, servers.program):
        stack_files.pin(home, STACK, "triton-eks:worker.awsEndpoint", servers.aws_url)
    else:  # else only this key would remain of a section that the tracked file lost
        stack_files.pin(home, STACK, "triton-eks:worker.awsEndpoint", None)
    interrupted.clear(home, engine, STACK)
    in_doubt = interrupted.creations_in_doubt(engine, STACK)
    lost = servers.aws_is_new and bool(engine.resources(STACK))
    if in_doubt:
        say(f"the last `pulumi up` was killed while it made {len(in_doubt)} resources: starting again with an empty account")
        _take_a_new_account(home, servers, say)
    elif lost:
        say("no `up` has finished with this AWS account (moto keeps it in memory, and loses it): making what it lacks")
    autoscaler_is_gone = False
    if not (in_doubt or lost):
        settings = load(stack_files.config(home, STACK, servers.program), STACK)
        fixed_pods.hand_back(servers.cluster().client, settings, say)
        fixed_pods.take_back(servers.cluster().client, settings, say)
        if stack_files.autoscaling(home):
            autoscaler_is_gone = fixed_pods.is_gone(servers.cluster().client, engine.resources(STACK))
    released_to = None if in_doubt or lost else engine.outputs(STACK).get("modelBucket")
    if released_to is not None:
        # Release before `pulumi up`: the program refuses a release that was made for other requirements than
        # `models.serving` has.
        release_and_pin(home, servers, str(released_to))
    is_new_account = bool(in_doubt) or lost
    _pulumi_up(servers, is_new_account=is_new_account, refresh=is_new_account or autoscaler_is_gone)
    outputs = engine.outputs(STACK)
    if outputs["modelBucket"] != released_to:
        is_other_release = release_and_pin(home, servers, str(outputs["modelBucket"]))
        # A Triton that has already started does not look again for models that were missing.
        servers.cluster().delete_unready_pods(TRITON_NAMESPACE)
        if is_other_release:
            _pulumi_up(servers)
    # From here on, the nodes of a lost account are drained and their pods start on other nodes, so the models must exist.
    moto_server.acknowledge(home)
    aws = AwsReader(servers.aws_url, str(outputs["region"]))
    readiness.wait_for_machines(servers.cluster(), aws, InstanceReader(aws), say)
    changes = engine.last_update(STACK).changes
    if set(changes) == {"same"}:
        say(f"no changes: all {changes['same']} resources are as the program says")
    if stack_files.gateway(home):
        readiness.wait_for_gateway(servers.cluster(), say)
    return _first_answer(home, servers, say)


def preview(servers: Servers, say: Callable[[str], None]) -> None:
    """Show what the first `up` will create, on a twin without a cluster. Ignore failures, because `up` reports them."""
    say(
        "while the rest is built, this is what `pulumi up` will make. There is no Kubernetes API server yet to check it, "
        "and the warnings at its end say so"
    )
    servers.engine().run(STACK, ["preview"])


def _take_a_new_account(home: TwinHome, servers: Servers, say: Callable[[str], None]) -> None:
    """Replace the twin's account with an empty one, because the engine cannot find resources that may or may not exist."""
    account = processes.find(home, moto_server.NAME)
    if account is not None:
        processes.stop(home, account)
    moto_server.ensure(home, say)
    refresh = ["refresh", "--yes", "--skip-preview", "--non-interactive", "--clear-pending-creates"]
    servers.engine().read(STACK, refresh, LOST_ACCOUNT)


def _pulumi_up(servers: Servers, *, is_new_account: bool = False, refresh: bool = False) -> None:
    """Run `pulumi up` without waiting for pods: the first run has no models for them yet, and readiness.py prints more."""
    arguments = ["up", "--yes", "--skip-preview", *(["--refresh"] if refresh else [])]
    code = servers.engine().run(STACK, arguments, {**awaiting.WITHOUT, **(LOST_ACCOUNT if is_new_account else {})})
    if code != 0:
        raise EngineError(
            f"`pulumi up` of the stack {STACK} ended with {code}; what it says above is the cause. "
            "What it made is in its state: mend the cause and run `make up` again, it goes on from there."
        )


def release_and_pin(home: TwinHome, servers: Servers, bucket: str) -> bool:
    """Release the models with the same command as a person; return whether the pinned release changed.

    Raises UpFailed, or NotPrepared.
    """
    pins = stack_files.pins_file(home, STACK)
    before = pins.read_bytes()
    command = [
        sys.executable,
        "-m",
        "modelctl",
        "release",
        str(release_sources.prepare(home, servers.program)),
        "--bucket",
        bucket,
        "--pin",
        str(pins),
    ]
    code = subprocess.run(command, cwd=REPOSITORY, env=servers.engine().environment, check=False).returncode
    if code != 0:
        raise UpFailed(f"`modelctl release` ended with {code}; what it says above is the cause")
    return pins.read_bytes() != before


def _first_answer(home: TwinHome, servers: Servers, say: Callable[[str], None]) -> Answer | None:
    view = servers.cluster()
    release = (stack_files.pinned_release(home, STACK) or {}).get("id", "")
    fleets = stack_files.fleets(home, STACK, servers.program)
    seconds = readiness.wait(home, view, release, say, deployments=[fleet.release for fleet in fleets])
    asked = asked_fleet(home, servers.program)
    addresses = readiness.addresses(view, service=asked.release, may_sleep=_may_sleep(asked))
    if not addresses:
        say(_asleep(asked))
        return None
    say(f"Triton is Ready at {', '.join(addresses)} ({seconds:.1f} s)")
    try:
        answer = inference.infer(addresses[0])
    except inference.InferenceFailed:
        # the autoscaler acted since the last check
        if _may_sleep(asked) and view.wanted(TRITON_NAMESPACE, asked.release) == 0:
            say(_asleep(asked))
            return None
        raise
    if release_sources.reads_pictures(home):
        read = inference.read_picture(addresses[0], inference.picture_of(inference.PICTURE_TEXT))
        answer = dataclasses.replace(answer, read=tuple(read))
    write_json(
        last_inference_file(home),
        {**dataclasses.asdict(answer), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
    )
    return answer


def _may_sleep(fleet: Fleet[Settings]) -> bool:
    bounds = fleet.stack.autoscaling
    return bounds is not None and bounds.min_replicas == 0


def _asleep(fleet: Fleet[Settings]) -> str:
    """Return a message that says why no inference was sent, and what starts the first pod."""
    wakes = []
    if fleet.stack.worker is not None:
        wakes.append("a message in the request queue (`python3 -m twin load --rate 1 --seconds 5 --sqs`)")
    if fleet.stack.woken_at_gateway:
        wakes.append("a request at the gateway, which is answered 503 until the pod is ready")
    return (
        f"{fleet.release} sleeps, so that no inference was tried: autoscaling.minReplicas is 0, and KEDA takes the last pod "
        f"while nobody asks. What starts the first one: {', or '.join(wakes)}"
    )


def asked_fleet(home: TwinHome, program: Path = REPOSITORY) -> Fleet[Settings]:
    """Return the first fleet that serves the sample ensemble. Raises UpFailed if there is none, and SettingsError."""
    fleets = stack_files.fleets(home, STACK, program)
    found = next((fleet for fleet in fleets if fleet.serves(inference.MODEL)), None)
    if found is None:
        raise UpFailed(f"no fleet of the stack {STACK} serves {inference.MODEL}, which is asked to show that it works")
    return found


def last_inference_file(home: TwinHome) -> Path:
    """Return the file with the response of the last inference, for `twin status`."""
    return home.path / "last-inference.json"
