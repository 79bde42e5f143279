"""Rules about buckets and image repositories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from triton_policies.documents import refuses_plain_http, statements
from triton_policies.findings import Finding, Violation, attempt, each, is_true, require
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, strings, switch
from triton_policies.resources import Resource, Stack

BUCKET = "aws:s3/bucket:Bucket"
PUBLIC_ACCESS = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
VERSIONING = "aws:s3/bucketVersioning:BucketVersioning"
OWNERSHIP = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
REPOSITORY = "aws:ecr/repository:Repository"
LIFECYCLE = "aws:ecr/lifecyclePolicy:LifecyclePolicy"

_GUARDS: Mapping[str, str] = {
    PUBLIC_ACCESS: "public access block: one wrong ACL or policy makes it public",
    ENCRYPTION: "default encryption with your own key",
    OWNERSHIP: "ownership controls: objects may belong to other accounts",
    BUCKET_POLICY: "policy: requests without TLS are answered",
    VERSIONING: "versioning: what is overwritten or deleted is gone",
}


def _public_access(block: Resource, settings: Settings) -> Iterator[Finding]:
    for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"):
        yield from require(block[key], is_true, "is {value}: the bucket can be made public")


def _encrypted(configuration: Resource, settings: Settings) -> Iterator[Finding]:
    rules = configuration["rules"]
    if not rules.elements:
        yield Violation(rules.path, "is not set: objects are encrypted with a key that is not yours")
    for rule in rules.elements:
        default = rule["applyServerSideEncryptionByDefault"]
        yield from require(
            default["sseAlgorithm"],
            lambda value: value in ("aws:kms", "aws:kms:dsse"),
            "is {value}: who may read is not decided by a key of yours",
        )
        if not default["kmsMasterKeyId"].given:
            yield Violation(default["kmsMasterKeyId"].path, "is not set: AWS's key is used, whose policy you cannot change")


def _blocks_customer_keys(configuration: Resource, settings: Settings) -> Iterator[Finding]:
    rules = configuration["rules"]
    if not rules.elements:
        yield Violation(rules.path, "is not set: clients can upload objects with keys of their own")
    for rule in rules.elements:
        yield from require(
            rule["blockedEncryptionTypes"],
            lambda value: isinstance(value, list) and "SSE-C" in value,
            "is {value}: clients can upload objects with keys of their own",
        )


def _bucket_policy(policy: Resource, settings: Settings) -> Iterator[Finding]:
    document = policy["policy"]
    found = list(statements(document))
    refusing = [statement for statement in found if refuses_plain_http(statement, "s3")]
    covered = {resource for statement in refusing for resource in statement.resources}
    whole = any(one.endswith("/*") for one in covered) and any(not one.endswith("/*") for one in covered)
    if "*" not in covered and not whole:
        yield Violation(
            document.path,
            "has no statement that denies s3:* to everybody, on the bucket and its objects, "
            "when aws:SecureTransport is false",
        )
    for statement in found:
        if statement.public:
            problem = f"{statement.anyone}: anyone on the internet may use the bucket"
            yield Violation(statement.principal_path, problem, fix="name who may")


def _ownership(controls: Resource, settings: Settings) -> Iterator[Finding]:
    yield from require(
        controls["rule.objectOwnership"],
        lambda value: value == "BucketOwnerEnforced",
        "is {value}: ACLs decide beside policies, and objects may belong to others",
    )


def _guarded(stack: Stack, settings: Settings) -> Iterator[Finding]:
    def check(bucket: Resource) -> Iterator[Finding]:
        name = bucket["bucket"]
        unversioned = name.known and any(fnmatchcase(str(name.value), one) for one in settings["unversioned"])
        for type, missing in _GUARDS.items():
            if type == VERSIONING and unversioned:
                continue
            if not stack.any_names(stack.of(type), "bucket", bucket):
                yield Violation("", f"has no {missing}", bucket)

    yield from each(stack.of(BUCKET), check)
    yield from each(stack.of(VERSIONING), _enabled)


def _enabled(versioning: Resource) -> Iterator[Finding]:
    status = versioning["versioningConfiguration.status"]
    if status.value != "Enabled":
        problem = f"is {status.value}: what is overwritten or deleted is gone"
        yield Violation(status.path, problem, versioning, fix="set it to Enabled")


def _kept(bucket: Resource, settings: Settings) -> Iterator[Finding]:
    if not settings["protected"]:
        return
    name = bucket["bucket"]

    def check() -> Iterator[Finding]:
        if not any(fnmatchcase(str(name.value), pattern) for pattern in settings["buckets"]):
            return
        if not bucket.protected:
            yield Violation("", "is not protected: a destroy takes the models along", fix="give it protect=True")
        force = bucket["forceDestroy"]
        if is_true(force.value):
            yield Violation(force.path, "is true: a destroy empties it first", fix="set it to false")

    yield from attempt(check)


def _repository(repository: Resource, settings: Settings) -> Iterator[Finding]:
    checks: tuple[tuple[str, Callable[[object], bool], str], ...] = (
        ("imageTagMutability", lambda value: value == "IMMUTABLE", "is {value}: what a tag names can be exchanged"),
        ("imageScanningConfiguration.scanOnPush", is_true, "is {value}: nobody learns of an image's vulnerabilities"),
    )
    for path, holds, problem in checks:
        yield from require(repository[path], holds, problem)
    configurations = repository["encryptionConfigurations"]

    def check() -> Iterator[Finding]:
        if not any(one["encryptionType"].value == "KMS" for one in configurations.elements):
            yield Violation(configurations.path, "has no KMS: images are encrypted with a key that is not yours")

    yield from attempt(check)


def _repository_lifecycle(stack: Stack, settings: Settings) -> Iterator[Finding]:
    policies = list(stack.of(LIFECYCLE))
    for repository in stack.of(REPOSITORY):
        if not stack.any_names(policies, "repository", repository):
            yield Violation("", "has no lifecycle policy: images that nobody uses are billed for ever", repository)


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="s3-public-access-blocked",
        says="No bucket can be made public.",
        severity="critical",
        controls=("FSBP S3.1", "FSBP S3.8"),
        fix="set all four switches to true",
        types=(PUBLIC_ACCESS,),
        judge=_public_access,
    ),
    ResourcePolicy(
        id="s3-kms-encrypted",
        says="Objects are encrypted with a KMS key of your own.",
        severity="high",
        controls=("FSBP S3.17",),
        fix="set sseAlgorithm to aws:kms and kmsMasterKeyId to your key",
        types=(ENCRYPTION,),
        judge=_encrypted,
    ),
    ResourcePolicy(
        id="s3-customer-keys-blocked",
        says="No object is encrypted with a client's own key (SSE-C).",
        severity="medium",
        controls=(),
        fix="set blockedEncryptionTypes to SSE-C",
        types=(ENCRYPTION,),
        judge=_blocks_customer_keys,
    ),
    ResourcePolicy(
        id="s3-tls-only",
        says="A bucket answers through TLS alone, and not to everybody.",
        severity="critical",
        controls=("FSBP S3.2", "FSBP S3.3", "FSBP S3.5"),
        fix="add the statement to the bucket's policy",
        types=(BUCKET_POLICY,),
        judge=_bucket_policy,
    ),
    ResourcePolicy(
        id="s3-no-acls",
        says="Every object belongs to the bucket's owner, and ACLs mean nothing.",
        severity="high",
        controls=("FSBP S3.12",),
        fix="set rule.objectOwnership to BucketOwnerEnforced",
        types=(OWNERSHIP,),
        judge=_ownership,
    ),
    StackPolicy(
        id="s3-locked-down",
        says="Every bucket has all of its guards: public access block, key, ownership, TLS policy, versions.",
        severity="critical",
        controls=("FSBP S3.5", "FSBP S3.8", "FSBP S3.12", "FSBP S3.14", "FSBP S3.17"),
        fix="make the missing resource for the bucket",
        settings={
            "unversioned": strings(
                "name patterns of buckets that need no versions: nothing in them changes, and all of it expires",
                ["triton-requests-*"],
            )
        },
        judge=_guarded,
    ),
    ResourcePolicy(
        id="s3-models-kept",
        says="The bucket of the models outlives mistakes and the stack.",
        severity="high",
        controls=(),
        fix="protect it",
        settings={
            "buckets": strings("name patterns of buckets that hold models", ["triton-models-*"]),
            "protected": switch("whether they have to be protected", True, local=False),
        },
        types=(BUCKET,),
        judge=_kept,
    ),
    ResourcePolicy(
        id="ecr-immutable-scanned",
        says="Image repositories have tags that stay, scan what is pushed, and use your own key.",
        severity="high",
        controls=("CIS EKS 5.1.1", "FSBP ECR.1", "FSBP ECR.2", "FSBP ECR.5"),
        fix="set imageTagMutability IMMUTABLE, imageScanningConfiguration.scanOnPush true, encryptionType KMS",
        types=(REPOSITORY,),
        judge=_repository,
    ),
    StackPolicy(
        id="ecr-lifecycle",
        says="Image repositories forget images that nobody uses.",
        severity="medium",
        controls=("FSBP ECR.3",),
        fix="make an aws.ecr.LifecyclePolicy for it",
        judge=_repository_lifecycle,
    ),
)
