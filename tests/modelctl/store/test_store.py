"""The store recognises an existing object from a HEAD response."""

import io
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from modelctl.store.bucket import Store
from modelctl.store.digest import Digest
from modelctl.store.errors import Place, StoreError
from modelctl.store.journal import Journal
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import ManifestError
from tests.modelctl.conftest import BUCKET

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


PLAN = "plans/abc/model.plan"


def _written_once(tmp_path: Path, *answers: tuple[str, int] | None) -> bool:
    """Return whether the store wrote a file, with one S3 answer per request; None means written."""
    client, file = boto3.client("s3", region_name="us-west-2"), tmp_path / "model.plan"
    file.write_bytes(b"plan")
    with Stubber(client) as stubber:
        for answer in answers:
            if answer is None:
                stubber.add_response("put_object", {})
            else:
                stubber.add_client_error("put_object", answer[0], "no", answer[1])
        written = Store(client, Place("b", None)).write_once(PLAN, file)
        stubber.assert_no_pending_responses()
    return written


CONFLICT = ("ConditionalRequestConflict", 409)


@pytest.mark.parametrize(
    ("answers", "written"),
    [
        ((("PreconditionFailed", 412),), False),
        ((CONFLICT, None), True),  # the other request was a removal, or failed
        ((CONFLICT, CONFLICT, ("PreconditionFailed", 412)), False),  # the other request has written it
    ],
)
def test_a_write_that_meets_another_one_is_tried_again(
    tmp_path: Path, answers: tuple[tuple[str, int] | None, ...], written: bool
) -> None:
    assert _written_once(tmp_path, *answers) is written


def test_a_conflict_that_stays_is_no_object_that_was_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as refused:
        _written_once(tmp_path, *[CONFLICT] * 5)
    assert str(refused.value) == (
        "another command writes the same object of s3://b at this moment: wait until it is done, and run this again"
    )


def test_a_journal_that_meets_another_write_is_written() -> None:
    client = boto3.client("s3", region_name="us-west-2")
    with Stubber(client) as stubber:
        stubber.add_client_error("put_object", CONFLICT[0], "no", CONFLICT[1])
        stubber.add_response("put_object", {"ETag": '"new"'})

        assert LiveRepository(Store(client, Place("b", None))).write_journal(Journal(), '"old"') == '"new"'


def test_a_file_is_written_whole_after_a_conflict(store: Store, tmp_path: Path) -> None:
    """The refused request has read it to its end."""
    file = tmp_path / "model.plan"
    refused: list[bytes] = []
    file.write_bytes(b"plan")

    def conflict(request: Any, **_: Any) -> None:
        if not refused:
            refused.append(request.body.read())
            raise ClientError({"Error": {"Code": CONFLICT[0], "Message": "no"}}, "PutObject")

    store.client.meta.events.register_first("before-send.s3.PutObject", conflict)

    assert store.write_once(PLAN, file)
    (first,) = refused
    assert b"plan" in first
    assert store.client.get_object(Bucket=BUCKET, Key=PLAN)["Body"].read() == b"plan"


@pytest.mark.parametrize("more", [0, 1])
def test_a_manifest_may_have_64_mib_and_not_one_byte_more(more: int) -> None:
    client = boto3.client("s3", region_name="us-west-2")
    content = b" " * (64 * 1024**2 + more)
    answer = {"Body": StreamingBody(io.BytesIO(content), len(content))}
    with Stubber(client) as stubber:
        stubber.add_response("get_object", answer, {"Bucket": "b", "Key": f"releases/{'1' * 12}/manifest.json"})
        with pytest.raises(ManifestError) as refused:
            Store(client, Place("b", None)).manifest("1" * 12)
    assert ("67108865 bytes; at most 67108864 are read" in str(refused.value)) == bool(more)
