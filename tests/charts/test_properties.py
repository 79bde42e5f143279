"""Compares the chart's arithmetic with independent oracles, over random values."""

import string
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.charts import rendering

MIB = 1024**2

seconds = st.integers(1, 3600)
model_names = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=30).filter(
    lambda name: name[0] in string.ascii_letters + string.digits
)
# A release never has two names that differ only in case.
models = st.lists(
    st.tuples(model_names, st.integers(1, 10**6)), min_size=1, max_size=6, unique_by=lambda one: one[0].lower()
).map(dict)


@given(
    size=st.integers(1, 2**44),
    served=models,
    throughput=st.integers(MIB, 10 * 1024**3),
    per_model=seconds,
    minimum=seconds,
    period=st.integers(1, 60),
)
def test_the_startup_probe_is_as_long_as_the_longest_start_and_no_longer_than_a_period_more(
    size: int, served: dict[str, int], throughput: int, per_model: int, minimum: int, period: int
) -> None:
    startup = {
        "bytesPerSecond": throughput,
        "secondsPerModel": per_model,
        "minimumSeconds": minimum,
        "periodSeconds": period,
    }
    deployment = rendering.deployment({"release": {"bytes": size, "models": served}, "startup": startup})
    probe = deployment["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    allowed = probe["failureThreshold"] * probe["periodSeconds"]
    longest = max(minimum, -(-size // throughput) + per_model * len(served))
    assert longest <= allowed < longest + period
    assert deployment["spec"]["progressDeadlineSeconds"] > allowed - period


@given(size=st.integers(1, 2**44), headroom=st.integers(1, 10))
def test_the_cache_holds_every_copy_and_the_pod_asks_for_it(size: int, headroom: int) -> None:
    pod = rendering.pod({"release": {"bytes": size}, "modelCache": {"headroom": headroom}})
    limits = {volume["name"]: volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"]}
    cache = int(limits["models"].removesuffix("Mi"))
    assert max(size * headroom, 1024 * MIB) <= cache * MIB < max(size * headroom, 1024 * MIB) + MIB
    requested = pod["containers"][0]["resources"]["requests"]["ephemeral-storage"]
    assert int(requested.removesuffix("Mi")) == cache + 1024 + 256


@given(pre_stop=st.integers(0, 600), request=seconds, batch=seconds)
def test_the_grace_period_covers_the_whole_stop(pre_stop: int, request: int, batch: int) -> None:
    drain = {"preStopSeconds": pre_stop, "longestRequestSeconds": request, "longestBatchSeconds": batch}
    pod = rendering.pod({"drain": drain})
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] == pre_stop + request + 5 + batch + 10
    assert rendering.flag(container, "--exit-timeout-secs") == str(request + 5)
    assert rendering.flag(container, "--grpc-max-connection-age-grace") == str(1000 * request)


@given(served=models)
def test_readiness_asks_for_every_model_in_its_version(served: dict[str, int]) -> None:
    probe = rendering.container({"release": {"models": served}})["readinessProbe"]
    wanted = sorted(f"{model}/versions/{version}" for model, version in served.items())
    if len(served) == 1:
        assert probe["httpGet"]["path"] == f"/v2/models/{wanted[0]}/ready"
    else:
        models = probe["exec"]["command"][2].partition("/v2/models/{")[2].partition("}/ready")[0]
        assert sorted(models.split(",")) == wanted


@given(
    release_id=st.one_of(
        st.text("0123456789abcdef", min_size=64, max_size=64),
        st.text("0123456789", min_size=64, max_size=64),
        st.integers(10**9, 10**10 - 1).map(lambda digits: f"{digits}e1" + 52 * "0"),
    )
)
def test_a_release_id_stays_text_even_when_it_looks_like_a_number(release_id: str) -> None:
    overrides: dict[str, Any] = {
        "release": {"id": release_id},
        "modelRepository": {"s3": {"prefix": f"releases/{release_id}"}},
    }
    deployment = rendering.deployment(overrides)
    template = deployment["spec"]["template"]
    assert template["metadata"]["labels"]["triton-eks/release"] == release_id[:12]
    assert template["metadata"]["annotations"]["triton-eks/release"] == release_id
    assert rendering.flag(template["spec"]["containers"][0], "--model-repository").endswith(f"/{release_id}")
