"""The kinds of single values that a stack file holds, each with the sentence that is said when one does not fit.

Every sentence is `<what is wrong>; <what is valid>`. Rules that look at more than one value are in `checks`.
"""

import re
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, PlainValidator
from pydantic_core import PydanticCustomError

from spec.catalog import REGIONS
from spec.settings.problem import describe
from spec.wording import did_you_mean, one_of

# What CloudWatch Logs accepts as retentionInDays.
LOG_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545),
    *(731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)

_ACCOUNT_ID = re.compile(r"\d{12}")
_ROLE_ARN = re.compile(r"arn:aws(-cn|-us-gov)?:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
_TOPIC_ARN = re.compile(r"arn:aws(-cn|-us-gov)?:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}")
_QUEUE_ARN = re.compile(r"arn:aws(-cn|-us-gov)?:sqs:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,80}")
_AMP_WORKSPACE = re.compile(r"ws-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_WEB_ADDRESS = re.compile(r"https://[A-Za-z0-9.-]+(:\d{1,5})?(/[A-Za-z0-9._~%/-]*)?")
_CERTIFICATE_ARN = re.compile(r"arn:aws(-cn|-us-gov)?:acm:[a-z0-9-]+:\d{12}:certificate/[0-9a-f]{8}(-[0-9a-f]+){4}")
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_KUBERNETES_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_OTLP_ENDPOINT = re.compile(r"https?://[A-Za-z0-9.-]+:(\d{1,5})")
_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?")
_CPU = re.compile(r"\d+(\.\d{1,3})?|\d+m")
_RELEASE_ID = re.compile(r"[0-9a-f]{12}")
_ENDPOINT = re.compile(r"https?://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):(\d{1,5})")
OWN_TAG_KEYS = ("project", "environment", "Name", "service-account")
"""Those that the program puts on what it makes."""
# EKS, its add-ons and Karpenter find what is theirs by such a key, and so does the search for what is left of a stack.
_FOREIGN_TAG_KEY = re.compile(
    r"aws:|eks:|([a-z0-9.-]+\.)?(kubernetes\.io|k8s\.io|k8s\.aws|k8s\.amazonaws\.com|karpenter\.sh|csi\.aws\.com)/"
)
_TAG_KEY = re.compile(r"[\w .:/=+@-]{1,128}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION = re.compile(r"\d+\.\d+")
_TRITON_VERSION = re.compile(r"\d\d\.\d\d")
_RESERVATION = re.compile(r"cr-[0-9a-f]{17}")

_RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
# Requests per second: one in a quarter of an hour, and more than any fleet of this platform answers.
_SLOWEST_RATE, _FASTEST_RATE = 0.001, 1_000_000


def refuse(message: str) -> NoReturn:
    """Make a validator say exactly this sentence."""
    raise PydanticCustomError("sentence", "{sentence}", {"sentence": message})


def _text(value: Any, valid: str, *, quote: bool = False) -> str:
    if not isinstance(value, str):
        refuse(f"{describe(value)}; {valid}" + (", in quotes" if quote and isinstance(value, int | float) else ""))
    return value


class Between:
    """A whole number in a closed range, with its unit for the sentence."""

    def __init__(self, low: int, high: int, unit: str) -> None:
        self.low, self.high, self.unit = low, high, unit

    def __call__(self, value: int) -> int:
        if not self.low <= value <= self.high:
            refuse(f"{value} is out of range; use {self.low} to {self.high} {self.unit}")
        return value


def between(low: int, high: int, unit: str) -> AfterValidator:
    """Annotation for a whole number from `low` to `high`."""
    return AfterValidator(Between(low, high, unit))


def _cidr(value: Any) -> IPv4Network:
    valid = "give an IPv4 range like 10.40.0.0/16"
    text = _text(value, valid)
    if "/" not in text:
        refuse(f"'{text}' has no prefix length; {valid}")
    try:
        network = IPv4Network(text, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):
        refuse(f"'{text}' is not an IPv4 range; {valid}")
    if str(network) != text:
        refuse(f"'{text}' has host bits set; write {network}")
    return network


def _rate(value: float) -> float:
    if not _SLOWEST_RATE <= value <= _FASTEST_RATE:
        refuse(f"{value:g} is out of range; use {_SLOWEST_RATE} to {_FASTEST_RATE} requests per second")
    return value


def _region(value: Any) -> str:
    text = _text(value, "give the name of an AWS region, like us-west-2")
    if text not in REGIONS:
        near = did_you_mean(text, sorted(REGIONS))
        refuse(f"'{text}' is not a region of spec/catalog.py; {near or f'use {one_of(sorted(REGIONS))}'}".rstrip())
    return text


def _zones(value: Any) -> int | tuple[str, ...]:
    valid = "give how many (2 to 4) or a list of zone names like [us-west-2a, us-west-2b]"
    if isinstance(value, bool) or not isinstance(value, int | list):
        refuse(f"{describe(value)}; {valid}")
    if isinstance(value, int):
        if not 2 <= value <= 4:
            refuse(f"{value} is out of range; use 2 to 4 zones")
        return value
    wrong = [zone for zone in value if not isinstance(zone, str)]
    if wrong:
        refuse(f"{describe(wrong[0])}; {valid}")
    if not 2 <= len(value) <= 4:
        refuse(f"{len(value)} zones are listed; use 2 to 4 zones")
    return tuple(value)


def _log_retention(value: int) -> int:
    if value not in LOG_RETENTION_DAYS:
        nearest = next((days for days in LOG_RETENTION_DAYS if days > value), LOG_RETENTION_DAYS[-1])
        listed = ", ".join(str(days) for days in LOG_RETENTION_DAYS)
        refuse(f"CloudWatch has no retention of {value} days; the next one is {nearest} (it accepts {listed})")
    return value


def _kubernetes_version(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        refuse(f'{value} without quotes is a number (1.40 would become 1.4); quote it: "{value}"')
    valid = 'give a minor version like "1.35"'
    text = _text(value, valid)
    if not _VERSION.fullmatch(text):
        refuse(f"'{text}' is not a Kubernetes minor version; {valid}")
    return text


def _triton_version(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        refuse(f'{value} without quotes is a number (26.10 would become 26.1); quote it: "{value:05.2f}"')
    valid = 'give an NGC release like "26.07"'
    text = _text(value, valid)
    if not _TRITON_VERSION.fullmatch(text):
        refuse(f"'{text}' is not a Triton release; {valid}")
    return text


def _cpu(value: Any) -> str:
    valid = 'give vCPUs in quotes, like "3", "1.5" or "1500m"'
    text = _text(value, valid)
    if not _CPU.fullmatch(text) or cpu_millis(text) <= 0:
        refuse(f"'{text}' is not an amount of CPU; {valid}")
    return text


def cpu_millis(cpu: str) -> int:
    """A Kubernetes CPU quantity in thousandths of a vCPU: `1.5` -> 1500, `500m` -> 500."""
    return int(cpu[:-1]) if cpu.endswith("m") else round(float(cpu) * 1000)


def _account_id(value: Any) -> str:
    valid = 'give the 12 digits of an AWS account in quotes, like "123456789012"'
    text = _text(value, valid)
    if not _ACCOUNT_ID.fullmatch(text):
        refuse(f"'{text}' is not the id of an AWS account; {valid}")
    return text


def _role_arn(value: Any) -> str:
    valid = "give the ARN of an IAM role, like arn:aws:iam::123456789012:role/platform-admin"
    text = _text(value, valid)
    if ":assumed-role/" in text:
        refuse(f"'{text}' is a session of a role, which ends; {valid}")
    if ":user/" in text or text.endswith(":root"):
        refuse(f"'{text}' is a person with lasting keys, not a role that one assumes; {valid}")
    if not _ROLE_ARN.fullmatch(text):
        refuse(f"'{text}' is not the ARN of an IAM role; {valid}")
    return text


def _topic_arn(value: Any) -> str:
    valid = "give the ARN of an SNS topic, like arn:aws:sns:us-west-2:123456789012:oncall"
    text = _text(value, valid)
    if not _TOPIC_ARN.fullmatch(text):
        refuse(f"'{text}' is not the ARN of an SNS topic; {valid}")
    return text


def _email_address(value: Any) -> str:
    valid = "give one like oncall@example.com"
    text = _text(value, valid)
    if not _EMAIL.fullmatch(text) or len(text) > 50:
        refuse(f"'{text}' is not an e-mail address of at most 50 characters, which is what AWS takes; {valid}")
    return text


def _queue_arn(value: Any) -> str:
    valid = "give the ARN of an SQS queue, like arn:aws:sqs:us-west-2:123456789012:answers"
    text = _text(value, valid)
    if not _QUEUE_ARN.fullmatch(text):
        refuse(f"'{text}' is not the ARN of an SQS queue that is not FIFO; {valid}")
    return text


def _amp_workspace_id(value: Any) -> str:
    valid = "give the id of a workspace, like ws-01234567-89ab-cdef-0123-456789abcdef"
    text = _text(value, valid)
    if not _AMP_WORKSPACE.fullmatch(text):
        refuse(f"'{text}' is not the id of a workspace of Amazon Managed Service for Prometheus; {valid}")
    return text


def _web_address(value: Any) -> str:
    valid = "give one like https://wiki.example.com/triton"
    text = _text(value, valid)
    if not _WEB_ADDRESS.fullmatch(text):
        refuse(f"'{text}' is not an https address without a query; {valid}")
    return text


def _certificate_arn(value: Any) -> str:
    valid = "give the ARN of a certificate, like arn:aws:acm:us-west-2:123456789012:certificate/<its id>"
    text = _text(value, valid)
    if not _CERTIFICATE_ARN.fullmatch(text):
        refuse(f"'{text}' is not the ARN of a certificate of ACM; {valid}")
    return text


def _kubernetes_name(value: Any) -> str:
    valid = "use up to 63 lower-case letters, digits and hyphens, a letter first"
    text = _text(value, valid, quote=True)
    if not _KUBERNETES_NAME.fullmatch(text):
        refuse(f"'{text}' is not the name of an object in Kubernetes; {valid}")
    return text


def _otlp_endpoint(value: Any) -> str:
    valid = "give scheme, host and port only, like https://otlp.example.com:4318"
    text = _text(value, valid)
    match = _OTLP_ENDPOINT.fullmatch(text)
    if not match or not 1 <= int(match[1]) <= 65535:
        refuse(f"'{text}' is not an OTLP endpoint; {valid}")
    return text


def _dns_label(value: Any) -> str:
    valid = "use up to 30 lower-case letters, digits and hyphens, a letter first"
    text = _text(value, valid, quote=True)
    if not _DNS_LABEL.fullmatch(text):
        refuse(f"'{text}' cannot be part of a resource name; {valid}")
    return text


def _reservation_id(value: Any) -> str:
    valid = "give the id of a capacity reservation, like cr-0123456789abcdef0"
    text = _text(value, valid)
    if not _RESERVATION.fullmatch(text):
        refuse(f"'{text}' is not the id of a capacity reservation; {valid}")
    return text


def _release_id(value: Any) -> str:
    valid = "give the 12 lower-case hex digits that `modelctl release` printed"
    if isinstance(value, int | float) and not isinstance(value, bool):
        refuse(f"{value} without quotes is a number; {valid}, in quotes")
    text = _text(value, valid)
    if not _RELEASE_ID.fullmatch(text):
        refuse(f"'{text}' is not a release id; {valid}")
    return text


def _serving_digest(value: Any) -> str:
    valid = "`python -m modelctl pin` writes 12 lower-case hex digits here"
    if isinstance(value, int | float) and not isinstance(value, bool):
        refuse(f"{value} without quotes is a number; {valid}, in quotes")
    text = _text(value, valid)
    if not _RELEASE_ID.fullmatch(text):
        refuse(f"'{text}' is not the digest of models.serving; {valid}")
    return text


def _endpoint(value: Any) -> str:
    valid = "give scheme, host and port only, like https://minio.example.com:9000"
    text = _text(value, valid)
    match = _ENDPOINT.fullmatch(text)
    if not match or not 1 <= int(match[2]) <= 65535:
        refuse(f"'{text}' is not an S3 endpoint; {valid}")
    return text


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
    return value


def _tag_value(value: Any) -> str:
    valid = "give text of 1 to 256 characters"
    text = _text(value, valid, quote=True)
    if not 1 <= len(text) <= 256:
        refuse(f"it has {len(text)} characters; {valid}")
    return text


def _model_name(value: str) -> str:
    if not _MODEL.fullmatch(value):
        refuse(f"'{value}' is not a model name; use letters, digits, dots, hyphens and underscores")
    return value


def _resource_name(value: str) -> str:
    if not _RESOURCE.fullmatch(value):
        refuse(f"'{value}' is not the name of a resource; use letters, digits, hyphens and underscores, a letter first")
    return value


def _name(value: Any) -> str:
    return _text(value, "give a name", quote=True)


Region = Annotated[str, PlainValidator(_region)]
Cidr = Annotated[IPv4Network, PlainValidator(_cidr)]
Zones = Annotated[int | tuple[str, ...], PlainValidator(_zones)]
LogRetention = Annotated[int, AfterValidator(_log_retention)]
KubernetesVersion = Annotated[str, PlainValidator(_kubernetes_version)]
TritonVersion = Annotated[str, PlainValidator(_triton_version)]
Cpu = Annotated[str, PlainValidator(_cpu)]
AccountId = Annotated[str, PlainValidator(_account_id)]
RoleArn = Annotated[str, PlainValidator(_role_arn)]
EmailAddress = Annotated[str, PlainValidator(_email_address)]
TopicArn = Annotated[str, PlainValidator(_topic_arn)]
QueueArn = Annotated[str, PlainValidator(_queue_arn)]
AmpWorkspaceId = Annotated[str, PlainValidator(_amp_workspace_id)]
WebAddress = Annotated[str, PlainValidator(_web_address)]
CertificateArn = Annotated[str, PlainValidator(_certificate_arn)]
KubernetesName = Annotated[str, PlainValidator(_kubernetes_name)]
OtlpEndpoint = Annotated[str, PlainValidator(_otlp_endpoint)]
DnsLabel = Annotated[str, PlainValidator(_dns_label)]
ReservationId = Annotated[str, PlainValidator(_reservation_id)]
ReleaseId = Annotated[str, PlainValidator(_release_id)]
Endpoint = Annotated[str, PlainValidator(_endpoint)]
TagKey = Annotated[str, AfterValidator(_tag_key)]
TagValue = Annotated[str, PlainValidator(_tag_value)]
ModelName = Annotated[str, AfterValidator(_model_name)]
ServingDigest = Annotated[str, PlainValidator(_serving_digest)]
Rate = Annotated[float, AfterValidator(_rate)]
ResourceName = Annotated[str, AfterValidator(_resource_name)]
Name = Annotated[str, PlainValidator(_name)]
