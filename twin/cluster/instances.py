"""Register the instances that Karpenter launched as nodes, and delete the nodes of terminated instances.

This simulates three parts. The machine boots and registers with the settings in its user data. It has a device plugin. The
cloud controller deletes the Node of a terminated instance. Karpenter does everything else to these nodes.
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
"""From the launch to the Node. On EC2 it takes one to three minutes, and several with a large image."""
_POOL_LABEL = "karpenter.sh/nodepool"


class InstanceSimulator:
    """Simulates the instances of Karpenter's pools."""

    def __init__(self, api: KubeApi, instances: InstanceReader, kubelet_port: int) -> None:
        self._api = api
        self._instances = instances
        self._kubelet_port = kubelet_port

    async def run(self) -> None:
        """Reconcile forever; log a failed round and try again."""
        await repeat(self.reconcile, log, "launched nodes")

    async def reconcile(self) -> None:
        """Do one round: compare instances with nodes, and apply the difference."""
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
            if error.reason != "AlreadyExists":  # a node of that address is still being deleted
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
