"""The process runner: the kubelet of every pod that a program claims (program.py).

kwok ignores these pods (twin/cluster/kwok_stages.py). The real control plane admits, schedules, drains and counts them; this
module only does a kubelet's work.
"""

from __future__ import annotations

import asyncio
import logging

from twin.cluster.kube_api import Object
from twin.host import processes
from twin.pods.pod_worker import PodContext, PodWorker, discard

log = logging.getLogger("twin.pods")
_PREFIX = "pod-"


class PodRunner:
    """Keeps one worker for each scheduled pod that runs as processes."""

    def __init__(self, shared: PodContext) -> None:
        self._shared = shared
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Follow the pods forever. Cancellation leaves the processes running, for the next agent to take over."""
        try:
            async for kind, changed in self._shared.api.watch("/api/v1/pods", fieldSelector="spec.nodeName!="):
                if kind == "SYNC":
                    self._synchronize(changed["items"])
                    self.synced.set()
                elif kind == "DELETED":
                    self._remove(changed["metadata"]["uid"])
                elif self._shared.programs.claim(changed):
                    self._update(changed)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def uid(self, namespace: str, name: str) -> str | None:
        """Return the UID of a pod that runs here, else None."""
        pod = self._pod(namespace, name)
        return None if pod is None else str(pod["metadata"]["uid"])

    def spec(self, namespace: str, name: str) -> Object | None:
        """Return the spec of a pod that runs here, else None."""
        pod = self._pod(namespace, name)
        return None if pod is None else pod["spec"]

    async def execute(self, namespace: str, name: str, container: str, command: list[str]) -> tuple[int, str] | None:
        """Run a command in a container of a pod that runs here; return exit code and output. None without one."""
        worker = self._worker(namespace, name)
        return None if worker is None else await worker.execute(container, command)

    def _pod(self, namespace: str, name: str) -> Object | None:
        worker = self._worker(namespace, name)
        return None if worker is None else worker.pod

    def _worker(self, namespace: str, name: str) -> PodWorker | None:
        for worker in self._workers.values():
            metadata = worker.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return worker
        return None

    def _synchronize(self, pods: list[Object]) -> None:
        present = {pod["metadata"]["uid"]: pod for pod in pods if self._shared.programs.claim(pod)}
        for uid in self._workers.keys() - present.keys():
            self._remove(uid)
        for pod in present.values():
            self._update(pod)
        # Stop processes of pods that were deleted while no agent was watching.
        for record in processes.records(self._shared.home):
            uid = record.name.removeprefix(_PREFIX)[:36]
            if record.name.startswith(_PREFIX) and uid not in self._workers:
                log.info("ending %s, whose pod is gone", record.name)
                processes.stop(self._shared.home, record, seconds=0)
                discard(self._shared.home, uid)

    def _update(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._workers:
            self._workers[uid].update(pod)
            return
        worker = PodWorker(pod, self._shared)
        self._workers[uid] = worker
        self._tasks[uid] = asyncio.create_task(self._work(uid, worker))

    def _remove(self, uid: str) -> None:
        if uid in self._workers:
            self._workers[uid].remove()

    async def _work(self, uid: str, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            log.exception("pod %s: the runner's own fault; it is taken up again at its next change", uid)
        finally:
            self._workers.pop(uid, None)
            self._tasks.pop(uid, None)
