"""Cases of policies about keys and logs."""

import json
from typing import Any

from tests.policies.case import ABSENT, Case, fail
from triton_policies.encryption import KEY, LOG_GROUP

_ROOT = {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "kms:*", "Resource": "*"}


def _document(*statements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


CASES = (
    Case(
        policy="kms-rotation",
        type=KEY,
        passes={"enableKeyRotation": True, "deletionWindowInDays": 30, "policy": _document(_ROOT)},
        fails=(
            fail(
                {"enableKeyRotation": ABSENT},
                ("it: enableKeyRotation: is not set: the same key material for ever. Fix: set it to true"),
            ),
            fail(
                {"deletionWindowInDays": 7},
                (
                    "it: deletionWindowInDays: is 7, less than 30: what a deleted key encrypted is lost before "
                    "anyone notices. "
                    "Fix: set it to 30 or more"
                ),
            ),
            fail(
                {"policy": _document({**_ROOT, "Action": "kms:Decrypt"})},
                (
                    "it: policy: does not let the account administer the key: with its last user it can never be "
                    "changed or deleted. "
                    "Fix: let arn:aws:iam::<account>:root do kms:*, which leaves the rest to IAM policies"
                ),
            ),
            fail(
                {"policy": _document(_ROOT, {**_ROOT, "Principal": "*", "Action": "kms:Decrypt"})},
                (
                    "it: policy.Statement[1].Principal: is *: anyone in any account may use the key. "
                    "Fix: name who may, or a condition on who asks"
                ),
            ),
        ),
        unknown="policy",
    ),
    Case(
        policy="kms-rotation",
        type=KEY,
        passes={"customerMasterKeySpec": "RSA_2048", "deletionWindowInDays": 7},
        fails=(),
        unknown="enableKeyRotation",
        needs_no_value=True,
        environment="dev",
    ),
    Case(
        policy="logs-retention-kms",
        type=LOG_GROUP,
        passes={"retentionInDays": 365, "kmsKeyId": "arn:aws:kms:us-west-2:1:key/a"},
        fails=(
            fail(
                {"retentionInDays": ABSENT},
                (
                    "it: retentionInDays: is not set; 90 days or more are asked for here, and for ever is billed "
                    "for ever. "
                    "Fix: set it to 90 or more"
                ),
            ),
            fail(
                {"retentionInDays": 7},
                (
                    "it: retentionInDays: is 7; 90 days or more are asked for here, and for ever is billed for "
                    "ever. "
                    "Fix: set it to 90 or more"
                ),
            ),
            fail(
                {"retentionInDays": 7},
                (
                    "it: retentionInDays: is 7; 30 days or more are asked for here, and for ever is billed for "
                    "ever. "
                    "Fix: set it to 30 or more"
                ),
                environment="staging",
            ),
            fail(
                {"kmsKeyId": ABSENT},
                ("it: kmsKeyId: is not set: the logs are encrypted with a key that is not yours. Fix: set kmsKeyId"),
            ),
        ),
        unknown="retentionInDays",
    ),
)
