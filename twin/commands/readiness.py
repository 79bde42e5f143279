"""Wait until every Triton pod serves the pinned release; print the progress, and give up early on hopeless pods."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from spec.failure import Failure
from spec.names import GATEWAY_NAMESPACE, TRITON_DEPLOYMENT, TRITON_NAMESPACE, TRITON_SERVICE
from twin.cluster.launched import InstanceReader
from twin.cluster.node_groups import AwsReader
from twin.cluster.node_objects import node_name
from twin.cluster.view import ClusterView, Pod
from twin.host.home import TwinHome
from twin.host.processes import wait_until
from twin.triton import triton_log

SECONDS = 180.0
"""Time limit for Triton: it starts in under 10 s on an idle machine, but this one may be busy."""
ENDPOINTS_SECONDS = 60.0
"""Time limit for the endpoints of its Service to follow its pods."""
RESTARTS = 2
"""How many times a server may exit during the wait. A model that fails to load fails again."""
GATEWAY_SECONDS = 120.0
"""Time limit for the gateway's Envoys: a few seconds on an idle machine."""
MACHINES_SECONDS = 180.0
"""Time limit for the nodes of a deleted group: 60 s to evict their pods (cluster/nodes.py), on a busy machine."""
_POLL_SECONDS = 0.3
_SAID_CAUSES = 8
_NEXT = "Mend that (models/, helm-values/triton/) and run `make up` again: the rest of the platform is up and stays."


class NotServing(Failure):
    """Triton does not serve the release; the text has the problems of each pod, and the path of its log."""


@dataclass
class _Watch:
    """The pods as seen so far. `first`: each pod's restarts when it was first seen; `said`: its last printed status."""

    first: dict[str, int] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def news(self, pods: list[Pod]) -> list[str]:
        """Return a line for each pod whose status changed."""
        lines = []
        for pod in pods:
            self.first.setdefault(pod.uid, pod.restarts)
            status = "Ready" if pod.ready else pod.status or "Pending"
            if self.said.get(pod.uid) != status:
                self.said[pod.uid] = status
                restarts = f" (restarts: {pod.restarts})" if pod.restarts and not pod.ready else ""
                lines.append(f"  {pod.name}: {status}{restarts}")
        return lines

    def hopeless(self, pods: list[Pod]) -> list[Pod]:
        """Return the pods that exited RESTARTS times or more during the wait."""
        return [pod for pod in pods if not pod.ready and pod.restarts - self.first[pod.uid] >= RESTARTS]


def wait(
    home: TwinHome,
    view: ClusterView,
    release: str,
    say: Callable[[str], None],
    seconds: float = SECONDS,
    deployments: Sequence[str] = (TRITON_DEPLOYMENT,),
) -> float:
    """Wait for the rollout of `release` and return how long it took, in seconds. Raises NotServing, KubeError.

    `deployments`: the Deployments of all fleets of Triton.
    """
    say(f"waiting until every Triton pod serves release {release} (at most {seconds:g} s) ...")
    started, watch = time.monotonic(), _Watch()
    while not all(view.rolled_out(TRITON_NAMESPACE, deployment) for deployment in deployments):
        pods = [pod for pod in view.pods() if pod.namespace == TRITON_NAMESPACE]
        for line in watch.news(pods):
            say(line)
        hopeless = watch.hopeless(pods)
        if hopeless:
            raise NotServing(f"Triton does not start with release {release}:\n{_explain(home, view, hopeless)}\n{_NEXT}")
        if time.monotonic() - started > seconds:
            unready = _explain(home, view, [pod for pod in pods if not pod.ready])
            look = f"`kubectl describe deployment -n triton {' '.join(deployments)}`"
            raise NotServing(
                f"not every Triton pod serves release {release} after {seconds:g} s:\n"
                f"{unready or f'  no pod says why: see {look}'}\n{_NEXT}"
            )
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - started


def wait_for_gateway(view: ClusterView, say: Callable[[str], None], seconds: float = GATEWAY_SECONDS) -> None:
    """Wait until every Envoy of the gateway is ready; until then its load balancer has no target.

    The program does not wait for them: Envoy Gateway creates their Deployment after it has read the Gateway.
    Raises DeadlinePassed, KubeError.
    """

    def ready() -> bool:
        envoys = [pod for pod in view.pods() if pod.namespace == GATEWAY_NAMESPACE and not pod.ending]
        return bool(envoys) and all(pod.ready for pod in envoys)

    say(f"waiting until the gateway's Envoys are ready (at most {seconds:g} s) ...")
    wait_until(ready, f"the Envoys of the namespace {GATEWAY_NAMESPACE} to be ready", seconds, poll=_POLL_SECONDS)


def wait_for_machines(
    view: ClusterView,
    aws: AwsReader,
    instances: InstanceReader,
    say: Callable[[str], None],
    seconds: float = MACHINES_SECONDS,
) -> None:
    """Wait until every node has a machine in AWS: pods of a replaced node group must first move.

    Raises DeadlinePassed, KubeError.
    """
    said = False

    def drained() -> bool:
        nonlocal said
        try:
            groups, launched = aws.node_groups(), instances.running()
        except (BotoCoreError, ClientError):  # a busy moto is tried again
            return False
        wanted = {node_name(group, index) for group in groups for index in range(group.desired)}
        wanted |= {instance.name for instance in launched}
        leaving = [node for node in view.nodes() if node not in wanted]
        if leaving and not said:
            say(f"waiting until nodes that AWS has no more are drained: {', '.join(leaving)} (at most {seconds:g} s) ...")
            said = True
        return not leaving

    wait_until(drained, "nodes that AWS has no more to be drained", seconds, poll=_POLL_SECONDS)


def addresses(
    view: ClusterView, seconds: float = ENDPOINTS_SECONDS, service: str = TRITON_SERVICE, *, may_sleep: bool = False
) -> list[str]:
    """Return the sorted addresses at which Triton takes requests, once its Service has only addresses of ready pods.

    `service`: the fleet's Service, which has the name of its Deployment. `may_sleep`: its autoscaler may scale to 0 pods,
    and then there are no addresses to wait for. The endpoints follow the pods a moment later. After a rollout the Service
    may still have no address, or the address of a terminating pod. Raises DeadlinePassed, KubeError.
    """

    def settled() -> list[list[str]]:
        if may_sleep and view.wanted(TRITON_NAMESPACE, service) == 0:
            return [[]]
        found = view.service_addresses(TRITON_NAMESPACE, service)
        taking = {pod.address for pod in view.pods() if pod.namespace == TRITON_NAMESPACE and pod.ready and not pod.ending}
        return [found] if found and set(found) <= taking else []

    return wait_until(settled, f"the Service {service} to have the addresses of its ready pods", seconds)[0]


def _explain(home: TwinHome, view: ClusterView, pods: list[Pod]) -> str:
    """Return the known problems of each pod: the causes in its log, or else its last warnings; and the log's path.

    A running server may have restarted, so the causes may be from an earlier start. The result of its readiness probe,
    which is current, therefore comes first.
    """
    lines = []
    for pod in pods:
        lines.append(f"  {pod.name} ({pod.status or 'Pending'}, restarts: {pod.restarts}):")
        logs = sorted((home.pods / pod.uid).glob("*.log"))
        causes = [cause for log in logs for cause in triton_log.causes(log)][:_SAID_CAUSES]
        warnings = view.warnings(pod.namespace, pod.name)
        told = [*(warnings[-1:] if pod.status == "Running" else []), *causes] if causes else warnings[-3:]
        lines += [f"    {line}" for line in told]
        lines += [f"    log: {log}" for log in logs]
    return "\n".join(lines)
