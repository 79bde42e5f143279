"""Types of the single values in a stack file. Each has the message for a value that does not fit.

They are built from the parts in spec/settings/kind.py.
"""

import re
from typing import Annotated, Any

from spec.catalog import REGIONS
from spec.problem import describe
from spec.settings.kind import Kind, fraction_between, key_matching, matching, refuse, text_of
from spec.wording import did_you_mean, one_of

# The retentionInDays that CloudWatch Logs accepts.
LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545),
    *(731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
OWN_TAG_KEYS = ("project", "environment", "Name", "service-account")
"""The tag keys that the program sets on its resources."""

_CPU = re.compile(r"(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?|[1-9][0-9]{0,6}m")  # the charts' schemas allow the same
# EKS, its add-ons and Karpenter find their resources by such keys. So does the search for the remains of a stack.
_FOREIGN_TAG_KEY = re.compile(
    r"aws:|eks:|([a-z0-9.-]+\.)?(kubernetes\.io|k8s\.io|k8s\.aws|k8s\.amazonaws\.com|karpenter\.sh|csi\.aws\.com)/"
)
_TAG_KEY = re.compile(r"[\w .:/=+@-]{1,128}")  # AWS allows letters of every script here
_TAG_VALUE = re.compile(r"[\w .:/=+@-]*")
MOST_TAGS = 40
"""AWS allows 50. The program, EKS, Karpenter and the load balancer controller add up to 10."""
# Requests per second. The minimum is one in about a quarter of an hour; the maximum is more than any fleet can answer.
_SLOWEST_RATE, _FASTEST_RATE = 0.001, 1_000_000


def _region(value: Any) -> str:
    text = text_of(value, "give the name of an AWS region, like us-west-2")
    if text not in REGIONS:
        near = did_you_mean(text, sorted(REGIONS))
        refuse(f"'{text}' is not a region of spec/catalog.py; {near or f'use {one_of(sorted(REGIONS))}'}".rstrip())
    return text


def _zones(value: Any) -> int | tuple[str, ...]:
    valid = "give how many (1 to 4) or a list of zone names like [us-west-2a, us-west-2b]"
    if isinstance(value, bool) or not isinstance(value, int | list):
        refuse(f"{describe(value)}; {valid}")
    if isinstance(value, int):
        if not 1 <= value <= 4:
            refuse(f"{value} is out of range; use 1 to 4 zones")
        return value
    wrong = [zone for zone in value if not isinstance(zone, str)]
    if wrong:
        refuse(f"{describe(wrong[0])}; {valid}")
    if not 1 <= len(value) <= 4:
        refuse(f"{len(value)} zones are listed; use 1 to 4 zones")
    return tuple(value)


def _log_retention(value: int) -> int:
    if value not in LOG_RETENTION_DAYS:
        nearest = next((days for days in LOG_RETENTION_DAYS if days > value), LOG_RETENTION_DAYS[-1])
        listed = ", ".join(str(days) for days in LOG_RETENTION_DAYS)
        refuse(f"CloudWatch has no retention of {value} days; the next one is {nearest} (it accepts {listed})")
    return value


_LEAST_CPU_MILLIS = 10
"""The kubelet raises lower CPU limits of a container to this value (MinMilliCPULimit):
https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/cm/helpers_linux.go
"""


def _cpu(value: Any) -> str:
    valid = 'give vCPUs in quotes, like "3", "1.5" or "1500m"'
    text = text_of(value, valid)
    if not _CPU.fullmatch(text) or cpu_millis(text) <= 0:
        refuse(f"'{text}' is not an amount of CPU; {valid}")
    if cpu_millis(text) < _LEAST_CPU_MILLIS:
        refuse(f"'{text}' is less than the {_LEAST_CPU_MILLIS}m that a container is given in any case; {valid}")
    return text


def cpu_millis(cpu: str) -> int:
    """Return a Kubernetes CPU quantity in thousandths of a vCPU: `1.5` -> 1500, `500m` -> 500."""
    return int(cpu[:-1]) if cpu.endswith("m") else round(float(cpu) * 1000)


def _tag_key(value: str) -> str:
    if _FOREIGN_TAG_KEY.match(value.lower()):
        refuse(f"'{value}' is reserved (aws: by AWS, kubernetes.io/ by EKS); use another tag key")
    if value.casefold() in {own.casefold() for own in OWN_TAG_KEYS}:
        refuse(
            f"'{value}' is a tag that the program sets itself, in whatever case: a stack's own resources are told from "
            "others' by it; use another tag key"
        )
    if not _TAG_KEY.fullmatch(value):
        refuse(f"'{value}' is not a tag key; use 1 to 128 letters, digits, spaces and _ . : / = + - @")
    if value != value.strip():
        refuse(f"'{value}' begins or ends with a space, which load balancers refuse; remove it")
    return value


def _tag_value(value: Any) -> str:
    valid = "give text of 1 to 256 characters"
    text = text_of(value, valid, quote=True)
    if not 1 <= len(text) <= 256:
        refuse(f"it has {len(text)} characters; {valid}")
    if not _TAG_VALUE.fullmatch(text):
        wrong = next(character for character in text if not _TAG_VALUE.fullmatch(character))
        refuse(f"{wrong!r} is no character of a tag's value; use letters, digits, spaces and _ . : / = + - @")
    if text != text.strip():
        refuse(f"'{text}' begins or ends with a space, which load balancers refuse; remove it")
    return text


def _id(prefix: str, what: str, *, short: bool = True) -> Kind:
    """Return the type of EC2 ids for one kind of resource. With `short`, ids from before 2016 with 8 digits are valid
    too."""
    digits = "([0-9a-f]{8}|[0-9a-f]{17})" if short else "[0-9a-f]{17}"
    return matching(
        f"{prefix}-{digits}", f"is not the id of {what}", f"give the id of {what}, like {prefix}-0123456789abcdef0"
    )


def _name(value: Any) -> str:
    text = text_of(value, "give a name", quote=True)
    if not text.strip() or not text.isprintable():
        refuse(f"{text!r} is not a name; give a name")
    return text


_ARN = r"arn:aws(-cn|-us-gov)?"
_DIGEST = "12 lower-case hex digits"
_RELEASE_ID = "`python -m modelctl release … --pin FILE` writes one, of 64 lower-case hex digits"

Region = Annotated[str, Kind(_region, "an AWS region of spec/catalog.py", {"type": "string", "enum": sorted(REGIONS)})]
Zones = Annotated[
    int | tuple[str, ...],
    Kind(
        _zones,
        "how many (1 to 4) or a list of 1 to 4 names of zones",
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 4},
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 4},
            ]
        },
    ),
]
LogRetention = Annotated[
    int,
    Kind(
        _log_retention,
        "days: one of " + ", ".join(map(str, LOG_RETENTION_DAYS)),
        {"enum": list(LOG_RETENTION_DAYS)},
        alone=False,
    ),
]
Cpu = Annotated[
    str, Kind(_cpu, 'vCPUs in quotes, like "3", "1.5" or "1500m"', {"type": "string", "pattern": f"^(?:{_CPU.pattern})$"})
]
Rate = Annotated[float, fraction_between(_SLOWEST_RATE, _FASTEST_RATE, "requests per second")]
TagKey = Annotated[
    str,
    Kind(
        _tag_key,
        f"1 to 128 letters, digits, spaces and _ . : / = + - @; not {one_of(OWN_TAG_KEYS)}, "
        "nor a key that AWS, EKS or Karpenter owns",
        {"minLength": 1, "maxLength": 128},
        alone=False,
    ),
]
TagValue = Annotated[
    str,
    Kind(
        _tag_value,
        "text of 1 to 256 letters, digits, spaces and _ . : / = + - @",
        {"type": "string", "minLength": 1, "maxLength": 256},
    ),
]
Evidence = Annotated[
    str,
    matching(
        r"(?!(.*/)?\.\./)/?([^/\x00-\x1f]+/)*[^/\x00-\x1f]+\.json",
        "is not the path of a report",
        "`modelctl tune` writes one like benchmarks/results/projection-2026-11-27-0302c850.json",
        quote=True,
    ),
]
Name = Annotated[str, Kind(_name, "a name", {"type": "string"})]

KubernetesVersion = Annotated[
    str,
    matching(
        r"\d+\.\d+",
        "is not a Kubernetes minor version",
        'give a minor version like "1.35"',
        number='{value} without quotes is a number (1.40 would become 1.4); quote it: "{value}"',
    ),
]
TritonVersion = Annotated[
    str,
    matching(
        r"\d\d\.\d\d",
        "is not a Triton release",
        'give an NGC release like "26.11"',
        number='{value} without quotes is a number (26.10 would become 26.1); quote it: "{value:05.2f}"',
    ),
]
ServerVersion = Annotated[
    str,
    matching(r"\d{1,3}\.\d{1,3}\.\d{1,3}", "is not a version of the server", 'give one like "2.75.0"'),
]
CudaVersion = Annotated[
    str,
    matching(
        r"\d{1,2}(\.\d{1,2}){0,2}",
        "is not a version of CUDA",
        'give one like "13.4"',
        number='{value} without quotes is a number (13.10 would become 13.1); quote it: "{value}"',
    ),
]
TensorrtVersion = Annotated[
    str,
    matching(
        r"\d{1,3}(\.\d{1,5}){0,3}",
        "is not a version of TensorRT",
        'give one like "11.1.0"',
        number='{value} without quotes is a number (10.10 would become 10.1); quote it: "{value}"',
    ),
]
AccountId = Annotated[
    str,
    matching(
        r"(?!0{12})\d{12}",
        "is not the id of an AWS account",
        'give the 12 digits of an AWS account in quotes, like "123456789012"',
    ),
]
RoleArn = Annotated[
    str,
    matching(
        rf"{_ARN}:iam::\d{{12}}:role/([!-~]{{1,510}}/)?[\w+=,.@-]{{1,64}}",
        "is not the ARN of an IAM role",
        "give the ARN of an IAM role, like arn:aws:iam::123456789012:role/platform-admin",
        also_wrong={
            ":assumed-role/": "is a session of a role, which ends",
            r":user/|:root\Z": "is a person with lasting keys, not a role that one assumes",
            r":role/.*/\Z": "ends in a slash and so names no role",
            r":role/(.*/)?[^/]{65,}\Z": "names a role by more than the 64 characters that IAM takes",
            r":role/aws-service-role/": "is a role that an AWS service assumes, and nobody else",
        },
    ),
]
TopicArn = Annotated[
    str,
    matching(
        rf"{_ARN}:sns:[a-z0-9-]+:\d{{12}}:[A-Za-z0-9_-]{{1,256}}",
        "is not the ARN of an SNS topic",
        "give the ARN of an SNS topic, like arn:aws:sns:us-west-2:123456789012:oncall",
    ),
]
QueueArn = Annotated[
    str,
    matching(
        rf"{_ARN}:sqs:[a-z0-9-]+:\d{{12}}:[A-Za-z0-9_-]{{1,80}}",
        "is not the ARN of an SQS queue that is not FIFO",
        "give the ARN of an SQS queue, like arn:aws:sqs:us-west-2:123456789012:answers",
    ),
]
CertificateArn = Annotated[
    str,
    matching(
        rf"{_ARN}:acm:[a-z0-9-]+:\d{{12}}:certificate/[0-9a-f]{{8}}(-[0-9a-f]+){{4}}",
        "is not the ARN of a certificate of ACM",
        "give the ARN of a certificate, like arn:aws:acm:us-west-2:123456789012:certificate/<its id>",
    ),
]
AmpWorkspaceId = Annotated[
    str,
    matching(
        r"ws-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        "is not the id of a workspace of Amazon Managed Service for Prometheus",
        "give the id of a workspace, like ws-01234567-89ab-cdef-0123-456789abcdef",
    ),
]
KubernetesName = Annotated[
    str,
    matching(
        r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
        "is not the name of an object in Kubernetes",
        "use up to 63 lower-case letters, digits and hyphens, a letter first",
        quote=True,
    ),
]
VpcId = Annotated[str, _id("vpc", "a VPC")]
SubnetId = Annotated[str, _id("subnet", "a subnet")]
ZoneName = Annotated[
    str,
    key_matching(r"[a-z]{2,3}(-[a-z]+)+-[0-9][a-z]", "is not the name of an availability zone", "give one like us-west-2a"),
]
DnsLabel = Annotated[
    str,
    matching(
        r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?",
        "cannot be part of a resource name",
        "use up to 30 lower-case letters, digits and hyphens, a letter first",
        quote=True,
    ),
]
ReservationId = Annotated[str, _id("cr", "a capacity reservation", short=False)]
SecurityGroupId = Annotated[str, _id("sg", "a security group")]
ReleaseId = Annotated[
    str,
    matching(
        r"[0-9a-f]{64}",
        "is not a release id",
        _RELEASE_ID,
        number=f"{{value}} without quotes is a number; {_RELEASE_ID}, in quotes",
    ),
]
Signer = Annotated[
    str,
    matching(
        r"-----BEGIN (PUBLIC KEY|CERTIFICATE)-----\n[A-Za-z0-9+/=\n]+\n-----END (PUBLIC KEY|CERTIFICATE)-----\n?",
        "is neither a public key nor a certificate in PEM",
        "give the text that `openssl ec -in KEY -pubout` prints, after `- |`",
    ),
]
ServingDigest = Annotated[
    str,
    matching(
        r"[0-9a-f]{12}",
        "is not the digest of models.serving",
        f"`python -m modelctl pin` writes {_DIGEST} here",
        number=f"{{value}} without quotes is a number; `python -m modelctl pin` writes {_DIGEST} here, in quotes",
    ),
]
ModelName = Annotated[
    str,
    key_matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", "is not a model name", "use letters, digits, dots, hyphens and underscores"
    ),
]
ResourceName = Annotated[
    str,
    key_matching(
        r"[A-Za-z][A-Za-z0-9_-]{0,62}",
        "is not the name of a resource",
        "use letters, digits, hyphens and underscores, a letter first",
    ),
]
