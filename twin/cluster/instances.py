"""Has the instances that Karpenter launched join the cluster, and takes the nodes of those that are gone away.

It plays the machine, which boots and registers with what its user data says, the device plugin on it, and the cloud
controller, which deletes the Node of an instance that EC2 does not have any more. All else about these nodes is Karpenter's.
"""

from __future__ import annotations

import asyncio
import logging
import time

from twin.cluster import node_objects
from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import ApiError
from twin.cluster.launched import InstanceReader
from twin.cluster.nodes import plugin_values, repeat, status_changes

log = logging.getLogger("twin.instances")
START_SECONDS = 5.0
"""From the launch to the Node. In EC2 it is one to three minutes, and several with a large image."""
_POOL_LABEL = "karpenter.sh/nodepool"


class InstanceSimulator:
    """Plays the instances of Karpenter's pools."""

    def __init__(self, api: KubeApi, instances: InstanceReader, kubelet_port: int) -> None:
        self._api = api
        self._instances = instances
        self._kubelet_port = kubelet_port

    async def run(self) -> None:
        """Reconcile for ever; a failed round is logged and tried again."""
        await repeat(self.reconcile, log, "launched nodes")

    async def reconcile(self) -> None:
        """Do one round: instances and nodes in, the difference out."""
        running = {one.provider_id: one for one in await asyncio.to_thread(self._instances.running)}
        listed = await self._api.get("/api/v1/nodes", labelSelector=f"type=kwok,{_POOL_LABEL}")
        present = {node["spec"]["providerID"]: node for node in listed["items"]}
        if running:
            values = await plugin_values(self._api)
            for provider_id, instance in running.items():
                node = node_objects.launched_node(instance, values)
                node["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._kubelet_port}}
                if provider_id in present:
                    await self._update(present[provider_id], node)
                elif time.time() >= instance.at + START_SECONDS:
                    await self._create(node)
        gone = [node for provider_id, node in present.items() if provider_id not in running]
        if not gone or not await asyncio.to_thread(self._instances.settled):
            return
        for node in gone:
            await self._delete(node)

    async def _create(self, node: Object) -> None:
        try:
            await self._api.create("/api/v1/nodes", node)
        except ApiError as error:
            if error.reason != "AlreadyExists":  # one of that address is still being taken away
                raise
            return
        log.info("node %s joined (%s)", node["metadata"]["name"], node["metadata"]["labels"][_POOL_LABEL])

    async def _update(self, present: Object, wanted: Object) -> None:
        status = status_changes(present, wanted)
        if status:
            await self._api.patch(f"/api/v1/nodes/{present['metadata']['name']}/status", {"status": status}, kind="merge")

    async def _delete(self, node: Object) -> None:
        if "deletionTimestamp" not in node["metadata"]:
            log.info("the instance of node %s is gone", node["metadata"]["name"])
            await self._api.delete(f"/api/v1/nodes/{node['metadata']['name']}")
