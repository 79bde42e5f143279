"""The inference server: `triton-eks:triton`."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field

from spec.problem import Problem
from spec.settings import images
from spec.settings.fields import (
    Cpu,
    CudaVersion,
    Name,
    ResourceName,
    ServerVersion,
    TensorrtVersion,
    TritonVersion,
    cpu_millis,
)
from spec.settings.images import is_repository
from spec.settings.kind import between, matching
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Absent, Section
from spec.versions import (
    CUDA_DRIVERS,
    OLDEST_TRITON_VERSION,
    TRITON_RELEASES,
    TritonRelease,
    cuda_major,
    example_digest,
)
from spec.wording import one_of

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NO_SERVER = re.compile(r"/tritonserver.*[-_./](sdk|clients?|min|base|buildbase)(?![a-z0-9])")
_LEAST_MILLIS = 100
_BY_DIGEST = "give <mirror>/nvidia/tritonserver@sha256:<64 hex digits> (`stackctl image` writes it)"
PodAutoscaler = Literal["none", "keda", "hpa"]
_Owner = TypeVar("_Owner", bound=str)
_Tokenizer = Annotated[
    str,
    matching(
        # A relative directory would depend on the server's working directory.
        r"(?!(.*/)?\.\.(/|$))(/[^\s\x00-\x1f\x7f]+|[A-Za-z0-9][\w.-]*(/[\w.-]+)?)",
        "is neither a name on a hub nor an absolute directory",
        "give one like meta-llama/Meta-Llama-3.1-8B-Instruct or /models/current/chat/1/weights",
        quote=True,
    ),
]


def owner_of_pods(named: _Owner | None, bounds: object | None) -> _Owner | Literal["keda", "none"]:
    """Return the owner of a number of pods: the named one, else KEDA if there are bounds, else `none`."""
    return named or ("none" if bounds is None else "keda")


class OpenAi(Section):
    """Triton's OpenAI-compatible front end. It runs the server in its own process and replaces tritonserver."""

    guide: ClassVar[str] = "docs/language-models.md#openai-compatible-front-end"

    tokenizer: _Tokenizer = Field(
        description="the tokenizer whose template makes a prompt of a chat: a name on a hub, like "
        "meta-llama/Meta-Llama-3.1-8B-Instruct, or an absolute directory as the pods see it"
    )


class Triton(Section):
    """The inference server. Its pods request `cpu`, `memoryGiB` and `gpus`, with the same limits for memory and GPUs."""

    guide: ClassVar[str] = "docs/serving.md"

    version: TritonVersion = Field(description='the NGC release of the image in quotes, like "26.11"')
    server: ServerVersion | None = Field(
        default=None,
        description='the server of the image in quotes, like "2.75.0"; given with `cuda` and `tensorrt` for a '
        "release that is newer than all of spec/versions.py, else forbidden",
    )
    cuda: CudaVersion | None = Field(
        default=None, description='the CUDA of the image in quotes, like "13.4"; given with `server`, else forbidden'
    )
    tensorrt: TensorrtVersion | None = Field(
        default=None,
        description='the TensorRT of the image in quotes, like "11.1.0", as `dpkg -l | grep libnvinfer` in it says; without '
        "it: the first number, as spec/versions.py has it for the release",
    )
    image: Name = Field(description="the image by digest, like <mirror>/nvidia/tritonserver@sha256:<64 hex digits>")
    pool: Name = Field(description="the GPU pool that its pods run on")
    gpus: Annotated[int, between(0, 8, "whole GPUs per pod")] = Field(
        description="whole GPUs per pod; 0 with pool: cpu, on nodes.cpu"
    )
    replicas: Annotated[int, between(1, 1000, "pods")] | None = Field(
        default=None,
        description="the number of pods; required where nothing scales them (autoscaler: none), else forbidden",
    )
    autoscaler: PodAutoscaler | None = Field(
        default=None,
        description="who changes the number of pods: none, keda or hpa (a HorizontalPodAutoscaler); without it: keda where "
        "the section autoscaling is given, else none",
    )
    cpu: Cpu = Field(description='vCPUs per pod in quotes, like "3"; thread pools are as large')
    memory_gib: Annotated[int, between(1, 2048, "GiB")] = Field(description="memory per pod in GiB, like 12")
    response_cache_mib: Annotated[int, between(1, 1_048_576, "MiB")] | None = Field(
        default=None,
        description="host memory of each pod for the response cache in MiB, like 64; required where a model has "
        "responseCache, else forbidden",
    )
    rate_limiter_resources: dict[ResourceName, Annotated[int, between(1, 1_000_000, "of a resource")]] = Field(
        default_factory=dict,
        description="how much each pod has of each resource of the rate limiter, like {slots: 4}; required where a model "
        "has rateLimiter, else forbidden",
    )
    openai: OpenAi | None = Field(
        default=None,
        description="the OpenAI-compatible front end, for language models alone; without it: Triton's own APIs alone",
    )
    rollout: Literal["rolling", "in-place", "blue-green"] = Field(
        default="rolling",
        description="how a new release reaches the pods: by replacing them (rolling), into the running ones (in-place), or "
        "on pods of its own beside them, which the gateway gives more and more of the requests (blue-green)",
    )
    comparer_image: Name | None = Field(
        default=None,
        description="with rollout: blue-green, the image of modelctl by digest, like <mirror>/modelctl@sha256:<64 hex "
        "digits>, which compares what both releases answer to copies of requests (`modelctl rollout --mirror`); without it: "
        "copies go to the candidate, and their answers are dropped",
    )

    @property
    def ngc_release(self) -> TritonRelease:
        """The facts about the image's release. Raises Absent if neither spec/versions.py nor the stack file has them."""
        if self.version in TRITON_RELEASES:
            return TRITON_RELEASES[self.version]
        if self.server is None or self.cuda is None or cuda_major(self.cuda) not in CUDA_DRIVERS:
            raise Absent
        newest = TRITON_RELEASES[max(TRITON_RELEASES)]
        return replace(newest, server=self.server, cuda=self.cuda, tensorrt=self.tensorrt)

    @rule
    def _version_is_safe(self, at: Place) -> Iterator[Problem]:
        """Require a release of spec/versions.py, or a newer one with server, cuda and tensorrt."""
        if self.version in TRITON_RELEASES:
            for key in ("server", "cuda"):
                if getattr(self, key) is not None:
                    yield at.problem(key, f"spec/versions.py has it for {self.version}; remove it")
            return
        newer = one_of(f'"{known}"' for known in TRITON_RELEASES)
        if self.version < OLDEST_TRITON_VERSION:
            yield at.problem(
                "version",
                f"NVIDIA's security bulletins name holes of releases before {OLDEST_TRITON_VERSION}; use {newer}",
            )
        elif self.version < max(TRITON_RELEASES):
            yield at.problem("version", f"spec/versions.py does not know {self.version}; use {newer}")
        elif missing := [key for key in ("server", "cuda", "tensorrt") if getattr(self, key) is None]:
            yield at.problem(
                "version",
                f"spec/versions.py does not know {self.version}; give {', '.join(missing)} of its image too, or use {newer}",
            )
        elif self.cuda is not None and cuda_major(self.cuda) not in CUDA_DRIVERS:
            yield at.problem(
                "cuda",
                f"spec/versions.py has no oldest driver for CUDA {self.cuda}; use an image with {one_of(CUDA_DRIVERS)}",
            )

    @warning
    def _version_is_checked_less(self, at: Place) -> Iterator[Problem]:
        """Warn about a release that spec/versions.py does not know: its flags and limits are not checked."""
        if self.version not in TRITON_RELEASES:
            newest = max(TRITON_RELEASES)
            yield at.problem(
                "version",
                f"spec/versions.py does not know {self.version}; its flags, GPUs and ONNX Runtime are checked as in "
                f"{newest}. Read its release notes",
            )

    @rule
    def _server_can_start(self, at: Place) -> Iterator[Problem]:
        """Require at least 0.1 vCPU; with less, the server does not start before its probes fail."""
        if cpu_millis(self.cpu) < _LEAST_MILLIS:
            yield at.problem(
                "cpu",
                f"'{self.cpu}' is less than {_LEAST_MILLIS}m, with which a server takes hours to start; give one like \"3\"",
            )

    @rule
    def _image_is_pinned(self, at: Place) -> Iterator[Problem]:
        """Require the image by digest, without a tag."""
        repository, by, digest = self.image.partition("@")
        last = repository.rpartition("/")[2]
        if ":" in last:
            tag = last.partition(":")[2]
            why = (
                f"with the tag '{tag}' beside the digest, one of them lies after the next push"
                if by
                else (f"the tag '{tag}' can be pushed again, so that a restart would serve something else")
            )
            yield at.problem("image", f"{why}; {_BY_DIGEST}")
        elif not by:
            yield at.problem("image", f"'{self.image}' has no digest and means the tag latest; {_BY_DIGEST}")
        elif not is_repository(repository):
            yield at.problem("image", f"'{repository}' is not an image repository; {_BY_DIGEST}")
        if by and not _DIGEST.fullmatch(digest):
            yield at.problem("image", f"'{digest}' is not a sha-256 digest; {_BY_DIGEST}")
        elif by and len(set(digest.removeprefix("sha256:"))) == 1:
            yield at.problem("image", f"'{digest[:19]}...' is a placeholder; {_BY_DIGEST}")

    @rule
    def _comparer_image_is_pinned(self, at: Place) -> Iterator[Problem]:
        """Require the modelctl image by digest."""
        if self.comparer_image is not None:
            yield from images.of_ours(at, "comparerImage", self.comparer_image, "modelctl", "modelctl")

    @rule
    def _image_is_triton(self, at: Place) -> Iterator[Problem]:
        """Require a path with /tritonserver. Refuse images with only client tools (sdk) and base images (min)."""
        repository = self.image.partition("@")[0]
        if "/tritonserver" not in repository:
            yield at.problem("image", f"'{repository}' is not a Triton image; its path must contain /tritonserver")
        elif match := _NO_SERVER.search(repository):
            yield at.problem(
                "image",
                f"'{repository}' is the image '{match[1]}', in which there is no server with its backends; "
                "give the whole one, nvidia/tritonserver",
            )

    @warning
    def _image_is_an_example(self, at: Place) -> Iterator[Problem]:
        """Warn about the placeholder digest of the shipped stack files."""
        if at.environment != "local" and self.image.endswith(example_digest(self.version)):
            yield at.problem(
                "image",
                "the digest is the example that this repository ships, no registry has it; "
                "put the digest of your mirror here before a real `pulumi up`",
            )
