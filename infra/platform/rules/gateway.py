"""What fails as the gateway sees it: Triton counts no request that a full queue turned away (research triton.md 7.12)."""

from __future__ import annotations

from infra.platform.gateway import NAMESPACE
from infra.platform.rules.rule import NAMESPACE as TRITON_NAMESPACE
from infra.platform.rules.rule import Group, alert, group
from infra.settings.model import Settings

JOB = "envoy"
"""The `job` label of Envoy's pods: what Envoy Gateway gives them as `app.kubernetes.io/name`."""
_SHARE = 0.01


def attempts(code_class: str | None = None) -> str:
    """Answers of Triton's pods to Envoy, first attempts and retries, of one class of HTTP status (`5`) or of all."""
    matchers = () if code_class is None else (f'envoy_response_code_class="{code_class}"',)
    return of_routes("envoy_cluster_upstream_rq_xx", *matchers)


def of_routes(name: str, *matchers: str) -> str:
    """The series of a metric of Envoy for the routes of HTTP to Triton.

    Envoy Gateway calls their clusters `httproute/<namespace>/<route>/rule/<index>`; a route is called like its model.
    """
    own = (f'namespace="{NAMESPACE}"', f'job="{JOB}"', f'envoy_cluster_name=~"httproute/{TRITON_NAMESPACE}/.+"')
    return f"{name}{{{','.join([*own, *matchers])}}}"


def by_route(expression: str) -> str:
    """The sum of an expression for each route, with its name in the label `route`."""
    pattern = f"httproute/{TRITON_NAMESPACE}/(.+)/rule/.*"
    return f'sum by (route) (label_replace({expression}, "route", "$1", "envoy_cluster_name", "{pattern}"))'


def gateway_group(settings: Settings) -> Group:
    """The alerts about the gateway; none where the stack has none."""
    if settings.gateway is None:
        return group("triton.gateway", [])
    failed, all_ = by_route(f"rate({attempts('5')}[5m])"), by_route(f"rate({attempts()}[5m])")
    return group(
        "triton.gateway",
        [
            alert(
                "TritonGatewayFailures",
                f"{failed}\n/ ({all_} > 0) > {_SHARE:g}",
                lasting="5m",
                severity="warning",
                summary="{{ $value | humanizePercentage }} of the pods' answers about {{ $labels.route }} are errors",
                description="Over HTTP, more than 1 % of what Triton's pods answer to Envoy is a 5xx. 503 is a full queue, "
                "which is counted nowhere else, or a queue time that ran out. Retries hide it from clients as long as "
                "other pods have room. Errors over gRPC are in Triton's own metrics, or in none.",
            )
        ],
    )
