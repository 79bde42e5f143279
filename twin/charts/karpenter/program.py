"""The real Karpenter as a process of this machine, where the program installs the chart `karpenter`.

Its environment is that of the chart's Deployment, and its rights in the cluster are the chart's. It reads pods, NodePools
and EC2NodeClasses, and launches, describes and ends instances in moto through an endpoint that holds each call against the
policy of its role (endpoint.py); the machines join as nodes by twin/cluster/instances.py. Its credentials are those of Pod
Identity (identity/pod_identity.py). One process, whatever `replicas` says. Two things are not the chart's: moto has no price
list, so it goes by the prices that it brings (`ISOLATED_VPC`), and it elects no leader.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import httpx

from spec.charts import KARPENTER
from twin.aws.base import records
from twin.aws.base.clients import Clients
from twin.aws.eks import access, lookup
from twin.charts.karpenter import CHART, TEMPLATES
from twin.charts.karpenter.endpoint import Endpoint
from twin.cluster import quantity
from twin.host import ports, processes, tools
from twin.identity import pod_identity
from twin.releases import go_module, programs
from twin.releases.chart import Announce, ChartContext, ChartFailed, Release
from twin.releases.program_files import ProgramFiles
from twin.releases.programs import Program, keep_running

NAME = "karpenter"
"""Of the chart, its release, the program, and its family."""
_LISTEN = "127.0.0.1"
_START_SECONDS = 150.0
"""It reads all instance types and offerings first, of a moto that may be busy."""
_AWS_TOKEN = "aws-token"
_METRICS, _HEALTH, _AWS = "karpenter-metrics", "karpenter-health", "karpenter-aws"
"""The kept ports: of the first two the controller's, of the last one the agent's, which the controller is told."""


class Karpenter:
    """The program of the chart (`releases.chart.ChartPrograms`)."""

    def __init__(self, context: ChartContext) -> None:
        self._context = context
        self._home = context.home

    async def run(self, release: Release, ready: Announce) -> None:
        """Run it. See ChartPrograms."""
        binary = tools.built((NAME,))[NAME]
        objects = await asyncio.to_thread(go_module.templates, CHART, TEMPLATES, release.namespace, release.values)
        deployment = next(item for item in objects if item["kind"] == "Deployment")
        given = environment(deployment, release.namespace)
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        clients = Clients(self._context.region, self._context.aws_url)
        cluster, pod = given["CLUSTER_NAME"], deployment["spec"]["template"]["spec"]
        role = await asyncio.to_thread(role_arn, clients, cluster, release.namespace, account)
        # What the container has itself comes before what the webhook adds at the admission, which is now.
        admitted = await asyncio.to_thread(pod_identity.injected, clients, cluster, release.namespace, account)
        given = {**admitted, **given}
        own_token = pod_identity.token_audience(pod, given.get(pod_identity.TOKEN_FILE, ""))
        audience = own_token if own_token is not None else pod_identity.AUDIENCE if admitted else None
        files = ProgramFiles(self._context, NAME, NAME, {_AWS_TOKEN: audience} if audience is not None else {})
        given = pod_identity.on_this_machine(given, self._context.pod_identity_url, files.directory / _AWS_TOKEN)
        async with files.kept_fresh(release.namespace, (NAME, "localhost")):
            held = processes.find(self._home, NAME) is not None
            listen = {name: ports.keep(self._home, name, held=held) for name in (_METRICS, _HEALTH)}
            aws_port = ports.keep(self._home, _AWS)
            aws = Endpoint(self._context.aws_url, self._context.region, role, files.directory / "aws-calls.json")
            server = await aws.start(aws_port)
            try:
                own = {
                    **given,
                    "KUBECONFIG": str(files.kubeconfig),
                    "TWIN_ADDRESS": _LISTEN,
                    "METRICS_PORT": str(listen[_METRICS]),
                    "HEALTH_PROBE_PORT": str(listen[_HEALTH]),
                    "DISABLE_LEADER_ELECTION": "true",
                    "ISOLATED_VPC": "true",
                    "AWS_ENDPOINT_URL": f"http://{_LISTEN}:{aws_port}",
                    # By the hop limit of the nodes, pods do not reach it.
                    "AWS_EC2_METADATA_DISABLED": "true",
                    "AWS_CONFIG_FILE": os.devnull,
                    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
                    **files.proxied(),
                }
                service = files.service(NAME, (str(binary),), own)
                async with httpx.AsyncClient(trust_env=False, timeout=5.0) as client:
                    url = f"http://{_LISTEN}:{listen[_HEALTH]}/readyz"
                    program = Program(service, lambda: programs.answers(client, url), _START_SECONDS, restarts=True)
                    await keep_running(self._home, [program], ready)
            finally:
                await server.cleanup()

    async def remove(self) -> None:
        """End the controller. Its nodes go with their NodePools, which the engine removes before the chart."""
        await programs.stop(self._home, NAME)


def environment(deployment: Mapping[str, Any], namespace: str) -> dict[str, str]:
    """Return the variables of the controller's container, as a kubelet would give them to it."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    resources = container.get("resources") or {}
    found = {}
    for item in container["env"]:
        source = item.get("valueFrom") or {}
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "metadata.namespace", source
            found[item["name"]] = namespace
        elif "resourceFieldRef" in source:
            kind, _, resource = source["resourceFieldRef"]["resource"].partition(".")
            amount = (resources.get(kind) or {}).get(resource)
            if amount is not None:
                unit = quantity.parse(source["resourceFieldRef"].get("divisor") or "1") or 1
                found[item["name"]] = str(int(quantity.parse(str(amount)) / unit))
        else:
            found[item["name"]] = str(item.get("value", ""))
    return found


def role_arn(clients: Clients, cluster: str, namespace: str, account: str) -> str:
    """Return the role that the cluster gives the pods of a service account. Raises ChartFailed."""
    name = lookup.record_name(cluster, access.POD_IDENTITIES, namespace, account)
    found = records.get(clients, name)
    if found is None:
        raise ChartFailed(
            f"{NAME} {KARPENTER.version}: the cluster {cluster} has no pod identity for the service account "
            f"{namespace}/{account}, so its pods would have no role in AWS"
        )
    return str(found["roleArn"])
