"""moto's server with three corrections, blocked encryption (moto_encryption.py), machine starts (moto_launches.py),
access to clusters (moto_cluster_access.py) and late failures of EKS (moto_eks.py).

A policy statement whose conditions it cannot judge says nothing. moto 5.2 hands no request values to a bucket policy's
conditions and then counts them as met, so a policy that denies plain HTTP, or another encryption key, denies every request.
The twin's S3 speaks plain HTTP on loopback, and nothing else. That the policy is there, and what it says, the component
tests assert.

A deletion from a queue touches nothing else. moto 5.2 deletes a message by putting a filtered copy of the queue's list in
its place, while other threads change the list: a message that arrives meanwhile is lost, and one that was deleted is there
again. SQS loses nothing.

A conditional write looks and writes in one step. moto 5.2 looks at the object first and writes then: of two writers that may
only create it, both succeed. In S3 one does.
"""

import threading
from typing import Any

from moto.iam.access_control import IAMPolicyStatement, PermissionResult
from moto.s3.responses import S3Response
from moto.server import main
from moto.sqs.exceptions import ReceiptHandleIsInvalid
from moto.sqs.models import Queue

from twin.aws import moto_cluster_access, moto_eks, moto_encryption, moto_launches

_decide = IAMPolicyStatement.is_action_permitted


def _is_action_permitted(
    statement: IAMPolicyStatement,
    action: str,
    resource: str = "*",
    principal: str | None = None,
    incoming_condition_values: dict[str, str] | None = None,
) -> Any:
    if statement._statement.get("Condition") and incoming_condition_values is None:
        return PermissionResult.NEUTRAL
    return _decide(statement, action, resource, principal, incoming_condition_values)


_deleting = threading.Lock()


def _delete_message(queue: Queue, receipt_handle: str) -> None:
    with _deleting:
        if receipt_handle in queue.deleted_messages:
            return
        for message in list(queue._messages):
            if message.had_receipt_handle(receipt_handle):
                queue.pending_messages.discard(message)
                queue.deleted_messages.update(handle for handle in message.all_receipt_handles if handle)
                queue._messages.remove(message)
                return
        raise ReceiptHandleIsInvalid()


_writing = threading.Lock()


def _conditional_put_object(response: S3Response) -> Any:
    if "If-None-Match" not in response.headers and "If-Match" not in response.headers:
        return moto_encryption.put_object(response)
    with _writing:
        return moto_encryption.put_object(response)


if __name__ == "__main__":
    moto_launches.install()
    moto_encryption.install()
    moto_cluster_access.install()
    moto_eks.install()
    S3Response.put_object = _conditional_put_object  # type: ignore[method-assign,assignment]
    Queue.delete_message = _delete_message  # type: ignore[method-assign,assignment]
    IAMPolicyStatement.is_action_permitted = _is_action_permitted  # type: ignore[method-assign,assignment]
    main()
