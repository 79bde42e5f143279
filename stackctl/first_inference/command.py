"""Run `stackctl first-inference`: from a running stack to a model's answer, skipping completed steps."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from botocore.exceptions import BotoCoreError, ClientError

from console import proxied, pulumi_program
from console.program import interruptible
from console.terminal import output
from spec.failure import NOT_TRIED, Failure
from spec.names import (
    GATEWAY_HTTPS_PORT,
    INFERENCE_CLIENT_LABEL,
    RELEASE_MANIFEST,
    RELEASES_PREFIX,
    TRITON_HTTP_PORT,
    TRITON_NAMESPACE,
)
from spec.settings import Settings
from spec.settings.fleets import Fleet
from spec.settings.gateway import Gateway
from spec.stack_names import stack_file
from spec.wording import one_of
from stackctl import eks_health
from stackctl.account.cluster import Cluster, connect
from stackctl.account.guard import IDENTITY_OPERATIONS, caller, require_account
from stackctl.account.read_only import Readers, has_object
from stackctl.cost.command import hour_and_day, of_settings
from stackctl.eks_health import ailments, report
from stackctl.first_inference.nodes import NodeWait
from stackctl.first_inference.question import MODEL, Answer, ask, question
from stackctl.stack_settings import settings_of

MODELS = Path(".models")
"""The directory that `make models` writes."""
READY_SECONDS = 2700.0
"""Time for a GPU node to start and pull an image of some 10 GB, and for Triton to start.

A pod that gets no node is not waited for.
"""
_POLL_SECONDS = 2.0
_GATEWAY_SECONDS = httpx.Timeout(30, connect=5)
_AGAIN = "run the same command again, it goes on from here"


class NotUp(Failure):
    """The stack does not exist yet, or does not meet the requirements. The text has the first step."""

    exit_code = NOT_TRIED


class NotServing(Failure):
    """Triton does not become ready. The text gives the reason for each pod."""


def first_inference(stack: str, *, yes: bool, seconds: float = READY_SECONDS) -> str:
    """Release MODELS, serve them, request one, and print its addresses and cost.

    With `yes`, `pulumi up` needs no confirmation. Triton has `seconds` to become ready. Returns the answer as a sentence.
    Raises Failure.
    """
    settings = settings_of(stack)
    console = output(soft_wrap=True)
    say = console.print
    asked = question()
    require_models(settings)
    with interruptible(f"interrupted; what is done is done: {_AGAIN}"):
        readers = Readers(
            settings.region, {**IDENTITY_OPERATIONS, **eks_health.OPERATIONS, "s3": {"HeadObject": "s3:GetObject"}}
        )
        require_account(caller(readers), settings)
        outputs = _outputs(stack)
        _require_release(settings, readers, str(outputs["modelBucket"]))
        require_nothing_failed(settings, readers)
        try:
            outputs = _serve(stack, settings, outputs, yes=yes, say=say)
        except pulumi_program.PulumiFailed:
            require_nothing_failed(settings, readers)  # it gives more details
            raise
        fleet = _asked_fleet(settings_of(stack))
        _require_pods(fleet)
        with connect(outputs["clusterName"], outputs["region"], outputs["tritonRoleArn"], fleet.release) as cluster:
            pool = fleet.stack.triton.pool
            nodes = NodeWait(cluster, pool, lambda: ailments(readers, settings), lambda one: report(one, settings))
            pod = wait_until_ready(cluster, nodes, say, seconds)
            url = _gateway_url(cluster, settings.gateway)
            answer, way = _ask(cluster, pod, url, lambda post: ask(asked, post), say)
    values = ", ".join(f"{name} {found}" for name, found in answer.outputs.items())
    said = f"{MODEL} answered {values} in {answer.milliseconds} ms ({way})"
    _tell(stack, fleet, said, url, say)
    return said


def require_models(settings: Settings) -> None:
    """Refuse a stack without a pinned release if MODELS does not exist, or if the release needs a signature.

    It refuses before anything is created. Raises NotUp.
    """
    if settings.models.release is not None:
        return
    if settings.models.signers:
        sign = f"`python3 -m modelctl release {MODELS} --stack {settings.stack} --sign KEY`"
        raise NotUp(f"{stack_file(settings.stack)} has models.signers, and only you can sign: {sign}, then {_AGAIN}")
    if not MODELS.is_dir():
        raise NotUp(f"there is no directory {MODELS}, whose models are to be served: `make models` makes it, then {_AGAIN}")


def _outputs(stack: str) -> dict[str, Any]:
    """Return the stack outputs. Raises NotUp if a required one is missing."""
    outputs = pulumi_program.outputs(stack)
    if any(not isinstance(outputs.get(name), str) for name in ("clusterName", "region", "modelBucket", "tritonRoleArn")):
        raise NotUp(f"{stack} is not up yet: `pulumi up --stack {stack}` first, then {_AGAIN}")
    return outputs


def _asked_fleet(settings: Settings) -> Fleet[Settings]:
    """Return the first fleet that serves MODEL according to the stack file. Raises NotUp."""
    known = set[str]()
    for fleet in settings.each_fleet:
        release, keys = fleet.stack.models.release, fleet.keys
        # Without either, its models are unknown.
        models = release.models if release is not None else keys.models if keys is not None else [MODEL]
        if MODEL in models:
            return fleet
        known.update(models)
    raise NotUp(
        f"{stack_file(settings.stack)} serves no {MODEL}, the model that is asked here: ask one of its own instead, "
        f"{one_of(sorted(known))}"
    )


def _require_pods(fleet: Fleet[Settings]) -> None:
    """Refuse a fleet that may have no pod. Raises NotUp.

    This command would not start one.
    """
    if fleet.stack.fewest_pods == 0:
        raise NotUp(
            f"{fleet.release} may have no pod (autoscaling.minReplicas 0), and what starts one is a message in the request "
            "queue or a request at the gateway (docs/autoscaling.md): send that, or give minReplicas 1"
        )


def _require_release(settings: Settings, readers: Readers, bucket: str) -> None:
    """Refuse a pinned release that was deleted with an earlier bucket.

    Triton would wait for it. Raises NotUp.
    """
    release = settings.models.release
    if release is None:
        return
    key = f"{RELEASES_PREFIX}{release.id}/{RELEASE_MANIFEST}"
    try:
        there = has_object(readers("s3"), bucket, key)
    except (ClientError, BotoCoreError):
        return  # without permission to list the bucket, S3 does not say
    if not there:
        first = f"pulumi config rm --path triton-eks:models.release --stack {settings.stack}"
        raise NotUp(
            f"{stack_file(settings.stack)} pins release {release.label}, and s3://{bucket}/{key} is not there: `{first}`, "
            f"`pulumi up --stack {settings.stack}`, then {_AGAIN}"
        )


def _serve(
    stack: str, settings: Settings, outputs: dict[str, Any], *, yes: bool, say: Callable[[str], None]
) -> dict[str, Any]:
    """Deploy the pinned release and return the outputs.

    If no release is pinned or served, release MODELS first. Raises NotUp, PulumiFailed, Failure.
    """
    release, served = settings.models.release, outputs.get("releaseId")
    if served is not None and not pulumi_program.ended_well(stack):
        served = None  # an `up` that failed while it waited for Triton has also changed the outputs
    if release is None and served is None:
        _release(stack, str(outputs["modelBucket"]), say)
        settings = settings_of(stack)
        release = settings.models.release
    _asked_fleet(settings)  # before `up`, because that takes long
    if release is None or release.id == served:
        say(f"{stack} serves release {served}")
    else:
        say(f"`pulumi up` brings release {release.label} up ...")
        arguments = ["up", "--stack", stack, *(["--yes", "--skip-preview", "--non-interactive"] if yes else [])]
        if pulumi_program.run(arguments) != 0:
            raise pulumi_program.PulumiFailed(
                f"`pulumi {' '.join(arguments)}` ended with an error, which stands above, or nobody agreed; then {_AGAIN}"
            )
        outputs = _outputs(stack)
        if outputs.get("releaseId") != release.id:
            raise NotUp(f"`pulumi up` was not agreed to, so that release {release.label} is not served; {_AGAIN}")
    return outputs


def _release(stack: str, bucket: str, say: Callable[[str], None]) -> None:
    """Release MODELS with the user's command, which also pins the release. Raises Failure."""
    words = ["modelctl", "release", str(MODELS), "--bucket", bucket, "--pin", stack_file(stack)]
    say(f"python3 -m {' '.join(words)}")
    if subprocess.run([sys.executable, "-m", *words], check=False).returncode != 0:
        raise Failure(f"`modelctl release` ended with an error, which stands above; mend it, then {_AGAIN}")


def require_nothing_failed(settings: Settings, readers: Readers) -> None:
    """Refuse a stack whose node group or add-on AWS could not create. Raises NotServing."""
    try:
        failed = [one for one in ailments(readers, settings) if one.failed]
    except (ClientError, BotoCoreError):
        return  # without permission to read EKS, the pods show the problem
    if failed:
        raise NotServing("\n".join(["the stack is not whole:", *(f"  {report(one, settings)}" for one in failed)]))


def wait_until_ready(cluster: Cluster, nodes: NodeWait, say: Callable[[str], None], seconds: float = READY_SECONDS) -> str:
    """Wait until Triton is rolled out; return a pod's name.

    Each change of a pod's status is printed. Raises NotServing.
    """
    deadline, said = time.monotonic() + seconds, dict[str, str]()
    while True:
        done, pods = cluster.rolled_out(), cluster.pods()
        for pod in pods:
            if said.get(pod.name) != pod.status:
                say(f"  {pod.name}: {pod.status}")
                said[pod.name] = pod.status
        ready = sorted(pod.name for pod in pods if pod.ready)
        if done and ready:
            return ready[0]
        without_node = nodes.causes(pods)
        hopeless = bool(without_node) or any(pod.hopeless for pod in pods)
        if hopeless or time.monotonic() > deadline:
            why = "Triton does not start" if hopeless else f"Triton is not ready after {seconds:g} s"
            lines = [f"{why}:", *(f"  {cause}" for cause in without_node)]
            for pod in pods:
                if not pod.ready:
                    lines += [f"  {pod.name}: {pod.status}", *(f"    {line}" for line in cluster.last_lines(pod.name))]
            look = f"`kubectl --namespace {TRITON_NAMESPACE} describe pods` says more"
            raise NotServing("\n".join([*lines, f"{look}; mend it, then {_AGAIN}"]))
        time.sleep(_POLL_SECONDS)


def _gateway_url(cluster: Cluster, gateway: Gateway | None) -> str | None:
    """Return the gateway's HTTP address; None without a gateway or an address."""
    address = cluster.gateway_address() if gateway is not None else None
    if gateway is None or address is None:
        return None
    return f"https://{address}:{GATEWAY_HTTPS_PORT}" if gateway.encrypted else f"http://{address}:{TRITON_HTTP_PORT}"


def _ask(
    cluster: Cluster, pod: str, url: str | None, work: Callable[..., Answer], say: Callable[[str], None]
) -> tuple[Answer, str]:
    """Send the request to the gateway, or to a pod if it is unreachable.

    The pod is reached through the API server. Return the answer and the way.
    """
    if url is not None:
        try:
            return work(lambda path, body: _post(f"{url}{path}", body)), f"by the gateway at {url}"
        except httpx.HTTPError as error:
            say(f"the gateway at {url} is not reached from here ({error}): a pod is asked instead")
    return work(lambda path, body: cluster.post(pod, path, body)), f"pod {pod}, by the API server"


def _post(url: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
    with proxied.client(timeout=_GATEWAY_SECONDS) as asked:
        answer = asked.post(url, json=dict(body))
    return answer.status_code, answer.content


def _tell(stack: str, fleet: Fleet[Settings], answer: str, url: str | None, say: Callable[[str], None]) -> None:
    lines: Sequence[str] = (
        f"\n{answer}\n",
        *([f"clients outside   {url}"] if url is not None else []),
        f"clients inside    {fleet.http_url}, {fleet.grpc_url} (from namespaces with the label {INFERENCE_CLIENT_LABEL})",
        f"this machine      kubectl --namespace {TRITON_NAMESPACE} port-forward service/{fleet.release} {TRITON_HTTP_PORT}",
        f"price             {hour_and_day(of_settings(settings_of(stack)))}",
        f"to end it         python3 -m stackctl destroy {stack}",
    )
    for line in lines:
        say(line)
