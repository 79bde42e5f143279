"""Rules about the platform in the cluster: charts, the gateway and providers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from triton_policies.findings import Finding, Violation, each, is_true, require
from triton_policies.networks import is_world
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, strings, switch
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

RELEASE = "kubernetes:helm.sh/v3:Release"
PROXY = "kubernetes:gateway.envoyproxy.io/v1alpha1:EnvoyProxy"
SECURITY = "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy"
GATEWAY = "kubernetes:gateway.networking.k8s.io/v1:Gateway"
_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer"
_EXACT = re.compile(r"v?\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?")
_REPOSITORIES = [
    "https://nvidia.github.io/*",
    "https://charts.external-secrets.io",
    "https://kedacore.github.io/charts",
    "https://prometheus-community.github.io/helm-charts",
    "https://aws.github.io/eks-charts",
    "https://kubernetes.github.io/autoscaler",
    "https://open-telemetry.github.io/opentelemetry-helm-charts",
    "https://fluent.github.io/helm-charts",
    "https://opencost.github.io/opencost-helm-chart",
    "oci://public.ecr.aws/karpenter/*",
    "oci://docker.io/envoyproxy/*",
    "oci://*.dkr.ecr.*.amazonaws.com/*",
    "oci://*.dkr.ecr.*.amazonaws.com.cn/*",
]


def _pinned(release: Resource, settings: Settings) -> Iterator[Finding]:
    chart = release["chart"]
    yield from require(
        release["version"],
        lambda version: _EXACT.fullmatch(str(version)) is not None,
        "is {value}: the chart may be another one tomorrow",
        fix="set one exact version",
    )
    repository = release["repositoryOpts.repo"]
    source = repository if repository.given else chart
    allowed = settings["repositories"]
    if not any(fnmatchcase(str(source.value), pattern) for pattern in allowed):
        yield Violation(
            source.path,
            f"is {source.value}, which is not among the repositories that charts may come from",
            fix="mirror the chart, or put it into `repositories` of this policy",
        )
    yield from require(release["atomic"], is_true, "is {value}: a failed upgrade stays half done", fix="set it to true")


def _provider(resource: Resource, settings: Settings) -> Iterator[Finding]:
    if resource.provider is not None and resource.provider.startswith("default"):
        yield Violation("", "has no provider of its own: it goes to whatever cluster the kubeconfig of the machine names")


def _balancer(proxy: Resource, settings: Settings) -> Iterator[Finding]:
    service = proxy["spec.provider.kubernetes.envoyService"]
    kind = service["type"]
    # Envoy Gateway creates a load balancer by default.
    if kind.value not in (None, "LoadBalancer"):
        return
    scheme = service["annotations"][f"{_ANNOTATION}-scheme"]
    ranges = service["loadBalancerSourceRanges"]
    if scheme.value != "internal" and not settings["public"]:
        yield Violation(
            scheme.path, f"is {scheme.value or 'not set'}: the load balancer is on the internet", fix="set it to internal"
        )
    if not ranges.elements:
        yield Violation(ranges.path, "is not set: every network that reaches the load balancer may use it")
    yield from each(
        ranges.elements, lambda one: require(one, lambda cidr: not is_world(cidr), "is {value}: anyone may use the models")
    )


def _clients(stack: Stack, settings: Settings) -> Iterator[Finding]:
    asked = any(policy[f"spec.{way}"].given for policy in stack.of(SECURITY) for way in ("apiKeyAuth", "jwt"))
    if asked or not settings["required"]:
        return

    def check(proxy: Resource) -> Iterator[Finding]:
        service = proxy["spec.provider.kubernetes.envoyService"]
        scheme = service["annotations"][f"{_ANNOTATION}-scheme"]
        if service["type"].value in (None, "LoadBalancer") and scheme.value != "internal":
            yield Violation(
                scheme.path,
                f"is {scheme.value or 'not set'}, and no SecurityPolicy asks for keys or tokens: "
                "whoever sends from an address that is let in may use the models",
                proxy,
            )

    yield from each(stack.of(PROXY), check)


def _tls(stack: Stack, settings: Settings) -> Iterator[Finding]:
    if not settings["required"]:
        return
    ends_before = [port for proxy in stack.of(PROXY) for port in _encrypted_ports(proxy)]

    def check(gateway: Resource) -> Iterator[Finding]:
        for listener in gateway["spec.listeners"].elements:
            port, protocol = listener["port"].value, listener["protocol"].value
            if protocol not in ("HTTPS", "TLS") and str(port) not in ends_before:
                yield Violation(
                    listener["protocol"].path,
                    f"is {protocol} on port {port}, and no certificate is on the load balancer: "
                    "requests cross the network in the clear",
                    gateway,
                )

    yield from each(stack.of(GATEWAY), check)


def _encrypted_ports(proxy: Resource) -> list[str]:
    annotations = proxy["spec.provider.kubernetes.envoyService.annotations"]
    if not annotations[f"{_ANNOTATION}-ssl-cert"].given:
        return []
    ports = annotations[f"{_ANNOTATION}-ssl-ports"]
    return str(ports.value or "").split(",") if ports.known else []


def _routes(gateway: Resource, settings: Settings) -> Iterator[Finding]:
    def check(listener: Property) -> Iterator[Finding]:
        who = listener.at("allowedRoutes.namespaces.from")
        if who.value == "All":
            yield Violation(who.path, "is All: any namespace may take requests of customers")

    yield from each(gateway["spec.listeners"].elements, check)


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="helm-pinned",
        says="Charts of others are of one exact version, from repositories that you trust, and upgrade whole or not at all.",
        severity="high",
        controls=("CIS EKS 5.1.4",),
        fix="pin the chart",
        settings={"repositories": strings("patterns of repositories that charts may come from", _REPOSITORIES)},
        # The engine passes no inputs of helm.sh/v4 charts to packs; their objects are checked one by one.
        types=(RELEASE,),
        judge=_pinned,
    ),
    ResourcePolicy(
        id="gateway-not-public",
        says="The gateway is internal, or open to named networks where that is allowed.",
        severity="critical",
        controls=(),
        fix="name the networks that may, never 0.0.0.0/0",
        settings={"public": switch("whether a load balancer on the internet is allowed, for named networks", False)},
        types=(PROXY,),
        judge=_balancer,
    ),
    StackPolicy(
        id="gateway-clients-known",
        says="A gateway on the internet asks its clients who they are.",
        severity="high",
        controls=(),
        fix="set it to internal, or give the routes a SecurityPolicy with apiKeyAuth or jwt",
        settings={"required": switch("whether it has to ask", True, local=False, dev=False, staging=False)},
        judge=_clients,
    ),
    StackPolicy(
        id="gateway-tls",
        says="Requests come to the gateway encrypted.",
        severity="high",
        controls=("CIS EKS 5.4.5",),
        fix="give the load balancer a certificate, or the listener TLS",
        settings={"required": switch("whether TLS is asked for", True, local=False, dev=False)},
        judge=_tls,
    ),
    ResourcePolicy(
        id="gateway-routes-bounded",
        says="Only named namespaces attach routes to the gateway.",
        severity="medium",
        controls=(),
        fix="set it to Selector or Same",
        types=(GATEWAY,),
        judge=_routes,
    ),
    ResourcePolicy(
        id="k8s-explicit-provider",
        says="Every Kubernetes object goes to the cluster of its stack, through a provider that says so.",
        severity="high",
        controls=(),
        fix="give it the provider of the cluster",
        types=("kubernetes:*",),
        judge=_provider,
    ),
)
