"""How the store recognises an object that is there already, from what a HEAD request says."""

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from modelctl.store.bucket import Store
from modelctl.store.digest import Digest
from modelctl.store.errors import Place

DIGEST = Digest(sha256="ab" * 32, bytes=12, s3_checksum="q83v", part_bytes=5)


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        ({"ContentLength": 12, "sha256": DIGEST.sha256}, True),  # a compatible store without checksums
        ({"ContentLength": 12, "sha256": DIGEST.sha256, "ChecksumSHA256": "q83v"}, True),
        ({"ContentLength": 12, "sha256": DIGEST.sha256, "ChecksumSHA256": "q83v-3"}, True),  # AWS, in three parts
        ({"ContentLength": 11, "sha256": DIGEST.sha256, "ChecksumSHA256": "q83v"}, False),
        ({"ContentLength": 12, "sha256": "cd" * 32, "ChecksumSHA256": "q83v"}, False),
        ({"ContentLength": 12, "ChecksumSHA256": "q83v"}, False),
        ({"ContentLength": 12, "sha256": DIGEST.sha256, "ChecksumSHA256": "AAAA"}, False),
        ({"ContentLength": 12, "sha256": DIGEST.sha256, "ChecksumCRC32": "q83v"}, False),
    ],
)
def test_an_object_is_recognised_by_size_and_both_checksums(answer: dict[str, Any], held: bool) -> None:
    client = boto3.client("s3", region_name="us-west-2")
    metadata = {"sha256": answer["sha256"]} if "sha256" in answer else {}
    response = {key: value for key, value in answer.items() if key != "sha256"} | {"Metadata": metadata}
    with Stubber(client) as stubber:
        stubber.add_response("head_object", response, {"Bucket": "b", "Key": "releases/1/m/x", "ChecksumMode": "ENABLED"})

        assert Store(client, Place("b", None)).holds("1", "m/x", DIGEST) is held


def test_an_object_that_is_not_there_is_not_held() -> None:
    client = boto3.client("s3", region_name="us-west-2")
    with Stubber(client) as stubber:
        stubber.add_client_error("head_object", "404", "Not Found", 404)

        assert not Store(client, Place("b", None)).holds("1", "m/x", DIGEST)
