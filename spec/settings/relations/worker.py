"""The workers and the stack's region."""

from collections.abc import Iterator

from spec.settings.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule


@rule
def _identities_are_of_the_region(subject: Subject) -> Iterator[Problem]:
    """Require topics and queues of the stack's region."""
    worker = subject.document.worker
    if worker is None:
        return
    topic = [] if worker.alarm_topic_arn is None else [("worker.alarmTopicArn", worker.alarm_topic_arn)]
    replies = [(f"worker.replyQueueArns[{index}]", arn) for index, arn in enumerate(worker.reply_queue_arns)]
    for path, arn in topic + replies:
        region = arn.split(":")[3]
        if region != subject.document.region:
            yield Problem(path, f"it is in {region} and the stack in {subject.document.region}; give one of the same region")
