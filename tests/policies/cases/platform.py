"""Cases of policies about charts, the gateway and providers."""

from tests.policies.case import ABSENT, Case, changed, fail, made
from triton_policies.platform import GATEWAY, PROXY, RELEASE, SECURITY

_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer"
_SERVICE = ("spec", "provider", "kubernetes", "envoyService")
_SCHEME = (*_SERVICE, "annotations", f"{_ANNOTATION}-scheme")
_PROXY = {
    "spec": {
        "provider": {
            "kubernetes": {
                "envoyService": {
                    "type": "LoadBalancer",
                    "annotations": {
                        f"{_ANNOTATION}-scheme": "internal",
                        f"{_ANNOTATION}-ssl-cert": "arn:aws:acm:us-west-2:1:certificate/a",
                        f"{_ANNOTATION}-ssl-ports": "443,8443",
                    },
                    "loadBalancerSourceRanges": ["10.40.0.0/16"],
                }
            }
        }
    }
}
_GATEWAY = {
    "spec": {
        "listeners": [
            {"port": 443, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Selector"}}},
            {"port": 8443, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "Same"}}},
        ]
    }
}

CASES = (
    Case(
        policy="helm-pinned",
        type=RELEASE,
        passes={
            "chart": "keda",
            "version": "2.20.2",
            "repositoryOpts": {"repo": "https://kedacore.github.io/charts"},
            "atomic": True,
        },
        fails=(
            fail(
                {"version": ABSENT},
                ("it: version: is not set: the chart may be another one tomorrow. Fix: set one exact version"),
            ),
            fail(
                {"version": "^2.20.0"},
                ("it: version: is ^2.20.0: the chart may be another one tomorrow. Fix: set one exact version"),
            ),
            fail(
                {"repositoryOpts.repo": "https://charts.example.com"},
                (
                    "it: repositoryOpts.repo: is https://charts.example.com, which is not among the repositories "
                    "that charts may come from. "
                    "Fix: mirror the chart, or put it into `repositories` of this policy"
                ),
            ),
            fail({"atomic": ABSENT}, "it: atomic: is not set: a failed upgrade stays half done. Fix: set it to true"),
        ),
        unknown="version",
    ),
    Case(
        policy="helm-pinned",
        type=RELEASE,
        passes={"chart": "oci://public.ecr.aws/karpenter/karpenter", "version": "1.14.1", "atomic": True},
        fails=(
            fail(
                {"chart": "oci://docker.io/someone/karpenter"},
                (
                    "it: chart: is oci://docker.io/someone/karpenter, which is not among the repositories that "
                    "charts may come from. "
                    "Fix: mirror the chart, or put it into `repositories` of this policy"
                ),
            ),
        ),
        unknown="chart",
    ),
    Case(
        policy="gateway-not-public",
        type=PROXY,
        passes=_PROXY,
        fails=(
            fail(
                {(*_SERVICE, "annotations", f"{_ANNOTATION}-scheme"): "internet-facing"},
                (
                    "it: "
                    f'spec.provider.kubernetes.envoyService.annotations["{_ANNOTATION}-scheme"]: '
                    "is internet-facing: the load balancer is on the internet. "
                    "Fix: set it to internal"
                ),
            ),
            # A load balancer too.
            fail(
                {(*_SERVICE, "type"): ABSENT, (*_SERVICE, "annotations", f"{_ANNOTATION}-scheme"): ABSENT},
                (
                    "it: "
                    f'spec.provider.kubernetes.envoyService.annotations["{_ANNOTATION}-scheme"]: '
                    "is not set: the load balancer is on the internet. "
                    "Fix: set it to internal"
                ),
            ),
            fail(
                {(*_SERVICE, "loadBalancerSourceRanges"): ABSENT},
                (
                    "it: spec.provider.kubernetes.envoyService.loadBalancerSourceRanges: is not set: every network "
                    "that reaches the load balancer may use it. "
                    "Fix: name the networks that may, never 0.0.0.0/0"
                ),
            ),
            fail(
                {(*_SERVICE, "loadBalancerSourceRanges"): ["10.40.0.0/16", "0.0.0.0/0"]},
                (
                    "it: spec.provider.kubernetes.envoyService.loadBalancerSourceRanges[1]: is 0.0.0.0/0: anyone "
                    "may use the models. "
                    "Fix: name the networks that may, never 0.0.0.0/0"
                ),
            ),
        ),
        unknown=(*_SERVICE, "loadBalancerSourceRanges"),
    ),
    Case(
        policy="gateway-clients-known",
        type="",
        passes=(
            made(PROXY, "envoy", changed(_PROXY, {_SCHEME: "internet-facing"})),
            made(SECURITY, "classify", {"spec": {"jwt": {"providers": [{"name": "clients"}]}}}),
        ),
        fails=(
            fail(
                # It lists the allowed clients, but authenticates no client.
                {"classify": {"spec": {"authorization": {"defaultAction": "Allow"}}}},
                (
                    f'envoy: spec.provider.kubernetes.envoyService.annotations["{_ANNOTATION}-scheme"]: is internet-facing, '
                    "and no SecurityPolicy asks for keys or tokens: whoever sends from an address that is let in may use "
                    "the models. Fix: set it to internal, or give the routes a SecurityPolicy with apiKeyAuth or jwt"
                ),
            ),
        ),
        unknown=("envoy", _SCHEME),
        needs_no_value=True,  # if clients authenticate, any scheme passes
    ),
    Case(
        policy="gateway-tls",
        type="",
        passes=(made(GATEWAY, "inference", _GATEWAY), made(PROXY, "envoy", _PROXY)),
        fails=(
            fail(
                {"envoy": {(*_SERVICE, "annotations", f"{_ANNOTATION}-ssl-cert"): ABSENT}},
                (
                    "inference: spec.listeners[0].protocol: is HTTP on port 443, and no certificate is on the load "
                    "balancer: requests cross the network in the clear. "
                    "Fix: give the load balancer a certificate, or the listener TLS"
                ),
                (
                    "inference: spec.listeners[1].protocol: is HTTP on port 8443, and no certificate is on the load "
                    "balancer: requests cross the network in the clear. "
                    "Fix: give the load balancer a certificate, or the listener TLS"
                ),
            ),
            fail(
                {"envoy": {(*_SERVICE, "annotations", f"{_ANNOTATION}-ssl-ports"): "443"}},
                (
                    "inference: spec.listeners[1].protocol: is HTTP on port 8443, and no certificate is on the load "
                    "balancer: requests cross the network in the clear. "
                    "Fix: give the load balancer a certificate, or the listener TLS"
                ),
            ),
        ),
        unknown=("inference", "spec.listeners"),
    ),
    Case(
        policy="gateway-tls",
        type="",
        passes=(made(GATEWAY, "inference", {"spec": {"listeners": [{"port": 443, "protocol": "HTTPS"}]}}),),
        fails=(),
        unknown=None,
    ),
    Case(
        policy="gateway-routes-bounded",
        type=GATEWAY,
        passes=_GATEWAY,
        fails=(
            fail(
                {"spec.listeners[0].allowedRoutes.namespaces.from": "All"},
                (
                    "it: spec.listeners[0].allowedRoutes.namespaces.from: is All: any namespace may take requests "
                    "of customers. "
                    "Fix: set it to Selector or Same"
                ),
            ),
        ),
        unknown="spec.listeners",
    ),
    Case(
        policy="k8s-explicit-provider",
        type="kubernetes:core/v1:Namespace",
        passes={},
        fails=(
            fail(
                {},
                (
                    "it: has no provider of its own: it goes to whatever cluster the kubeconfig of the machine "
                    "names. "
                    "Fix: give it the provider of the cluster"
                ),
                options={"provider": "default_4_34_2"},
            ),
        ),
        unknown=None,
        options={"provider": "cluster-kubernetes"},
    ),
)
