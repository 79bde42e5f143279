"""The real External Secrets Operator as a local process, if the program installs the chart `external-secrets`.

Its arguments come from the chart's Deployment, and its permissions in the cluster from the chart. It reads secrets in moto,
with credentials of Pod Identity (identity/pod_identity.py). It is one process, whatever `replicaCount` is, without leader
election.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from twin.charts.external_secrets import CHART, FAMILY, TEMPLATES
from twin.host import ports, processes, tools
from twin.identity import pod_identity
from twin.releases import go_module, programs
from twin.releases.chart import Announce, ChartContext, Release
from twin.releases.program_files import ProgramFiles
from twin.releases.programs import Program, keep_running

NAME = "external-secrets"
"""The name of the chart, its release, its service account, and the program."""
_AWS_TOKEN = "aws-token"
_METRICS, _HEALTH = "external-secrets-metrics", "external-secrets-health"
"""The kept ports."""


class ExternalSecrets:
    """The program of the chart (`releases.chart.ChartPrograms`)."""

    def __init__(self, context: ChartContext) -> None:
        self._context = context
        self._home = context.home

    async def run(self, release: Release, ready: Announce) -> None:
        """Run the operator. See ChartPrograms."""
        binary = tools.built((FAMILY,))[NAME]
        objects = await asyncio.to_thread(go_module.templates, CHART, TEMPLATES, release.namespace, release.values)
        deployment = next(item for item in objects if item["kind"] == "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        own = {item["name"]: item["value"] for item in pod["containers"][0].get("env") or ()}
        audience = pod_identity.token_audience(pod, own.get(pod_identity.TOKEN_FILE, ""))
        files = ProgramFiles(self._context, NAME, NAME, {_AWS_TOKEN: audience} if audience is not None else {})
        async with files.kept_fresh(release.namespace, (NAME, "localhost")):
            held = processes.find(self._home, NAME) is not None
            listen = {name: f"127.0.0.1:{ports.keep(self._home, name, held=held)}" for name in (_METRICS, _HEALTH)}
            argv = (str(binary), *arguments(deployment, listen[_METRICS], listen[_HEALTH]))
            environment = {
                "KUBECONFIG": str(files.kubeconfig),
                **files.proxied(),
                **files.in_aws(),
                **pod_identity.on_this_machine(own, self._context.pod_identity_url, files.directory / _AWS_TOKEN),
                # The operator's own variable for this service; it ignores the SDK's variable.
                "AWS_SECRETSMANAGER_ENDPOINT": self._context.aws_url,
            }
            service = files.service(NAME, argv, environment)
            async with httpx.AsyncClient(trust_env=False, timeout=5.0) as client:
                program = Program(service, lambda: programs.answers(client, f"http://{listen[_HEALTH]}/healthz"))
                await keep_running(self._home, [program], ready)

    async def remove(self) -> None:
        """Stop the operator. See ChartPrograms."""
        await programs.stop(self._home, NAME)


def arguments(deployment: Mapping[str, Any], metrics: str, health: str) -> list[str]:
    """Return the arguments of the operator's container, with these addresses to listen at."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    own = ("--enable-leader-election", "--metrics-addr", "--live-addr")
    given = [flag for flag in container["args"] if flag.partition("=")[0] not in own]
    return [*given, "--enable-leader-election=false", f"--metrics-addr={metrics}", f"--live-addr={health}"]
