"""moto's server with one correction: a policy statement whose conditions it cannot judge says nothing.

moto 5.2 hands no request values to a bucket policy's conditions and then counts them as met, so a policy that denies plain
HTTP, or another encryption key, denies every request. The twin's S3 speaks plain HTTP on loopback, and nothing else. That
the policy is there, and what it says, the component tests assert.
"""

from typing import Any

from moto.iam.access_control import IAMPolicyStatement, PermissionResult
from moto.server import main

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


if __name__ == "__main__":
    IAMPolicyStatement.is_action_permitted = _is_action_permitted  # type: ignore[method-assign,assignment]
    main()
