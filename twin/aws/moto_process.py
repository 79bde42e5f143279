"""Run moto's server with three corrections and four extensions.

The extensions are blocked encryption (moto_encryption.py), instance launches (moto_launches.py), cluster access
(moto_cluster_access.py) and late EKS failures (moto_eks.py).

A policy statement is ignored if moto cannot evaluate its conditions. moto 5.2 passes no request values to a bucket policy's
conditions and then counts them as met. So a policy that denies plain HTTP, or another encryption key, denies every request.
The twin's S3 speaks only plain HTTP on loopback. The component tests assert the policy and its content.

A deletion from a queue changes only that message. moto 5.2 deletes a message by replacing the queue's list with a filtered
copy, while other threads change the list. A message that arrives meanwhile is lost, and a deleted message can return. SQS
loses no message.

A conditional write checks and writes in one step. moto 5.2 checks the object first and writes then, so two writers that may
only create it both succeed. In S3 only one does.
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
