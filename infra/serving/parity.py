"""The exporter of `modelctl parity`, which checks that all pods serve the same. Its alerts: `spec.prometheus.parity`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.serving import modelctl_pod
from spec.names import PARITY_EXPORTER, PARITY_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE
from spec.settings.scheduling import pods

_SERVICE_RANGES = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""One of these ranges contains a cluster's Services:
https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
"""


class ParityExporter(pulumi.ComponentResource):
    """One pod that queries each Triton pod at every scrape. Its only permission in the API server is to list endpoints.

    It runs in Triton's namespace, because Triton's NetworkPolicy allows pods from there. `opts.depends_on` has to name the
    namespace. `image` is given by digest and built by `make images`.
    """

    def __init__(self, name: str, cluster: ClusterAccess, image: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:serving:ParityExporter", name, None, opts)
        child = cluster.in_cluster(self)
        labels = {"app.kubernetes.io/name": PARITY_EXPORTER}
        metadata = k8s.meta.v1.ObjectMetaArgs(name=PARITY_EXPORTER, namespace=TRITON_NAMESPACE, labels=labels)
        account = k8s.core.v1.ServiceAccount(
            f"{name}-account", metadata=metadata, automount_service_account_token=False, opts=child
        )
        role = k8s.rbac.v1.Role(
            f"{name}-role",
            metadata=metadata,
            rules=[
                k8s.rbac.v1.PolicyRuleArgs(api_groups=["discovery.k8s.io"], resources=["endpointslices"], verbs=["list"])
            ],
            opts=child,
        )
        binding = k8s.rbac.v1.RoleBinding(
            f"{name}-binding",
            metadata=metadata,
            role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=PARITY_EXPORTER),
            subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=PARITY_EXPORTER, namespace=TRITON_NAMESPACE)],
            opts=child,
        )
        k8s.networking.v1.NetworkPolicy(
            f"{name}-network", metadata=metadata, spec=_network(labels, cluster.network.cidrs), opts=child
        )
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=1,
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=labels),
                    # A TCP probe, because each GET would query every Triton pod.
                    spec=modelctl_pod.pod(
                        "parity",
                        image,
                        ["parity", f"--namespace={TRITON_NAMESPACE}", "--direct", f"--serve=$(POD_IP):{PARITY_PORT}"],
                        account=PARITY_EXPORTER,
                        ports={"metrics": PARITY_PORT},
                        ready="metrics",
                        requests=pods.PARITY_EXPORTER,
                        memory_limit="512Mi",
                        asks_kubernetes=True,
                    ),
                ),
            ),
            opts=cluster.in_cluster(self, account, role, binding),
        )
        self.register_outputs({})


def _network(labels: Mapping[str, str], vpc_cidrs: Iterable[str]) -> k8s.networking.v1.NetworkPolicySpecArgs:
    """Allow Prometheus to scrape it, and allow it to reach DNS, the API server and Triton's pods."""
    api_server = k8s.networking.v1.NetworkPolicyEgressRuleArgs(
        # The Service or the interfaces in the VPC: network plugins differ in the address that a policy sees.
        to=[
            k8s.networking.v1.NetworkPolicyPeerArgs(ip_block=k8s.networking.v1.IPBlockArgs(cidr=cidr))
            for cidr in dict.fromkeys((*_SERVICE_RANGES, *vpc_cidrs))
        ],
        ports=[k8s.networking.v1.NetworkPolicyPortArgs(port=443, protocol="TCP")],
    )
    return k8s.networking.v1.NetworkPolicySpecArgs(
        pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
        policy_types=["Ingress", "Egress"],
        ingress=[modelctl_pod.from_prometheus(PARITY_PORT)],
        egress=[*modelctl_pod.to_names_and_triton(TRITON_HTTP_PORT), api_server],
    )
