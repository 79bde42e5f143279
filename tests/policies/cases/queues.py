"""Cases of policies about queues and alarms."""

import json
from typing import Any

from tests.policies.case import ABSENT, UNKNOWN, Case, fail, made
from triton_policies.queues import ALARM, QUEUE, QUEUE_POLICY, REDRIVE_ALLOW

_TLS = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "sqs:*",
    "Resource": "arn:aws:sqs:us-west-2:1:q",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
_SEND = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "arn:aws:sqs:us-west-2:1:q"}
_BY_TLS = {"Bool": {"aws:SecureTransport": "true"}}
_EVENTS = {"Service": "events.amazonaws.com"}


def _document(*statements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


CASES = (
    Case(
        policy="sqs-encrypted",
        type=QUEUE,
        passes={"kmsMasterKeyId": "arn:aws:kms:us-west-2:1:key/a"},
        fails=(
            fail(
                {"kmsMasterKeyId": ABSENT},
                (
                    "it: kmsMasterKeyId: is not set, and sqsManagedSseEnabled is not true: messages are not "
                    "encrypted. "
                    "Fix: set kmsMasterKeyId to your key, or sqsManagedSseEnabled to true"
                ),
            ),
        ),
        unknown="kmsMasterKeyId",
        needs_no_value=True,
    ),
    Case(
        policy="sqs-encrypted",
        type=QUEUE,
        passes={"sqsManagedSseEnabled": True},
        fails=(
            fail(
                {"sqsManagedSseEnabled": False},
                (
                    "it: kmsMasterKeyId: is not set, and sqsManagedSseEnabled is not true: messages are not "
                    "encrypted. "
                    "Fix: set kmsMasterKeyId to your key, or sqsManagedSseEnabled to true"
                ),
            ),
        ),
        unknown="sqsManagedSseEnabled",
    ),
    Case(
        policy="sqs-tls-only",
        type=QUEUE_POLICY,
        passes={
            "policy": _document(
                _TLS, {**_SEND, "Principal": _EVENTS, "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:events:*"}}}
            )
        },
        fails=(
            fail(
                {"policy": _document({**_TLS, "Action": "sqs:SendMessage"})},
                (
                    "it: policy: has no statement that denies sqs:* to everybody when aws:SecureTransport is false. "
                    "Fix: add the statement to the queue's policy"
                ),
            ),
            fail(
                {"policy": _document(_TLS, {**_SEND, "Principal": "*"})},
                "it: policy.Statement[1].Principal: is *: anyone may use the queue. Fix: name who may",
            ),
            # TLS denies no client.
            fail(
                {"policy": _document(_TLS, {**_SEND, "Principal": "*", "Condition": _BY_TLS})},
                "it: policy.Statement[1].Principal: is *: anyone may use the queue. Fix: name who may",
            ),
            fail(
                {"policy": _document(_TLS, {**_SEND, "NotPrincipal": {"AWS": "arn:aws:iam::1:root"}})},
                "it: policy.Statement[1].NotPrincipal: leaves out a few: anyone may use the queue. Fix: name who may",
            ),
            fail(
                {"policy": _document(_TLS, {**_SEND, "Principal": _EVENTS})},
                (
                    "it: policy.Statement[1].Principal: is events.amazonaws.com without a condition on "
                    "aws:SourceArn: anybody's resources may write. "
                    "Fix: compare aws:SourceArn or aws:SourceAccount"
                ),
            ),
        ),
        unknown="policy",
    ),
    Case(
        policy="sqs-policy-present",
        type="",
        passes=(made(QUEUE, "requests", {"id": "https://sqs/q"}), made(QUEUE_POLICY, "tls", {"queueUrl": "https://sqs/q"})),
        fails=(
            fail(
                {"tls": ABSENT},
                (
                    "requests: has no policy: requests without TLS are answered. "
                    "Fix: make an aws.sqs.QueuePolicy that denies what does not come through TLS"
                ),
            ),
            # AWS fills in this value; it is no policy of the program: unknown in a preview, "" after `up`.
            *(
                fail(
                    {"tls": ABSENT, "requests": {"policy": filled_in}},
                    (
                        "requests: has no policy: requests without TLS are answered. "
                        "Fix: make an aws.sqs.QueuePolicy that denies what does not come through TLS"
                    ),
                )
                for filled_in in (UNKNOWN, "")
            ),
        ),
        unknown=("tls", "queueUrl"),
    ),
    Case(
        policy="sqs-dead-letters",
        type="",
        passes=(
            made(QUEUE, "requests", {"name": "requests", "redrivePolicy": "{}"}, redrivePolicy="dead"),
            made(QUEUE, "dead", {"name": "dead"}),
            made(REDRIVE_ALLOW, "allow", queueUrl="dead"),
            made(QUEUE, "news", {"messageRetentionSeconds": 300}),
        ),
        fails=(
            fail(
                {"requests": {"redrivePolicy": ABSENT}},
                (
                    "requests: redrivePolicy: is not set: a message that cannot be answered comes back until it "
                    "expires, and is lost. "
                    "Fix: set redrivePolicy, and a RedriveAllowPolicy on the dead-letter queue"
                ),
            ),
            fail(
                {"news": {"messageRetentionSeconds": 86400, "redrivePolicy": UNKNOWN}},
                (
                    "news: redrivePolicy: is not set: a message that cannot be answered comes back until it "
                    "expires, and is lost. "
                    "Fix: set redrivePolicy, and a RedriveAllowPolicy on the dead-letter queue"
                ),
            ),
            fail(
                {"news": {"messageRetentionSeconds": 86400}},
                (
                    "news: redrivePolicy: is not set: a message that cannot be answered comes back until it "
                    "expires, and is lost. "
                    "Fix: set redrivePolicy, and a RedriveAllowPolicy on the dead-letter queue"
                ),
            ),
        ),
        unknown=("requests", "redrivePolicy"),
    ),
    Case(
        policy="alarms-heard",
        type=ALARM,
        passes={"alarmActions": ["arn:aws:sns:us-west-2:1:alerts"]},
        fails=(
            fail(
                {"alarmActions": []},
                ("it: alarmActions: is empty: nobody is told. Fix: set alarmActions to the topic that on-call reads"),
            ),
            fail(
                {"alarmActions": ABSENT},
                ("it: alarmActions: is empty: nobody is told. Fix: set alarmActions to the topic that on-call reads"),
            ),
            fail({"actionsEnabled": False}, "it: actionsEnabled: is false: nobody is told. Fix: set it to true"),
        ),
        unknown="alarmActions",
    ),
)
