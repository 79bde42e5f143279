"""The comparer of responses of a release and its candidate to copies of live requests: `modelctl compare`."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.serving import modelctl_pod
from spec.names import (
    COMPARER,
    GATEWAY_NAMESPACE,
    TRITON_GRPC_PORT,
    TRITON_HTTP_PORT,
    TRITON_METRICS_PORT,
    TRITON_NAMESPACE,
    triton_grpc_url,
    triton_http_url,
)
from spec.prometheus.gateway import JOB as GATEWAY_JOB
from spec.settings import Settings
from spec.settings.blue_green import helm_release, other_slot
from spec.settings.scheduling import pods

_PORTS = {"http": TRITON_HTTP_PORT, "grpc": TRITON_GRPC_PORT, "metrics": TRITON_METRICS_PORT}


@dataclass(frozen=True)
class Compared:
    """A comparison of two Helm releases: the tolerances of their numbers by model. `seconds` is the time for a response."""

    image: str
    release: str
    candidate: str
    tolerances: dict[str, float]
    seconds: int

    @classmethod
    def of(cls, settings: Settings, longest_request_seconds: int) -> Compared | None:
        """Return the comparison of a stack; None if it compares nothing."""
        tried, image = settings.models.candidate, settings.triton.comparer_image
        if image is None or tried is None or not tried.mirror_percent or not tried.mirror_tolerances:
            return None
        slot = settings.models.slot
        names = (helm_release(slot), helm_release(other_slot(slot)))
        return cls(image, *names, dict(tried.mirror_tolerances), longest_request_seconds)

    def arguments(self) -> list[str]:
        """Return the arguments of the command."""
        return [
            "compare",
            f"--release-http={triton_http_url(self.release)}",
            f"--release-grpc={triton_grpc_url(self.release)}",
            f"--candidate-http={triton_http_url(self.candidate)}",
            f"--candidate-grpc={triton_grpc_url(self.candidate)}",
            *(f"--tolerance={model}={tolerance:g}" for model, tolerance in sorted(self.tolerances.items())),
            f"--http=$(POD_IP):{TRITON_HTTP_PORT}",
            f"--grpc=$(POD_IP):{TRITON_GRPC_PORT}",
            # Also on the loopback address, the target of the API server's port forward, which rollouts use.
            f"--serve=0.0.0.0:{TRITON_METRICS_PORT}",
            f"--seconds={self.seconds}",
        ]


class Comparer(pulumi.ComponentResource):
    """One pod without permissions, and the Service to which the gateway sends copies.

    It runs in Triton's namespace, because Triton's NetworkPolicy allows pods from there. `opts.depends_on` has to name the
    namespace.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, compared: Compared, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:serving:Comparer", name, None, opts)
        child = cluster.in_cluster(self)
        labels = {"app.kubernetes.io/name": COMPARER}
        selector = k8s.meta.v1.LabelSelectorArgs(match_labels=labels)
        metadata = k8s.meta.v1.ObjectMetaArgs(name=COMPARER, namespace=TRITON_NAMESPACE, labels=labels)
        account = k8s.core.v1.ServiceAccount(
            f"{name}-account", metadata=metadata, automount_service_account_token=False, opts=child
        )
        k8s.networking.v1.NetworkPolicy(
            f"{name}-network",
            metadata=metadata,
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=selector,
                policy_types=["Ingress", "Egress"],
                ingress=[
                    modelctl_pod.from_pods(GATEWAY_NAMESPACE, GATEWAY_JOB, TRITON_HTTP_PORT, TRITON_GRPC_PORT),
                    modelctl_pod.from_prometheus(TRITON_METRICS_PORT),
                ],
                egress=modelctl_pod.to_names_and_triton(TRITON_HTTP_PORT, TRITON_GRPC_PORT),
            ),
            opts=child,
        )
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=1,
                # A comparer of another pair of releases never runs at the same time.
                strategy=k8s.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                selector=selector,
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=labels),
                    spec=modelctl_pod.pod(
                        "compare",
                        compared.image,
                        compared.arguments(),
                        account=COMPARER,
                        ports=_PORTS,
                        ready="http",
                        requests=pods.COMPARER,
                        memory_limit="1Gi",
                    ),
                ),
            ),
            opts=cluster.in_cluster(self, account),
        )
        k8s.core.v1.Service(
            f"{name}-service",
            metadata=metadata,
            spec=k8s.core.v1.ServiceSpecArgs(
                type="ClusterIP",
                selector=labels,
                ports=[
                    k8s.core.v1.ServicePortArgs(
                        name=called, port=_PORTS[called], target_port=called, protocol="TCP", app_protocol=protocol
                    )
                    for called, protocol in (("http", "http"), ("grpc", "kubernetes.io/h2c"))
                ],
            ),
            opts=child,
        )
        self.register_outputs({})
