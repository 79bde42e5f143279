"""The life of one pod that runs as processes: address, volumes, identity, containers, status, and end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from spec.files import write_whole
from twin.cluster import node_objects, pod_addresses
from twin.cluster.kube_api import KubeApi, Object, timestamp
from twin.cluster.kube_errors import ApiError, KubeError
from twin.cluster.pod_addresses import Addresses, NoAddress
from twin.host.home import TwinHome
from twin.host.processes import Service
from twin.identity import account_tokens, irsa, pod_identity
from twin.identity.exchange import IdentityExchange
from twin.identity.irsa import IdentityRefused
from twin.pods import pod_spec, pod_status, pod_volumes
from twin.pods.events import Events
from twin.pods.pod_process import ContainerProcess, backoff, process_name
from twin.pods.pod_spec import SpecError
from twin.pods.pod_status import ContainerStatus, is_sidecar
from twin.pods.pod_volumes import PathRewriter
from twin.pods.program import Launch, PodProgram, PodPrograms

log = logging.getLogger("twin.pods")
_STOP_ORDER = 90
_KEPT_DIRECTORIES = 20
_SYNC_SECONDS = 5.0
"""How often volumes are updated from their ConfigMaps and Secrets. The kubelet takes up to about a minute."""
_RETRY_SECONDS = 0.5
"""The pause before another request to an API server that did not answer."""
_COMMAND_SECONDS = 30.0
_LOOK_SECONDS = 0.1
"""The pause between two checks whether a sidecar has started."""


@dataclass(frozen=True)
class PodContext:
    """The environment that all pods of one twin share.

    `dns_port`, `proxy_port`: the ports of the cluster's DNS and of its HTTP proxy. `pod_identity_url`: the Pod Identity
    agent of all nodes.
    """

    home: TwinHome
    api: KubeApi
    identity: IdentityExchange
    addresses: Addresses
    events: Events
    programs: PodPrograms
    dns_port: int
    proxy_port: int
    pod_identity_url: str


class PodWorker:
    """Runs one pod from its scheduling to its removal from the API."""

    def __init__(self, pod: Object, shared: PodContext) -> None:
        self._pod = pod
        self._shared = shared
        self._uid: str = pod["metadata"]["uid"]
        self._directory = shared.home.pods / self._uid
        self._path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self._start_time = pod.get("status", {}).get("startTime") or timestamp()
        self._pod_ip: str | None = pod.get("status", {}).get("podIP")
        self._dirty = asyncio.Event()
        self._deleted = asyncio.Event()
        self._gone = False
        self._inits: list[ContainerProcess] = []
        for container in pod["spec"].get("initContainers") or []:
            program = shared.programs.of(container)
            if program is not None and program.sidecar:
                policy = "Always" if is_sidecar(container) else "OnFailure"
                self._inits.append(self._container_process(container, program, restart_policy=policy))
        self._processes: list[ContainerProcess] = []
        self._simulated: list[ContainerStatus] = []
        for container in pod["spec"]["containers"]:
            program = shared.programs.of(container)
            if program is not None:
                self._processes.append(self._container_process(container, program))
            else:
                self._simulated.append(ContainerStatus.simulated(container))
        self.update(pod)

    @property
    def pod(self) -> Object:
        """Return the pod as last seen."""
        return self._pod

    async def execute(self, container: str, command: list[str]) -> tuple[int, str] | None:
        """Run a command in a container; return exit code and output. None without a process of that name."""
        for process in (*self._inits, *self._processes):
            if process.name == process_name(self._pod, {"name": container}):
                return await process.execute(command, _COMMAND_SECONDS)
        return None

    def update(self, pod: Object) -> None:
        """Set the pod's new version: it may be deleted now, or its grace period may be shorter."""
        self._pod = pod
        if "deletionTimestamp" in pod["metadata"]:
            grace = self._grace()
            if self._deleted.is_set():
                for process in (*self._inits, *self._processes):
                    process.hurry(grace)
            self._deleted.set()
        if pod["spec"].get("readinessGates") or self._is_said_to_be_unready():
            self._dirty.set()

    def remove(self) -> None:
        """Stop its processes at once: the pod was removed from the API (a forced deletion)."""
        self._gone = True
        for process in (*self._inits, *self._processes):
            process.hurry(0)
        self._deleted.set()

    async def run(self) -> None:
        """Run the pod; return when it has been removed from the API, or its restart policy ends it."""
        if self._pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            await self._deleted.wait()
            await self._finish()
            return
        running = asyncio.create_task(self._run_containers())
        beside = [asyncio.create_task(self._publish())]
        if pod_volumes.follows_sources(self._pod):
            beside.append(asyncio.create_task(self._follow_sources()))
        self._dirty.set()
        try:
            await self._deleted.wait()
            grace = 0.0 if self._gone else self._grace()
            ended = time.monotonic() + grace
            first = [process for process in self._inits if not process.is_sidecar]
            await asyncio.gather(*(process.stop(grace) for process in (*first, *self._processes)))
            # Sidecars end after the other containers.
            left = max(0.0, ended - time.monotonic())
            await asyncio.gather(*(process.stop(left) for process in self._inits if process.is_sidecar))
            await running
        finally:
            for task in (running, *beside):
                task.cancel()
            await asyncio.gather(running, *beside, return_exceptions=True)
        await self._finish()

    async def _run_containers(self) -> None:
        """Run the init containers in order, each until it succeeds, or a sidecar until it has started; then all others."""
        async with asyncio.TaskGroup() as beside:
            for init in self._inits:
                if init.is_sidecar:
                    beside.create_task(self._run_container(init))
                    while not init.status.started and not self._deleted.is_set():
                        await asyncio.sleep(_LOOK_SECONDS)
                elif not init.status.succeeded:
                    await self._run_container(init)
            if not self._deleted.is_set():
                await asyncio.gather(*(self._run_container(process) for process in self._processes))

    async def _run_container(self, process: ContainerProcess) -> None:
        failures = 0
        while not self._deleted.is_set():
            try:
                return await process.run()
            except Exception:
                log.exception("%s: the runner's own fault; it is taken up again", process.name)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff(failures)):
                    await self._deleted.wait()
            failures += 1

    async def _finish(self) -> None:
        """Report how the containers exited; remove the pod from the API and its volumes from the disk."""
        while not self._gone:
            try:
                await self._leave_the_api()
                break
            except KubeError as error:
                # Retry here, because a terminating pod does not change any more, so no event would trigger a retry.
                log.warning("pod %s is not gone yet: %s: %s", self._pod["metadata"]["name"], type(error).__name__, error)
                await asyncio.sleep(_RETRY_SECONDS)
        self._shared.addresses.release(self._uid)
        discard(self._shared.home, self._uid)
        log.info("pod %s is gone", self._pod["metadata"]["name"])

    async def _leave_the_api(self) -> None:
        with contextlib.suppress(ApiError):
            await self._patch_status()
        precondition = {"preconditions": {"uid": self._uid}, "gracePeriodSeconds": 0}
        await self._shared.api.delete(self._path, precondition)

    def _grace(self) -> float:
        return float(self._pod["metadata"].get("deletionGracePeriodSeconds") or 0)

    def _container_process(
        self, container: Mapping[str, Any], program: PodProgram, restart_policy: str | None = None
    ) -> ContainerProcess:
        async def prepare() -> tuple[Service, PathRewriter]:
            return await self._prepare(container, program)

        return ContainerProcess(
            self._shared.home,
            self._pod,
            container,
            restart_policy=restart_policy,
            address=lambda: pod_addresses.loopback(self._pod_ip or ""),
            prepare=prepare,
            report=self._report,
            changed=self._dirty.set,
        )

    async def _report(self, reason: str, message: str, kind: str) -> None:
        if kind == "Warning":
            log.warning("pod %s: %s: %s", self._pod["metadata"]["name"], reason, message)
        with contextlib.suppress(KubeError):
            await self._shared.events.record(self._pod, reason, message, kind)

    async def _publish(self) -> None:
        """Write the status after each change; if the API server is not available, try again."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._patch_status()
            except ApiError as error:
                if error.status != 404:
                    log.warning("status of pod %s: %s", self._pod["metadata"]["name"], error)
                    self._dirty.set()
                    await asyncio.sleep(_RETRY_SECONDS)
            except KubeError:
                self._dirty.set()
                await asyncio.sleep(_RETRY_SECONDS)

    def _is_said_to_be_unready(self) -> bool:
        """Return whether the API shows a ready pod as unready: the node controller does so if a node was silent for a while.

        The kubelet corrects this as soon as it is back.
        """
        said = pod_status.is_ready(self._pod.get("status", {}))
        return said is False and pod_status.is_ready(self._status()) is True

    def _status(self) -> Object:
        statuses = [*(process.status for process in self._processes), *self._simulated]
        inits = [process.status for process in self._inits]
        return pod_status.pod_status(self._pod, statuses, self._pod_ip, self._start_time, inits)

    async def _patch_status(self) -> None:
        status = self._status()
        body = {"metadata": {"uid": self._uid}, "status": status}
        self._pod = await self._shared.api.patch(f"{self._path}/status", body)

    async def _prepare(self, container: Mapping[str, Any], program: PodProgram) -> tuple[Service, PathRewriter]:
        """Create everything that the container's process needs, again for each start. Raises SpecError."""
        try:
            return await self._make_service(container, program)
        except KubeError as error:
            raise SpecError("FailedToReachApi", f"{type(error).__name__}: {error}") from error

    async def _make_service(self, container: Mapping[str, Any], program: PodProgram) -> tuple[Service, PathRewriter]:
        address = pod_addresses.loopback(self._allot())
        sources = await pod_spec.load_sources(self._shared.api, self._pod)
        node = self._shared.home.nodes / self._pod["spec"]["nodeName"]
        directories = await pod_volumes.materialize(
            self._pod, self._volumes, sources, self._request_token, self._localize, node=node
        )
        rewrite = pod_volumes.rewriter(container, directories)
        variables = pod_spec.environment(container, self._pod, address, sources)
        words = [rewrite(word) for word in pod_spec.arguments(container, variables)]
        # The webhook of Pod Identity does not run here: our charts set the variables and the token themselves.
        token = Path(variables.get(pod_identity.TOKEN_FILE, ""))
        variables = pod_identity.on_this_machine(variables, self._shared.pod_identity_url, token)
        identity = await self._identity(variables)
        scratch = self._directory / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        own = {"HOME": str(self._directory), "TMPDIR": str(scratch), **_NO_REAL_AWS}
        launch = Launch(
            container=container,
            words=words,
            env=own | {name: rewrite(value) for name, value in variables.items()} | identity,
            address=address,
            dns_port=self._shared.dns_port,
            proxy_port=self._shared.proxy_port,
            cache=self._shared.home.cache,
            # Named after twin and pod, so that leftovers of a killed process in /dev/shm can be found and removed.
            shared_memory=f"{self._shared.home.shared_memory_prefix}{self._uid}-",
        )
        command = program.command(launch)
        for reason, message in command.notes:
            await self._report(reason, message, "Normal")
        service = Service(
            name=process_name(self._pod, container),
            argv=command.argv,
            env=command.env,
            directory=self._directory,
            stop_order=_STOP_ORDER,
            shared_memory=launch.shared_memory,
            log=self._directory / f"{container['name']}.log",
        )
        return service, rewrite

    @property
    def _volumes(self) -> Path:
        return self._directory / "volumes"

    def _localize(self, name: str, content: bytes) -> bytes:
        """Adapt a file of a volume to this machine with the programs of the pod's containers."""
        directories = pod_volumes.directories(self._pod, self._volumes)
        for container in self._pod["spec"]["containers"]:
            program = self._shared.programs.of(container)
            if program is not None and program.localize is not None:
                content = program.localize(name, content, pod_volumes.rewriter(container, directories))
        return content

    async def _follow_sources(self) -> None:
        while True:
            await asyncio.sleep(_SYNC_SECONDS)
            with contextlib.suppress(KubeError):
                sources = await pod_spec.load_sources(self._shared.api, self._pod)
                await pod_volumes.update(self._pod, self._volumes, sources, self._localize)

    def _allot(self) -> str:
        containers = self._pod["spec"]["containers"]
        wanted = {port for container in containers for port in pod_spec.ports(container)}
        for program in filter(None, map(self._shared.programs.of, containers)):
            wanted |= set(program.ports)
        try:
            self._pod_ip = self._shared.addresses.allot(self._uid, sorted(wanted))
        except NoAddress as error:
            raise SpecError("FailedCreatePodSandBox", str(error)) from error
        return self._pod_ip

    async def _request_token(self, audience: str, seconds: int) -> str:
        metadata, account = self._pod["metadata"], self._pod["spec"].get("serviceAccountName", "default")
        pod = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        return await account_tokens.request(
            self._shared.api, metadata["namespace"], account, audience=audience, seconds=seconds, bound_to=pod
        )

    async def _identity(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that EKS's webhook and STS give a pod with a role in its service account; {} without one."""
        namespace = self._pod["metadata"]["namespace"]
        name = self._pod["spec"].get("serviceAccountName", "default")
        account = await self._shared.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
        annotations = account["metadata"].get("annotations") or {}
        role = annotations.get(irsa.ROLE_ANNOTATION)
        if not role:
            return {}
        if "AWS_ACCESS_KEY_ID" in variables:
            raise SpecError("IdentityRefused", "AWS_ACCESS_KEY_ID is set: Triton would ignore the service account's role")
        seconds = int(annotations.get(irsa.EXPIRATION_ANNOTATION, irsa.DEFAULT_EXPIRATION_SECONDS))
        token = await self._request_token(annotations.get(irsa.AUDIENCE_ANNOTATION, irsa.DEFAULT_AUDIENCE), seconds)
        node = await self._shared.api.get(f"/api/v1/nodes/{self._pod['spec']['nodeName']}")
        cluster = node["metadata"].get("annotations", {}).get(node_objects.CLUSTER_ANNOTATION, "")
        try:
            keys = await asyncio.to_thread(self._shared.identity.assume, role, token, cluster)
        except IdentityRefused as error:
            raise SpecError("IdentityRefused", str(error)) from error
        except (BotoCoreError, ClientError) as error:
            raise SpecError("FailedToReachAws", f"{type(error).__name__}: {error}") from error
        file = self._volumes / "aws-iam-token" / "token"
        write_whole(file, token.encode())
        return {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": str(file), **keys}


_NO_REAL_AWS = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Keep this machine's own AWS settings out of the pods."""


def discard(home: TwinHome, uid: str) -> None:
    """Remove a pod's volumes and address; its log stays until newer pods replace it."""
    directory = home.pods / uid
    for name in ("volumes", "tmp"):
        shutil.rmtree(directory / name, ignore_errors=True)
    (directory / "address.json").unlink(missing_ok=True)
    over = [d for d in home.pods.iterdir() if d.is_dir() and not (d / "address.json").exists()]
    over.sort(key=lambda d: d.stat().st_mtime, reverse=True)
    for old in over[_KEPT_DIRECTORIES:]:
        shutil.rmtree(old, ignore_errors=True)
