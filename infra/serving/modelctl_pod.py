"""A pod with the modelctl image (images/Dockerfile) in Triton's namespace, and rules for its NetworkPolicy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi_kubernetes as k8s

from spec.names import MONITORING_NAMESPACE, TRITON_CHART
from spec.pod_sets import Request

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def pod(
    name: str,
    image: str,
    arguments: Sequence[str],
    *,
    account: str,
    ports: Mapping[str, int],
    ready: str,
    requests: Request,
    memory_limit: str,
    asks_kubernetes: bool = False,
) -> k8s.core.v1.PodSpecArgs:
    """Return the pod of `modelctl <arguments>`. The arguments may contain its address as `$(POD_IP)`.

    It is ready when the port named `ready` accepts connections. With `asks_kubernetes` it has a token of its service
    account.
    """
    return k8s.core.v1.PodSpecArgs(
        service_account_name=account,
        automount_service_account_token=asks_kubernetes,
        enable_service_links=False,
        security_context=k8s.core.v1.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=1000,
            run_as_group=1000,
            seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        containers=[
            k8s.core.v1.ContainerArgs(
                name=name,
                image=image,
                command=["python", "-m", "modelctl"],
                args=list(arguments),
                env=[
                    k8s.core.v1.EnvVarArgs(
                        name="POD_IP",
                        value_from=k8s.core.v1.EnvVarSourceArgs(
                            field_ref=k8s.core.v1.ObjectFieldSelectorArgs(field_path="status.podIP")
                        ),
                    ),
                    # Libraries keep caches there; the image's own home directory is read-only here.
                    k8s.core.v1.EnvVarArgs(name="HOME", value="/tmp"),  # noqa: S108 - in the container
                ],
                ports=[
                    k8s.core.v1.ContainerPortArgs(name=called, container_port=port, protocol="TCP")
                    for called, port in ports.items()
                ],
                readiness_probe=k8s.core.v1.ProbeArgs(tcp_socket=k8s.core.v1.TCPSocketActionArgs(port=ready)),
                resources=k8s.core.v1.ResourceRequirementsArgs(
                    requests={"cpu": f"{requests.millis}m", "memory": f"{requests.mib}Mi"}, limits={"memory": memory_limit}
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


def from_pods(namespace: str, name: str, *ports: int) -> k8s.networking.v1.NetworkPolicyIngressRuleArgs:
    """Return the rule that allows the pods with this name label in a namespace, at these ports."""
    return k8s.networking.v1.NetworkPolicyIngressRuleArgs(
        from_=[k8s.networking.v1.NetworkPolicyPeerArgs(namespace_selector=_namespace(namespace), pod_selector=_name(name))],
        ports=_tcp(*ports),
    )


def from_prometheus(port: int) -> k8s.networking.v1.NetworkPolicyIngressRuleArgs:
    """Return the rule that allows Prometheus; its operator sets this name on its pods."""
    return from_pods(MONITORING_NAMESPACE, "prometheus", port)


def to_names_and_triton(*ports: int) -> list[k8s.networking.v1.NetworkPolicyEgressRuleArgs]:
    """Return the rules that allow a pod to reach DNS and Triton's pods in its namespace. The ports are Triton's."""
    peer, port = k8s.networking.v1.NetworkPolicyPeerArgs, k8s.networking.v1.NetworkPolicyPortArgs
    names = peer(
        namespace_selector=_namespace("kube-system"),
        pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels={"k8s-app": "kube-dns"}),
    )
    return [
        k8s.networking.v1.NetworkPolicyEgressRuleArgs(
            to=[names], ports=[port(port=53, protocol="UDP"), port(port=53, protocol="TCP")]
        ),
        k8s.networking.v1.NetworkPolicyEgressRuleArgs(to=[peer(pod_selector=_name(TRITON_CHART))], ports=_tcp(*ports)),
    ]


def _tcp(*ports: int) -> list[k8s.networking.v1.NetworkPolicyPortArgs]:
    return [k8s.networking.v1.NetworkPolicyPortArgs(port=port, protocol="TCP") for port in ports]


def _name(name: str) -> k8s.meta.v1.LabelSelectorArgs:
    return k8s.meta.v1.LabelSelectorArgs(match_labels={"app.kubernetes.io/name": name})


def _namespace(name: str) -> k8s.meta.v1.LabelSelectorArgs:
    return k8s.meta.v1.LabelSelectorArgs(match_labels={_NAMESPACE_LABEL: name})
