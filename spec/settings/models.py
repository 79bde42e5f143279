"""Source of the models and the requirements of each: `triton-eks:models`."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from spec.problem import Problem
from spec.settings import images
from spec.settings.addresses import Endpoint
from spec.settings.fields import AccountId, ModelName, Name, Signer
from spec.settings.fsx import Fsx
from spec.settings.kind import between, fraction_between
from spec.settings.pipelines import needed_by, steps_without_entry, with_steps
from spec.settings.release import ASSUMED_BATCH_SIZE, LARGEST_TOLERANCE, Release, names_alike
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Absent, Section
from spec.settings.serving import ModelServing

_GIB = 1024**3
# While a rollout replaces pods, two releases are read, and the file system cannot free space for them.
_RELEASES_AT_ONCE = 2
ModelAccess = Literal["s3", "local", "mountpoint", "fsx-lustre"]
_READ_S3: tuple[ModelAccess, ...] = ("s3", "local")
Slot = Literal["blue", "green"]
_EXAMPLE_SIGNER = "EQawat/2aFIDW+MEb9tX78BS0iFg3"
"""Half of the x coordinate of the key in stacks/Pulumi.prod.yaml. It is the SHA-256 of `models.signers`, so no private key
exists for it.
"""
_Tolerance = Annotated[float, fraction_between(0, LARGEST_TOLERANCE, "of a number, or of 1")]


class Candidate(Section):
    """A release on its own pods, next to the pods of `release`, which it may replace. `modelctl rollout` writes it."""

    guide: ClassVar[str] = "docs/blue-green.md"

    release: Release = Field(description="the release, as `modelctl release` made it")
    percent: Annotated[int, between(0, 100, "percent")] = Field(
        default=0,
        description="its part of the requests that come through the gateway, for each model that both releases have; "
        "without it: 0, so that it is loaded and nobody asks it; of a model with sequence it gets requests with 100 alone",
    )
    mirror_percent: Annotated[int, between(0, 100, "percent")] = Field(
        default=0,
        description="the part of the requests of each model that both releases have of which the gateway sends it a copy, "
        "while percent is 0; its answers are dropped, and clients have those of `release`; without it: 0",
    )
    mirror_tolerances: dict[ModelName, _Tolerance] = Field(
        default_factory=dict,
        description="by model, how far apart the numbers of both releases' answers to a copy may be, as `tolerance` of its "
        "golden.json: copies of these go to what compares answers (triton.comparerImage), and those of others to the "
        "candidate; without it: no answers are compared",
    )
    pods: Annotated[int, between(1, 1000, "pods")] | None = Field(
        default=None,
        description="with an autoscaler, the fewest pods of each of the two releases, which is how many there were when the "
        "candidate came; without it: autoscaling.minReplicas",
    )

    @rule
    def _only_the_release_has_one_before(self, at: Place) -> Iterator[Problem]:
        """Refuse the previous release of a candidate, because a candidate would replace models.release."""
        if self.release.previous is not None:
            yield at.problem("release.previous", "a candidate comes after models.release, whichever that is; remove it")

    @rule
    def _copies_come_before_requests(self, at: Place) -> Iterator[Problem]:
        """Refuse copies for a candidate that gets requests itself. The effects of both could not be distinguished."""
        if self.mirror_percent and self.percent:
            yield at.problem(
                "mirrorPercent",
                f"the candidate has {self.percent} % of the requests, and copies are for one that nobody asks; remove it, "
                "or set percent: 0",
            )

    @rule
    def _answers_are_those_to_copies(self, at: Place) -> Iterator[Problem]:
        """Refuse tolerances without copies, or for models that the candidate lacks."""
        if self.mirror_tolerances and not self.mirror_percent:
            yield at.problem("mirrorTolerances", "there are no copies whose answers could be compared; remove it")
        for model in self.mirror_tolerances:
            if model not in self.release.models:
                yield at.problem(
                    f"mirrorTolerances.{model}", f"release {self.release.label} has no such model; remove the line"
                )


class Fetcher(Section):
    """The container that copies a release to the pod's disk before the server starts."""

    guide: ClassVar[str] = "docs/serving.md#a-release-on-the-pods-disk"

    image: Name = Field(description="the image of modelctl by digest, like <mirror>/modelctl@sha256:<64 hex digits>")

    @rule
    def _image_is_pinned(self, at: Place) -> Iterator[Problem]:
        """Require the modelctl image by digest."""
        yield from images.of_ours(at, "image", self.image, "modelctl", "modelctl")


class PlanBuilder(Section):
    """The image of the Jobs that `modelctl build-plans` prints. With it, they may write TensorRT plans into the bucket."""

    guide: ClassVar[str] = "docs/serving.md#tensorrt-plans"

    image: Name = Field(description="the image of modelctl by digest, like <mirror>/modelctl@sha256:<64 hex digits>")

    @rule
    def _image_is_pinned(self, at: Place) -> Iterator[Problem]:
        """Require the modelctl image by digest."""
        yield from images.of_ours(at, "image", self.image, "modelctl", "modelctl")


class Models(Section):
    """The source of the models, and the requirements of each."""

    guide: ClassVar[str] = "docs/serving.md"

    access: ModelAccess = Field(
        default="s3",
        description="how pods read a release: s3: Triton copies it to their disks; local: modelctl copies it "
        "there, in parallel and verified, before Triton starts (fetcher); mountpoint: it is mounted from the "
        "bucket; fsx-lustre: it is mounted from a file system (fsx) that reads the bucket",
    )
    fetcher: Fetcher | None = Field(
        default=None, description="what copies a release; required with access: local, else forbidden"
    )
    plan_builder: PlanBuilder | None = Field(
        default=None,
        description="what reads a release and writes the TensorRT plans that are built of it; without it: nothing may write "
        "into the bucket, and `modelctl build-plans` refuses",
    )
    fsx: Fsx | None = Field(
        default=None, description="the file system in front of the bucket; required with access: fsx-lustre, else forbidden"
    )
    s3_endpoint: Endpoint | None = Field(
        default=None, description="an S3 of your own that pods read models from, like MinIO; without it: S3 of AWS"
    )
    old_release_days: Annotated[int, between(1, 3650, "days")] = Field(
        description="days that objects of deleted releases are kept, like 90"
    )
    reader_accounts: Annotated[tuple[AccountId, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="other AWS accounts that may read the releases, to promote them to stacks of theirs; without it: none",
    )
    signers: tuple[Signer, ...] = Field(
        default=(),
        description="the signers' public keys, or certificates of the authorities that issue the signers' certificates, as "
        "PEM; releases without their signature are not pinned, promoted, rolled out or served; without it: no signature is "
        "required",
    )
    serving: dict[ModelName, ModelServing] = Field(
        default_factory=dict,
        description="by model, the latency, load and options from which `modelctl release` makes its config.pbtxt; without "
        "an entry, a step of a pipeline follows that of the pipeline, and another model its own config.pbtxt as it is",
    )
    release: Release | None = Field(
        default=None,
        description="the release that is served; without it: the platform without Triton, before the first "
        "`modelctl release`",
    )
    slot: Slot = Field(
        default="blue",
        description="with rollout: blue-green, which of the two Deployments serves `release`, triton-blue or triton-green; "
        "`modelctl rollout` writes it",
    )
    candidate: Candidate | None = Field(
        default=None,
        description="with rollout: blue-green, a release that is tried on the other Deployment; without it: that Deployment "
        "is not there",
    )

    _written: tuple[Mapping[str, ModelServing], Mapping[str, ModelServing]] | None = PrivateAttr(default=None)
    """The entries of the file, and the complete entries derived from them."""

    @property
    def ensembles(self) -> Mapping[str, tuple[str, ...]]:
        """Return the steps of each ensemble of the release."""
        return self.release.ensembles if self.release is not None else {}

    @property
    def needed(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by model, the other models that its server needs: the steps of an ensemble and the models that it
        calls."""
        return needed_by(self.release) if self.release is not None else {}

    def with_release(self, release: Release | None) -> "Models":
        """Return the section as if it pinned this release. The release's pipelines add their steps to `serving`."""
        models = self.model_copy(update={"release": release})
        with suppress(Absent):
            known = self._written
            written = known[0] if known is not None and known[1] is self.serving else self.serving
            complete = with_steps(written, release) if release is not None else dict(written)
            models.__dict__["serving"] = complete
            models._written = written, complete
        return models

    def largest_batch(self, model: str) -> int:
        """Return the maximum number of requests that an instance of the model computes at once."""
        wants = self.serving.get(model)
        if wants is not None and wants.max_batch_size is not None:
            return wants.max_batch_size
        batches = self.release.batches if self.release is not None else {}
        return max(1, batches.get(model, ASSUMED_BATCH_SIZE))

    def instances_of(self, model: str) -> int:
        """Return the instances of a model of `serving`, from its entry or else derived by the release."""
        instances = self.serving[model].instances
        if instances is not None:
            return instances
        return self.release.instances.get(model, 1) if self.release is not None else 1

    def gpu_memory_of(self, model: str) -> int | None:
        """Return the GPU memory in MiB of an instance of a model of `serving`, measured or estimated; None if unknown."""
        measured = self.serving[model].gpu_memory_mib
        if measured is not None or self.release is None:
            return measured
        return self.release.gpu_memory_mib.get(model)

    @property
    def cpu_instances(self) -> int:
        """Return the number of instances that compute on the CPU of a pod. Ensembles count as none."""
        on_cpu = (name for name, model in self.serving.items() if model.device == "cpu" and name not in self.ensembles)
        return sum(map(self.instances_of, on_cpu))

    def engine_builds(self, gpus: int) -> int:
        """Return how many engines a pod with this many GPUs builds for its models at startup."""
        if self.release is None:
            return 0
        built = (name for name in self.release.engines if name in self.release.models and name in self.serving)
        return sum(self.instances_of(name) * gpus for name in built)

    def is_decoupled(self, model: str) -> bool:
        """Return whether a request to the model may have any number of responses. An ensemble inherits it from its steps.

        Triton derives it for ensembles in the same way:
        https://github.com/triton-inference-server/core/blob/73aad7c/src/ensemble_scheduler/ensemble_utils.cc#L364.
        """
        said = self.release.decoupled if self.release is not None else ()
        waiting, seen = [model], set[str]()
        while waiting:
            name = waiting.pop()
            wants = self.serving.get(name)
            if name in said or (wants is not None and wants.decoupled):
                return True
            seen.add(name)
            waiting += [step for step in self.ensembles.get(name, ()) if step not in seen]
        return False

    def keeps_sequences(self, model: str) -> bool:
        """Return whether all requests of a sequence have to reach one server. Models that it needs count too."""
        names = (model, *steps_without_entry(model, self.needed, entries=()))
        return any(self.serving[name].sequence is not None for name in names if name in self.serving)

    @rule
    def _names_differ(self, at: Place) -> Iterator[Problem]:
        """Refuse two models whose names differ only in case, because no release can hold both."""
        yield from names_alike(at, "serving", self.serving)

    @rule
    def _reader_accounts_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each reader account once."""
        accounts = self.reader_accounts or ()
        for index, account in enumerate(accounts):
            if account in accounts[:index]:
                yield at.problem(f"readerAccounts[{index}]", f"{account} is listed twice; list each account once")

    @rule
    def _mounts_read_s3_of_aws(self, at: Place) -> Iterator[Problem]:
        """Refuse s3Endpoint if models are mounted from an AWS bucket."""
        if self.access not in _READ_S3 and self.s3_endpoint is not None:
            yield at.problem(
                "access",
                f"'{self.access}' mounts a bucket of AWS, and models.s3Endpoint names another store; "
                "use s3, or remove s3Endpoint",
            )

    @rule
    def _a_fetcher_is_named_where_it_is_used(self, at: Place) -> Iterator[Problem]:
        """Require the section fetcher with access local, and refuse it with the others."""
        if self.access == "local" and self.fetcher is None:
            yield at.problem(
                "fetcher",
                "is missing, and access: local needs the image that copies releases; add the section, like "
                "{image: <mirror>/modelctl@sha256:<64 hex digits>}, or use another access",
            )
        if self.access != "local" and self.fetcher is not None:
            yield at.problem("fetcher", f"is not used with access: {self.access}; remove the section, or use access: local")

    @rule
    def _signatures_are_verified_before_the_server_reads(self, at: Place) -> Iterator[Problem]:
        """Require access: local if releases are signed, because Triton itself verifies no signatures."""
        if self.signers and self.access != "local":
            yield at.problem(
                "signers",
                f"is not used with access: {self.access}, where Triton reads the bucket unverified; use access: local",
            )

    @warning
    def _signer_is_an_example(self, at: Place) -> Iterator[Problem]:
        """Warn about the public key of the shipped prod stack file, whose private key does not exist."""
        for index, signer in enumerate(self.signers):
            if _EXAMPLE_SIGNER in signer:
                yield at.problem(
                    f"signers[{index}]",
                    "the key is the example that this repository ships, nobody can sign for it; put the public keys of your "
                    "signers here before a real `pulumi up`",
                )

    @rule
    def _a_file_system_is_described_where_it_is_used(self, at: Place) -> Iterator[Problem]:
        """Require the section fsx with access fsx-lustre, and refuse it with the others."""
        if self.access == "fsx-lustre" and self.fsx is None:
            yield at.problem(
                "fsx",
                "is missing, and access: fsx-lustre needs a file system; "
                "add the section, like {storageGiB: 1200, throughputMBsPerTiB: 125}, or use another access",
            )
        if self.access != "fsx-lustre" and self.fsx is not None:
            yield at.problem("fsx", f"is not used with access: {self.access}; remove the section, or use access: fsx-lustre")

    @rule
    def _releases_fit_the_file_system(self, at: Place) -> Iterator[Problem]:
        """Require room for two releases, because a rollout reads both."""
        if self.fsx is None or self.release is None:
            return
        needed = _RELEASES_AT_ONCE * self.release.bytes
        if self.candidate is not None:
            needed = max(needed, self.release.bytes + self.candidate.release.bytes)
        if needed > self.fsx.storage_gib * _GIB:
            yield at.problem(
                "fsx.storageGiB",
                f"{self.fsx.storage_gib} GiB do not hold two releases of {needed / 2 / _GIB:.0f} GiB, and both are "
                f"read during a rollout; use {_smallest_file_system_gib(needed)} or more",
            )

    @rule
    def _a_candidate_is_another_release(self, at: Place) -> Iterator[Problem]:
        """Require models.release with a candidate, and a candidate that is another release."""
        if self.candidate is None:
            return
        if self.release is None:
            yield at.problem("candidate", "there is no models.release that it could replace; pin it as models.release")
        elif self.candidate.release.id == self.release.id:
            yield at.problem("candidate.release.id", f"{self.release.label} is models.release itself; remove the candidate")

    @warning
    def _release_is_missing(self, at: Place) -> Iterator[Problem]:
        """Warn that Triton is not deployed without a release."""
        if at.environment != "local" and self.release is None:
            yield at.problem(
                "release",
                f"is not pinned, so Triton is not deployed yet; `python3 -m stackctl first-inference {at.stack}` deploys it "
                f"with the models of `make models`; with your own: `python3 -m modelctl release … --pin "
                f"stacks/Pulumi.{at.stack}.yaml`, then `pulumi up`",
            )


def _smallest_file_system_gib(needed_bytes: int) -> int:
    """Return the smallest FSx size that holds this many bytes, in steps of 2400 GiB; the size 1200 is not considered."""
    return -(-needed_bytes // (2400 * _GIB)) * 2400
