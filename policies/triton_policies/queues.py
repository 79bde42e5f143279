"""Rules about SQS queues and about recipients of alarms."""

from __future__ import annotations

from collections.abc import Iterator

from triton_policies.documents import refuses_plain_http, statements
from triton_policies.findings import Finding, Violation, each
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, number, switch
from triton_policies.resources import Resource, Stack

QUEUE = "aws:sqs/queue:Queue"
QUEUE_POLICY = "aws:sqs/queuePolicy:QueuePolicy"
REDRIVE_ALLOW = "aws:sqs/redriveAllowPolicy:RedriveAllowPolicy"
REDRIVE = "aws:sqs/redrivePolicy:RedrivePolicy"
ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"


def _encrypted(queue: Resource, settings: Settings) -> Iterator[Finding]:
    if not queue["kmsMasterKeyId"].given and queue["sqsManagedSseEnabled"].value is not True:
        yield Violation("kmsMasterKeyId", "is not set, and sqsManagedSseEnabled is not true: messages are not encrypted")


def _queue_policy(policy: Resource, settings: Settings) -> Iterator[Finding]:
    document = policy["policy"]
    found = list(statements(document))
    if not any(refuses_plain_http(statement, "sqs") for statement in found):
        yield Violation(document.path, "has no statement that denies sqs:* to everybody when aws:SecureTransport is false")
    for statement in found:
        if not statement.allows:
            continue
        if statement.public:
            yield Violation(statement.principal_path, f"{statement.anyone}: anyone may use the queue", fix="name who may")
        if statement.principals.get("Service") and not (
            statement.bounded_by("aws:SourceArn") or statement.bounded_by("aws:SourceAccount")
        ):
            yield Violation(
                statement.at["Principal"].path,
                f"is {', '.join(statement.principals['Service'])} without a condition on aws:SourceArn: "
                "anybody's resources may write",
                fix="compare aws:SourceArn or aws:SourceAccount",
            )


def _has_policy(stack: Stack, settings: Settings) -> Iterator[Finding]:
    policies = list(stack.of(QUEUE_POLICY))

    def check(queue: Resource) -> Iterator[Finding]:
        if not _says(queue, "policy") and not stack.any_names(policies, "queueUrl", queue):
            yield Violation("", "has no policy: requests without TLS are answered", queue)

    yield from each(stack.of(QUEUE), check)


def _says(queue: Resource, key: str) -> bool:
    """Return whether the program gives the queue its own document.

    Otherwise AWS fills in the property: in a preview it is unknown and comes from no other resource; afterwards it is "".
    """
    at = queue[key]
    return bool(at.value) if at.known else bool(queue.sources.get(key))


def _dead_letters(stack: Stack, settings: Settings) -> Iterator[Finding]:
    def check(queue: Resource) -> Iterator[Finding]:
        retention = queue["messageRetentionSeconds"]
        # AWS's default retention is four days.
        lives = int(retention.value or 345_600) if retention.known else None
        is_target = stack.any_names(stack.of(REDRIVE_ALLOW), "queueUrl", queue)
        redriven = _says(queue, "redrivePolicy") or stack.any_names(stack.of(REDRIVE), "queueUrl", queue)
        if is_target or redriven or (lives is not None and lives <= settings["shortLivedSeconds"]):
            return
        problem = "is not set: a message that cannot be answered comes back until it expires, and is lost"
        yield Violation("redrivePolicy", problem, queue)

    yield from each(stack.of(QUEUE), check)


def _heard(alarm: Resource, settings: Settings) -> Iterator[Finding]:
    if not settings["required"]:
        return
    actions = alarm["alarmActions"]
    if actions.known and not actions.elements:
        yield Violation(actions.path, "is empty: nobody is told")
    if alarm["actionsEnabled"].value is False:
        yield Violation("actionsEnabled", "is false: nobody is told", fix="set it to true")


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="sqs-encrypted",
        says="Messages are encrypted in queues.",
        severity="high",
        controls=("FSBP SQS.1",),
        fix="set kmsMasterKeyId to your key, or sqsManagedSseEnabled to true",
        types=(QUEUE,),
        judge=_encrypted,
    ),
    ResourcePolicy(
        id="sqs-tls-only",
        says="A queue answers through TLS alone, and not to everybody.",
        severity="critical",
        controls=("FSBP SQS.3",),
        fix="add the statement to the queue's policy",
        types=(QUEUE_POLICY,),
        judge=_queue_policy,
    ),
    StackPolicy(
        id="sqs-policy-present",
        says="Every queue has a policy.",
        severity="high",
        controls=("FSBP SQS.3",),
        fix="make an aws.sqs.QueuePolicy that denies what does not come through TLS",
        judge=_has_policy,
    ),
    StackPolicy(
        id="sqs-dead-letters",
        says="Messages that cannot be answered end in a dead-letter queue.",
        severity="medium",
        controls=(),
        fix="set redrivePolicy, and a RedriveAllowPolicy on the dead-letter queue",
        settings={"shortLivedSeconds": number("retention below which a message may simply expire", 3600)},
        judge=_dead_letters,
    ),
    ResourcePolicy(
        id="alarms-heard",
        says="Alarms tell somebody.",
        severity="medium",
        controls=("FSBP CloudWatch.15", "FSBP CloudWatch.17"),
        fix="set alarmActions to the topic that on-call reads",
        settings={"required": switch("whether alarms need an action", True, local=False, dev=False, staging=False)},
        types=(ALARM,),
        judge=_heard,
    ),
)
