"""Store the API keys of clients in Secrets Manager, one secret for each client.

    {"current": "…", "next": "…", "previous": "…"}

All of them open the gateway. A client reads `current`. `next` becomes current after the gateways have read it. Some
client may still send `previous`. No key is printed; it can be read only in the client's secret.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from console import aws_errors
from console.not_aws import refuse_others_answers
from spec import reading
from spec.failure import Failure
from spec.names import KEY_SLOTS, client_secret, cluster_name
from spec.ownership import Ownership, own_tags, tags_of
from spec.settings import Settings
from stackctl.account.read_only import CLIENT_CONFIG, AwsUnusable, error_code

_KEY_BYTES = 32
_KEY = re.compile(r"[!-~]+")
"""Characters that a key in a header may have: no line end, no blank."""
_RECOVERY_DAYS = 7

Keys = Mapping[str, str]


class KeysRefused(Failure):
    """The keys of a client do not allow a command. The text has the reason."""


@dataclass(frozen=True)
class Kept:
    """The keys of one client as read from the secret.

    `since`: the creation time of these keys. `version`: their version of the secret. `changed`: the time of the secret's
    last change of any kind before the read.
    """

    keys: Keys
    since: datetime
    version: str
    changed: datetime


class KeyStore:
    """The secrets of one stack's clients.

    Each method raises AwsUnusable if AWS does not answer or refuses.
    """

    def __init__(self, settings: Settings) -> None:
        self._cluster = cluster_name(settings.stack)
        self._owner = Ownership.of(settings)
        self._tags = own_tags(settings)
        with _explained(self.name("*")):
            self._client: Any = boto3.client("secretsmanager", region_name=settings.region, config=CLIENT_CONFIG)
            refuse_others_answers(self._client)

    def name(self, client: str) -> str:
        """Return the name of a client's secret."""
        return client_secret(self._cluster, client)

    def clients(self) -> dict[str, datetime]:
        """Return the time of the last change of keys, by client."""
        prefix, found = self.name(""), {}
        with _explained(prefix):
            pages = self._client.get_paginator("list_secrets").paginate(Filters=[{"Key": "name", "Values": [prefix]}])
            for page in pages:
                for item in page["SecretList"]:
                    if item["Name"].startswith(prefix):
                        found[item["Name"].removeprefix(prefix)] = item["LastChangedDate"]
        return found

    def create(self, client: str) -> None:
        """Create a client's first key. Raises KeysRefused if it has one, or had one a few days ago."""
        value, name = _written({"current": new_key()}), self.name(client)
        tags = [{"Key": key, "Value": text} for key, text in {**self._tags, "client": client}.items()]
        with _explained(name):
            try:
                self._client.create_secret(
                    Name=name, Description=f"API keys of {client} at the gateway", SecretString=value, Tags=tags
                )
            except self._client.exceptions.ResourceExistsException:
                raise KeysRefused(
                    f"{client} has keys already ({name}); `stackctl keys rotate` gives it another one"
                ) from None
            except self._client.exceptions.InvalidRequestException:
                raise _being_deleted(client, name) from None

    def read(self, client: str) -> Kept:
        """Return the keys of a client. Raises KeysRefused without keys from this program."""
        name = self.name(client)
        with _explained(name):
            try:
                described = self._client.describe_secret(SecretId=name)
                if self._owner.reason(tags_of(described.get("Tags"))) is None:
                    raise KeysRefused(f"{name} does not have this stack's tags: somebody else has made it; delete it there")
                # The version that was current at LastChangedDate, because another one may be current by now.
                versions = described.get("VersionIdsToStages", {})
                current = next((version for version, stages in versions.items() if "AWSCURRENT" in stages), None)
                found = self._client.get_secret_value(SecretId=name, **({"VersionId": current} if current else {}))
            except self._client.exceptions.ResourceNotFoundException:
                raise KeysRefused(f"{client} has no keys; `stackctl keys create` makes the first") from None
            except self._client.exceptions.InvalidRequestException:
                raise _being_deleted(client, name) from None
        keys = _parsed(name, found.get("SecretString"))
        return Kept(keys, found["CreatedDate"], found["VersionId"], described["LastChangedDate"])

    def write(self, client: str, keys: Keys, kept: Kept) -> None:
        """Replace the keys of a client that were read as `kept`. Raises KeysRefused if they have changed since.

        Otherwise a rotation could restore a key that another person revokes at the same time. The new version's id is
        derived from `kept`. Secrets Manager refuses a second version with the same id and other content
        (https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html, ClientRequestToken). The
        id also depends on the time of the last change. The version alone would lead to the same id again after a move of
        AWSCURRENT back to it.
        """
        with _explained(self.name(client)):
            try:
                self._client.put_secret_value(
                    SecretId=self.name(client), SecretString=_written(keys), ClientRequestToken=next_version(kept)
                )
            except self._client.exceptions.ResourceExistsException:
                raise KeysRefused(
                    f"somebody else has changed the keys of {client} meanwhile, and they are left as they are; look at "
                    "`stackctl keys list`, and run the same command again if it is still wanted"
                ) from None

    def delete(self, client: str) -> None:
        """Delete the keys of a client; for a week AWS can restore them.

        The caller has read them before.
        """
        with _explained(self.name(client)):
            self._client.delete_secret(SecretId=self.name(client), RecoveryWindowInDays=_RECOVERY_DAYS)


def new_key() -> str:
    """Return an unguessable key: 32 random bytes as 43 characters that a header accepts."""
    return secrets.token_urlsafe(_KEY_BYTES)


def next_version(kept: Kept) -> str:
    """Return the id of the next version of the keys.

    It is equal for all readers of the same keys, in any time zone.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kept.version} {kept.changed.timestamp()}"))


def _being_deleted(client: str, name: str) -> KeysRefused:
    return KeysRefused(
        f"the keys of {client} are being deleted; `aws secretsmanager restore-secret --secret-id {name}` brings them back"
    )


def _written(keys: Keys) -> str:
    return json.dumps({slot: keys[slot] for slot in KEY_SLOTS if slot in keys})


def _parsed(name: str, text: str | None) -> Keys:
    valid = f"an object with {', '.join(KEY_SLOTS)}, of which current is there, each once and a key that a header takes"
    try:
        slots = reading.json_object(text or "")
    except reading.Unreadable:
        slots = {}
    named = "current" in slots and slots.keys() <= set(KEY_SLOTS)
    if not named or not all(isinstance(key, str) and _KEY.fullmatch(key) for key in slots.values()):
        # Without the value, because it may be a key.
        raise KeysRefused(f"{name} is not what this program writes there, {valid}; delete it and create it again")
    return slots


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError, ValueError) as error:
        said = aws_errors.explain(error)
        if said is None and isinstance(error, ClientError):
            said = f"Secrets Manager refuses {error.operation_name} for {name}: {error_code(error)}"
        if said is None:
            raise
        raise AwsUnusable(said) from None
