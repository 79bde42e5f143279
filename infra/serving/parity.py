"""The exporter of `modelctl parity`: do all pods serve the same? Its alerts: `spec.prometheus.parity`."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from spec.names import MONITORING_NAMESPACE, PARITY_EXPORTER, PARITY_PORT, TRITON_NAMESPACE


class ParityExporter(pulumi.ComponentResource):
    """One pod that asks each Triton at each scrape. Of the API server it may list the endpoints, and nothing else.

    It is in Triton's namespace, which `opts.depends_on` has to name: Triton's NetworkPolicy lets in who is there. `image`:
    by digest, made by modelctl/Dockerfile.
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
        k8s.networking.v1.NetworkPolicy(f"{name}-network", metadata=metadata, spec=_network(labels), opts=child)
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=metadata,
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=1,
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=labels), spec=_pod(image)
                ),
            ),
            opts=cluster.in_cluster(self, account, role, binding),
        )
        self.register_outputs({})


def _network(labels: Mapping[str, str]) -> k8s.networking.v1.NetworkPolicySpecArgs:
    """Let Prometheus read it, and let it reach names, the API server and the pods of its own namespace."""
    peer, port = k8s.networking.v1.NetworkPolicyPeerArgs, k8s.networking.v1.NetworkPolicyPortArgs
    name_label = "kubernetes.io/metadata.name"
    monitoring = k8s.meta.v1.LabelSelectorArgs(match_labels={name_label: MONITORING_NAMESPACE})
    dns = peer(
        namespace_selector=k8s.meta.v1.LabelSelectorArgs(match_labels={name_label: "kube-system"}),
        pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels={"k8s-app": "kube-dns"}),
    )
    return k8s.networking.v1.NetworkPolicySpecArgs(
        pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
        policy_types=["Ingress", "Egress"],
        ingress=[
            k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                from_=[peer(namespace_selector=monitoring)], ports=[port(port=PARITY_PORT, protocol="TCP")]
            )
        ],
        egress=[
            k8s.networking.v1.NetworkPolicyEgressRuleArgs(
                to=[dns], ports=[port(port=53, protocol="UDP"), port(port=53, protocol="TCP")]
            ),
            k8s.networking.v1.NetworkPolicyEgressRuleArgs(ports=[port(port=443, protocol="TCP")]),
            k8s.networking.v1.NetworkPolicyEgressRuleArgs(to=[peer(pod_selector=k8s.meta.v1.LabelSelectorArgs())]),
        ],
    )


def _pod(image: str) -> k8s.core.v1.PodSpecArgs:
    return k8s.core.v1.PodSpecArgs(
        service_account_name=PARITY_EXPORTER,
        automount_service_account_token=True,
        enable_service_links=False,
        security_context=k8s.core.v1.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=1000,
            run_as_group=1000,
            seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        containers=[
            k8s.core.v1.ContainerArgs(
                name="parity",
                image=image,
                command=["python", "-m", "modelctl"],
                args=["parity", f"--namespace={TRITON_NAMESPACE}", f"--serve=$(POD_IP):{PARITY_PORT}"],
                env=[
                    k8s.core.v1.EnvVarArgs(
                        name="POD_IP",
                        value_from=k8s.core.v1.EnvVarSourceArgs(
                            field_ref=k8s.core.v1.ObjectFieldSelectorArgs(field_path="status.podIP")
                        ),
                    ),
                    # Libraries keep caches under it; the image's own is read-only here.
                    k8s.core.v1.EnvVarArgs(name="HOME", value="/tmp"),  # noqa: S108 - in the container
                ],
                ports=[k8s.core.v1.ContainerPortArgs(name="metrics", container_port=PARITY_PORT, protocol="TCP")],
                # A TCP probe: each GET would ask every pod of Triton.
                readiness_probe=k8s.core.v1.ProbeArgs(tcp_socket=k8s.core.v1.TCPSocketActionArgs(port="metrics")),
                resources=k8s.core.v1.ResourceRequirementsArgs(
                    requests={"cpu": "50m", "memory": "256Mi"}, limits={"memory": "512Mi"}
                ),
                security_context=k8s.core.v1.SecurityContextArgs(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
                ),
                volume_mounts=[k8s.core.v1.VolumeMountArgs(name="tmp", mount_path="/tmp")],  # noqa: S108
            )
        ],
        volumes=[k8s.core.v1.VolumeArgs(name="tmp", empty_dir=k8s.core.v1.EmptyDirVolumeSourceArgs(size_limit="64Mi"))],
    )
