"""The sources of third-party charts, and the page that lists them."""

import pytest

from infra.aws.stack import Stack
from infra.platform.installed_chart import chart_source
from spec.charts import CHARTS, KARPENTER, KEDA, ChartPin
from spec.settings import SettingsError, load
from tests.infra.access import ACCOUNT
from tests.paths import ROOT
from tests.spec.stack_config import config
from triton_policies.platform import POLICIES

PAGE = (ROOT / "docs" / "chart-registry.md").read_text()
REGISTRY = "oci://123456789012.dkr.ecr.us-west-2.amazonaws.com/charts"


def test_a_chart_comes_from_its_own_projects_repository_or_registry() -> None:
    assert chart_source(KEDA, None) == ("keda", "https://kedacore.github.io/charts")
    assert chart_source(KARPENTER, None) == ("oci://public.ecr.aws/karpenter/karpenter", None)


@pytest.mark.parametrize("pin", CHARTS.values(), ids=lambda pin: pin.name)
def test_every_chart_comes_from_the_registry_of_the_stack_file(pin: ChartPin) -> None:
    settings = load(config({"charts": {"registry": REGISTRY}}, "staging"), "staging")
    assert chart_source(pin, Stack.of(settings, ACCOUNT).chart_registry) == (f"{REGISTRY}/{pin.name}", None)


@pytest.mark.parametrize(
    "registry",
    [
        *(
            "https://charts.example.com",
            "123456789012.dkr.ecr.us-west-2.amazonaws.com/charts",
            f"{REGISTRY}/",
            f"{REGISTRY}:1",
        ),
        *(
            "oci://",
            "oci://Example.com/charts",
            "oci://example.com/charts?x=1",
            "oci://user@example.com/charts",
            "oci://a//b",
        ),
    ],
)
def test_what_is_no_registry_is_refused(registry: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        load(config({"charts": {"registry": registry}}, "staging"), "staging")
    assert f"charts.registry: '{registry}' is not an OCI registry with lower-case names, without a tag" in str(refusal.value)


def test_the_policy_allows_the_registry_that_the_page_recommends() -> None:
    [policy] = [policy for policy in POLICIES if policy.id == "helm-pinned"]
    assert "oci://*.dkr.ecr.*.amazonaws.com/*" in policy.settings["repositories"].strict
    assert f"registry: {REGISTRY}" in PAGE
