"""Copy an image into the account's ECR, part by part, without storing any."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from rich.filesize import decimal

from console import aws_errors
from console.not_aws import refuse_others_answers
from stackctl.account.read_only import CLIENT_CONFIG, AwsUnusable
from stackctl.images.layout import Layout
from stackctl.images.registry import Blob, Manifest, NoSuchImage, Registry, RegistryFailed

TRITON = "nvidia/tritonserver"


def ecr(region: str, repository: str, tags: Mapping[str, str]) -> Registry:
    """Create the repository if it is missing, and log in to the account's registry. Raises AwsUnusable.

    Its tags are immutable, and pushed images are scanned.
    """
    try:
        client: Any = boto3.client("ecr", region_name=region, config=CLIENT_CONFIG)
        refuse_others_answers(client)
        with contextlib.suppress(client.exceptions.RepositoryAlreadyExistsException):
            client.create_repository(
                repositoryName=repository,
                imageTagMutability="IMMUTABLE",
                imageScanningConfiguration={"scanOnPush": True},
                tags=[{"Key": key, "Value": value} for key, value in tags.items()],
            )
        [login] = client.get_authorization_token()["authorizationData"]
    except (BotoCoreError, ClientError, ValueError) as error:
        raise AwsUnusable(aws_errors.explain(error) or f"ECR cannot be used: {error}") from None
    return Registry(login["proxyEndpoint"].partition("://")[2], f"Basic {login['authorizationToken']}")


def copy(
    source: Registry | Layout,
    path: str,
    manifest: Manifest,
    target: Registry,
    repository: str,
    tag: str,
    say: Callable[[str], None],
) -> None:
    """Copy an image, and write its tag last, so a tagged image is complete.

    Existing parts are not sent again. Raises RegistryFailed, also if the tag belongs to another image.
    """
    try:
        there = target.image(repository, tag)
    except NoSuchImage:
        pass
    else:
        if there.digest != manifest.digest:
            raise RegistryFailed(
                f"{target.host}/{repository}:{tag} is another image ({there.digest[:19]}…) than {source.host}/{path}:{tag} "
                f"({manifest.digest[:19]}…), and cannot be pushed again; delete it there, if no stack runs it"
            )
        say(f"{target.host}/{repository}:{tag} is there already")
        return
    parts = source.blobs(manifest)
    for number, part in enumerate(parts, 1):
        line = f"  part {number} of {len(parts)}, {decimal(part.size)}:"
        if target.has_blob(repository, part.digest):
            say(f"{line} there already")
            continue
        with source.blob(path, part.digest) as pieces:
            target.send_blob(repository, part, _checked(part, pieces, source.host))
        say(f"{line} copied")
    target.put_manifest(repository, tag, manifest)


def _checked(part: Blob, pieces: Iterable[bytes], host: str) -> Iterator[bytes]:
    """Yield the pieces. Raises RegistryFailed after the last one if they do not match the digest."""
    found, size = hashlib.sha256(), 0
    for piece in pieces:
        found.update(piece)
        size += len(piece)
        yield piece
    if (f"sha256:{found.hexdigest()}", size) != (part.digest, part.size):
        raise RegistryFailed(f"{host} has sent {size} bytes that are not part {part.digest[:19]}…; run it again")
