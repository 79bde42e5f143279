"""A small release in moto, and the command that fetches it."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest, ModelEntry, ObjectEntry
from tests.command import Ended, run
from tests.modelctl.conftest import BUCKET

CONTENT = {
    "classify/1/weights.bin": bytes(range(256)) * 10,  # 2560 bytes: 3 parts of 1000
    "classify/1/empty": b"",
    "classify/config.pbtxt": b'name: "classify"',
}


def put(store: Store, content: dict[str, bytes]) -> str:
    """Create a release of these objects, and a config for each model without one."""
    content = {**{f"{key.split('/')[0]}/config.pbtxt": b"" for key in content}, **content}
    entries = {key: ObjectEntry(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)) for key, data in content.items()}
    models = {key.split("/")[0]: ModelEntry(version=1, backend="python") for key in content}
    manifest = Manifest.of(entries, models, datetime.now(UTC))
    for key, data in content.items():
        store.client.put_object(Bucket=BUCKET, Key=f"releases/{manifest.id}/{key}", Body=data)
    store.write_manifest(manifest)
    return manifest.id


def fetch(release: str, to: Path, *more: str) -> Ended:
    return run("modelctl", "fetch", release, "--bucket", BUCKET, "--to", to, *more)


def sentence(ended: Ended, code: int) -> str:
    assert ended.exit_code == code, ended.output
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    return line.removeprefix("error: ")


def files(of: Path) -> dict[str, bytes]:
    return {str(path.relative_to(of)): path.read_bytes() for path in of.rglob("*") if path.is_file()}
