"""The SNS topics that are in an AWS account before our program is: those that a stack names for its alarms and budgets.

AWS takes an alarm with a topic that does not exist only to tell nobody; the twin refuses it. In a real account somebody has
made the topics; in the twin's, this module has.
"""

import json
import re
from pathlib import Path
from typing import Any

from twin.engine import stack_files

_TOPIC = re.compile(r'"arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:([A-Za-z0-9_-]+)"')
"""As JSON has it."""


def create(aws_url: str, region: str, stack_file: Path) -> None:
    """Make the topics that `stack_file` names and the account at `aws_url` lacks."""
    wanted = names_in(stack_files.read(stack_file))
    if not wanted:
        return
    import boto3  # for half of a second, which no command that only needs the engine's environment should take

    sns = boto3.client(
        "sns", region_name=region, endpoint_url=aws_url, aws_access_key_id="test", aws_secret_access_key="test"
    )
    for name in sorted(wanted):
        sns.create_topic(Name=name)  # gives back the one that is there


def names_in(value: Any) -> set[str]:
    """Return the names of all topics whose ARNs stand anywhere in the value, as the whole of a text."""
    return set(_TOPIC.findall(json.dumps(value, default=str)))
