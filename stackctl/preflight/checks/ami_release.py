"""Check that AWS publishes the plain and the NVIDIA node image of the pinned release.

AWS publishes each release of the images as public SSM parameters; Karpenter reads the same parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from spec.versions import KUBERNETES
from stackctl.account.read_only import or_none
from stackctl.preflight.checks.check import Finding, Subject, fail, ok

_VARIANTS = ("standard", "nvidia")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each image variant."""
    kubernetes = subject.settings.cluster.version
    release = KUBERNETES[kubernetes].ami_release
    for variant in _VARIANTS if subject.settings.gpu.pools else ("standard",):
        yield _variant(subject, kubernetes, release, variant)


def image_parameter(kubernetes: str, release: str, variant: str) -> str:
    """Return the SSM parameter of a release's image id: the name has `1.35.6-20260728` as `v20260728`."""
    name = f"amazon-eks-node-al2023-x86_64-{variant}-{kubernetes}-v{release.rpartition('-')[2]}"
    return f"{_folder(kubernetes, variant)}/{name}/image_id"


def image_id(subject: Subject, kubernetes: str, release: str, variant: str) -> str | None:
    """Return the id of a release's image in the stack's region, or None."""
    return _parameter(subject, image_parameter(kubernetes, release, variant))


def recommended_parameter(kubernetes: str, variant: str) -> str:
    """Return the SSM parameter with AWS's currently recommended release."""
    return f"{_folder(kubernetes, variant)}/recommended/release_version"


def _folder(kubernetes: str, variant: str) -> str:
    return f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/x86_64/{variant}"


def _variant(subject: Subject, kubernetes: str, release: str, variant: str) -> Finding:
    image = image_id(subject, kubernetes, release, variant)
    remedy = f'change ami_release in spec/versions.py, KUBERNETES["{kubernetes}"]'
    if image is None:
        newest = _parameter(subject, recommended_parameter(kubernetes, variant))
        return fail(
            f"there is no {variant} image of release {release} in {subject.settings.region}",
            remedy + (f"; AWS recommends {newest}" if newest is not None else ""),
        )
    images = subject.readers("ec2").describe_images(ImageIds=[image])["Images"]
    state = images[0]["State"] if images else "gone"
    if state != "available":
        return fail(f"the {variant} image of release {release} ({image}) is {state}", remedy)
    return ok(f"{variant}: {release} is {image}")


def _parameter(subject: Subject, name: str) -> str | None:
    answer = or_none(lambda: subject.readers("ssm").get_parameter(Name=name), "ParameterNotFound")
    return str(answer["Parameter"]["Value"]) if answer is not None else None
