"""Check KMS calls against the IAM policies of the principal that runs Pulumi, if they are set (`faults.DEPLOYER`).

IAM needs up to five minutes to apply a key's tags and aliases
(https://docs.aws.amazon.com/kms/latest/developerguide/tag-authorization.html). Until then a new key has neither.
"""

from __future__ import annotations

import json
from typing import Any

from twin.aws import faults
from twin.aws.base import late, records, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError
from twin.aws.iam.authorization import Call, Context, refusals


def require(clients: Clients, operation: str, key: dict[str, Any], *, alias: str = "", service: str = "") -> None:
    """Refuse an operation on a key, and on its alias, unless the policies allow it. `service` calls it for the deployer."""
    text = records.text(clients, faults.DEPLOYER)
    if not text:
        return
    context: dict[str, str | tuple[str, ...]] = {"kms:ViaService": service} if service else {}
    calls = [Call(f"kms:{operation}", key["Arn"], {**_of_key(clients, key), **context})]
    if alias:
        calls.append(Call(f"kms:{operation}", clients.arn("kms", alias), context))
    for refusal in refusals(json.loads(text), calls):
        raise HandlerError(f"{operation}: AccessDeniedException: {refusal}")


def _of_key(clients: Clients, key: dict[str, Any]) -> Context:
    """Return the condition keys that are already in effect for a key."""
    if late.left(clients, "kms", key["CreationDate"]) > 0:
        return {}
    kms, id = clients("kms"), key["KeyId"]
    given = tags.from_list(kms.list_resource_tags(KeyId=id).get("Tags"))
    aliases = tuple(one["AliasName"] for one in kms.list_aliases(KeyId=id)["Aliases"])
    found: dict[str, str | tuple[str, ...]] = {f"aws:ResourceTag/{name}": value for name, value in given.items()}
    return {**found, **({"kms:ResourceAliases": aliases} if aliases else {})}
