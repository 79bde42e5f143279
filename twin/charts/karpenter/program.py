"""The real Karpenter as a local process, if the program installs the chart `karpenter`.

Its environment comes from the chart's Deployment, and its permissions in the cluster from the chart. It reads pods,
NodePools and EC2NodeClasses. It launches, describes and terminates instances in moto through an endpoint that checks each
call against the policy of its role (endpoint.py). The machines join as nodes (twin/cluster/instances.py). Its credentials
come from Pod Identity (identity/pod_identity.py). It is one process, whatever `replicas` is. It differs from the chart in
two ways. It uses its built-in prices, because moto has no price list (`ISOLATED_VPC`), and it has no leader election.
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
"""The name of the chart, its release, the program, and its family."""
_LISTEN = "127.0.0.1"
_START_SECONDS = 150.0
"""It first reads all instance types and offerings from moto, which may be busy."""
_AWS_TOKEN = "aws-token"
_METRICS, _HEALTH, _AWS = "karpenter-metrics", "karpenter-health", "karpenter-aws"
"""The kept ports: two of the controller, and the agent's AWS endpoint, whose address the controller gets."""


class Karpenter:
    """The program of the chart (`releases.chart.ChartPrograms`)."""

    def __init__(self, context: ChartContext) -> None:
        self._context = context
        self._home = context.home

    async def run(self, release: Release, ready: Announce) -> None:
        """Run the controller. See ChartPrograms."""
        binary = tools.built((NAME,))[NAME]
        objects = await asyncio.to_thread(go_module.templates, CHART, TEMPLATES, release.namespace, release.values)
        deployment = next(item for item in objects if item["kind"] == "Deployment")
        given = environment(deployment, release.namespace)
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        clients = Clients(self._context.region, self._context.aws_url)
        cluster, pod = given["CLUSTER_NAME"], deployment["spec"]["template"]["spec"]
        role = await asyncio.to_thread(role_arn, clients, cluster, release.namespace, account)
        # The container's own variables take precedence over the webhook's, which are added at admission, that is, now.
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
                    # Pods cannot reach it because of the nodes' hop limit.
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
        """Stop the controller. Its nodes are deleted with their NodePools, which the engine deletes before the chart."""
        await programs.stop(self._home, NAME)


def environment(deployment: Mapping[str, Any], namespace: str) -> dict[str, str]:
    """Return the variables of the controller's container, as a kubelet would set them."""
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
    """Return the role that the cluster gives to pods of a service account. Raises ChartFailed."""
    name = lookup.record_name(cluster, access.POD_IDENTITIES, namespace, account)
    found = records.get(clients, name)
    if found is None:
        raise ChartFailed(
            f"{NAME} {KARPENTER.version}: the cluster {cluster} has no pod identity for the service account "
            f"{namespace}/{account}, so its pods would have no role in AWS"
        )
    return str(found["roleArn"])
