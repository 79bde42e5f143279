"""Where models come from, and what the stack asks of each: `triton-eks:models`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.settings.fields import Endpoint, ModelName, ReleaseId, ServingDigest, between
from spec.settings.fsx import Fsx
from spec.settings.section import Section
from spec.settings.serving import ModelServing

_Version = Annotated[int, between(1, 999_999_999, "for a version")]
ModelAccess = Literal["s3", "mountpoint", "fsx-lustre"]


class Release(Section):
    """The model release that Triton serves: an immutable prefix of the bucket. `modelctl pin` writes it."""

    guide: ClassVar[str] = "docs/decisions/model-releases.md"

    id: ReleaseId = Field(description="the id that `modelctl release` printed")
    bytes: Annotated[int, between(1, 10**15, "bytes")] = Field(description="the sum of the object sizes")
    models: Annotated[dict[ModelName, _Version], Field(min_length=1)] = Field(
        description="the models and the version of each, like {resnet50: 1}"
    )
    others: dict[ModelName, Annotated[tuple[_Version, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="by model, lower versions that are served beside the one in `models`, which answers requests that name "
        "none; without it: one version of each",
    )
    serving: ServingDigest | None = Field(
        default=None,
        description="the digest of the models.serving that its configs were made from; without it: the release was made "
        "without models.serving",
    )
    previous: ReleaseId | None = Field(
        default=None,
        description="the release that this one replaced, to which `modelctl rollback` returns; without it: there is none",
    )


class Models(Section):
    """Where models come from, and what the stack asks of each."""

    guide: ClassVar[str] = "docs/serving.md"

    access: ModelAccess = Field(
        default="s3",
        description="how pods read a release: s3: Triton copies it to their disks; mountpoint: it is mounted from the "
        "bucket; fsx-lustre: it is mounted from a file system (fsx) that reads the bucket",
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
    serving: dict[ModelName, ModelServing] = Field(
        default_factory=dict,
        description="by model, the latency, load and options from which `modelctl release` makes its config.pbtxt; a model "
        "without an entry is served by its own config.pbtxt as it is",
    )
    release: Release | None = Field(
        default=None,
        description="the release that is served; without it: the platform without Triton, before the first "
        "`modelctl release`",
    )
