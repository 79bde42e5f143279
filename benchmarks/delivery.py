"""Compare Triton's S3 reader with `modelctl fetch`: seconds and memory until a release is served.

    python benchmarks/delivery.py

benchmarks/delivery.md describes the measurement and its record.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import httpx
import typer
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.local_process import cpu_seconds, free_port  # noqa: E402
from benchmarks.loopback_s3 import BUCKET  # noqa: E402
from benchmarks.measurement import RESULTS, Conditions, conditions, write  # noqa: E402
from benchmarks.plain_readers import Reader, dropped  # noqa: E402
from modelctl.fetch.download import CONNECTIONS  # noqa: E402
from modelctl.fetch.partial_file import PART_BYTES  # noqa: E402
from modelctl.store.manifest import Manifest, ModelEntry, ObjectEntry  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.evidence import Machine, Versions  # noqa: E402
from spec.names import CURRENT_RELEASE, RELEASE_MANIFEST, RELEASES_PREFIX  # noqa: E402
from twin.triton import tritonserver  # noqa: E402

GIB = 1024**3
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-west-2", "AWS_REGION": "us-west-2"}
_WEIGHTS = "big/1/weights.bin"
_CONFIG = """\
name: "big"
backend: "python"
max_batch_size: 0
input [{ name: "IN" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]
"""
_MODEL = """\
class TritonPythonModel:
    def execute(self, requests):
        raise NotImplementedError("nobody asks")
"""


class Run(BaseModel):
    """One run of one way. `cpu_seconds`: of the reader (modelctl or the server); a busy machine changes it least.

    `fetch_seconds` and `fetch_mib` are of modelctl only; `mib` is the peak resident memory of a started server. `sent`:
    bytes that the store sent. `killed`: whether the reader was killed after half of the bytes and restarted; the seconds
    include both.
    """

    way: str
    gib: int
    round: int
    killed: bool
    seconds: float
    mib: int | None = None
    sent: int
    fetch_seconds: float | None = None
    fetch_mib: int | None = None
    cpu_seconds: float = 0.0
    load: float = 0.0


class Report(BaseModel):
    """A record. `plain_megabytes_per_second`: of the store itself, read by the same number of plain connections."""

    kind: Literal["delivery"] = "delivery"
    started: datetime
    finished: datetime
    connections: int
    part_bytes: int
    megabytes_per_connection: int | None
    plain_megabytes_per_second: int
    machine: Machine
    versions: Versions
    conditions: Conditions
    runs: list[Run]


def main(
    rounds: Annotated[int, typer.Option(min=2, max=10, help="How often each file goes each way.")] = 5,
    results: Annotated[Path, typer.Option(help="Directory for the record.")] = RESULTS,
    sizes: Annotated[str, typer.Option(help="GiB of the release's one file, each measured.")] = "0,1,4",
    pace: Annotated[int | None, typer.Option(help="MB/s of a connection; without it: no limit.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where three times the files fit; without it: TMPDIR.")] = None,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine too; the record says so.")] = False,
) -> None:
    """Measure all ways in turn, on an unlimited store or on one with S3's speed per connection."""
    files = [int(gib) for gib in sizes.split(",")]
    check_room(directory or Path(tempfile.gettempdir()), files)
    begun, made = datetime.now(UTC), conditions(allow_busy=busy)
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(dir=directory) as work:
        releases = {gib: _release(Path(work) / "bucket", gib) for gib in files}
        with _store(Path(work) / "bucket", pace) as url:
            largest = max(releases)
            plain = dropped(_file(url, releases[largest]), largest * GIB)
            print(f"store, {CONNECTIONS} plain connections: {plain:.0f} MB/s", flush=True)
            for number in range(rounds):
                for gib, release in releases.items():
                    for killed in (False, True) if gib == 1 else (False,):
                        ways = [partial(way, killed=killed) for way in (_triton_alone, _fetch_then_triton)]
                        ways += [partial(_plainly, reader) for reader in Reader if not killed]
                        for way in ways if number % 2 == 0 else reversed(ways):
                            _touch(2 * gib + 1)
                            runs.append(_told(way(Path(work), url, release, gib, number)))
    report = Report(
        started=begun,
        finished=datetime.now(UTC),
        connections=CONNECTIONS,
        part_bytes=PART_BYTES,
        megabytes_per_connection=pace,
        plain_megabytes_per_second=round(plain),
        machine=record.machine(made.load_before, server_on_loopback=True),
        versions=record.versions(tritonserver.VERSION),
        conditions=made,
        runs=runs,
    )
    print(write(report, "delivery", begun, results))


def check_room(directory: Path, files: Sequence[int]) -> None:
    """Exit if three times the files, in GiB, do not fit into a directory."""
    free, needed = shutil.disk_usage(directory).free / GIB, 3 * sum(files)
    if free < needed:
        raise SystemExit(
            f"error: {directory} has {free:.1f} GiB free, and {needed} are needed, three times the files: give another "
            "place with --directory, or smaller files with --sizes"
        )


def _told(run: Run) -> Run:
    run.load = record.load_average()
    print(run.model_dump_json(), flush=True)
    return run


def _release(bucket: Path, gib: int) -> str:
    """Create a release with one file of this size in the bucket's directory; return its id."""
    making = bucket / "making"
    (making / "big" / "1").mkdir(parents=True)
    (making / "big" / "config.pbtxt").write_text(_CONFIG)
    (making / "big" / "1" / "model.py").write_text(_MODEL)
    with (making / _WEIGHTS).open("wb") as file:
        for _ in range(gib * 16):
            file.write(os.urandom(GIB // 16))
    objects = {}
    for path in sorted(path for path in making.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        objects[str(path.relative_to(making))] = ObjectEntry(sha256=sha256, bytes=path.stat().st_size)
    manifest = Manifest.of(objects, {"big": ModelEntry(version=1, backend="python")}, datetime.now(UTC))
    (making / RELEASE_MANIFEST).write_text(manifest.to_json())
    (bucket / RELEASES_PREFIX).mkdir(exist_ok=True)
    making.rename(bucket / RELEASES_PREFIX / manifest.id)
    return manifest.id


@contextlib.contextmanager
def _store(bucket: Path, megabytes: int | None) -> Iterator[str]:
    """Run a store in a separate process."""
    option = [] if megabytes is None else ["--megabytes-per-connection", str(megabytes)]
    command = [sys.executable, "-m", "benchmarks.loopback_s3", str(bucket), *option]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def _sent(url: str) -> int:
    return int(httpx.get(f"{url}/sent", trust_env=False).text)


def _file(url: str, release: str) -> str:
    return f"{url}/{BUCKET}/{RELEASES_PREFIX}{release}/{_WEIGHTS}"


def _touch(gib: int) -> None:
    """Allocate and free memory, for a machine whose host reclaims free memory: then no way pays for getting it again."""
    mmap.mmap(-1, gib * GIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def _triton_alone(work: Path, url: str, release: str, gib: int, number: int, *, killed: bool) -> Run:
    before, begun = _sent(url), time.monotonic()
    repository = f"s3://{url}/{BUCKET}/{RELEASES_PREFIX}{release}"
    if killed:
        with _server(work, repository) as (process, _):
            _until_half_is_sent(url, before, gib)
            process.kill()
    with _server(work, repository) as (process, address):
        _until_ready(process, address)
        seconds, peak, cpu = time.monotonic() - begun, _peak_mib(process.pid), round(cpu_seconds(process.pid), 2)
    return Run(
        way="triton",
        gib=gib,
        round=number,
        killed=killed,
        seconds=round(seconds, 2),
        mib=peak,
        sent=_sent(url) - before,
        cpu_seconds=cpu,
    )


def _fetch_then_triton(work: Path, url: str, release: str, gib: int, number: int, *, killed: bool) -> Run:
    before, begun, to = _sent(url), time.monotonic(), work / "disk"
    command = [
        sys.executable,
        "-m",
        "modelctl",
        "fetch",
        release,
        "--bucket",
        BUCKET,
        "--endpoint-url",
        url,
        "--to",
        str(to),
    ]
    env = {"PATH": os.defpath, "HOME": str(work), "PYTHONPATH": str(ROOT), **KEYS}
    try:
        if killed:
            first = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _until_half_is_sent(url, before, gib)
            first.send_signal(signal.SIGKILL)
            first.wait()
        process, most, cpu = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL), 0, 0.0
        while process.poll() is None:
            # Not `ru_maxrss`, because it includes the parent process's peak.
            with contextlib.suppress(OSError, ValueError):
                most, cpu = max(most, _peak_mib(process.pid)), round(cpu_seconds(process.pid), 2)
            time.sleep(0.02)
        assert process.returncode == 0
        fetched = time.monotonic() - begun
        with _server(work, str(to / CURRENT_RELEASE)) as (server, address):
            _until_ready(server, address)
            seconds, peak = time.monotonic() - begun, _peak_mib(server.pid)
    finally:
        shutil.rmtree(to, ignore_errors=True)
    return Run(
        way="fetch",
        gib=gib,
        round=number,
        killed=killed,
        seconds=round(seconds, 2),
        mib=peak,
        sent=_sent(url) - before,
        fetch_seconds=round(fetched, 2),
        fetch_mib=most,
        cpu_seconds=cpu,
    )


def _plainly(reader: Reader, work: Path, url: str, release: str, gib: int, number: int) -> Run:
    manifest = Manifest.parse((work / "bucket" / RELEASES_PREFIX / release / RELEASE_MANIFEST).read_text())
    sha256, file = manifest.objects[_WEIGHTS].sha256, work / "plain"
    words = [reader, _file(url, release), str(gib * GIB), sha256, str(file)]
    before, cpu, begun = _sent(url), _cpu_seconds_of_children(), time.monotonic()
    try:
        command = [sys.executable, "-m", "benchmarks.plain_readers", *words]
        subprocess.run(command, cwd=ROOT, env={"PATH": os.defpath}, check=True)
        seconds = time.monotonic() - begun
    finally:
        file.unlink(missing_ok=True)
    return Run(
        way=reader,
        gib=gib,
        round=number,
        killed=False,
        seconds=round(seconds, 2),
        sent=_sent(url) - before,
        cpu_seconds=round(_cpu_seconds_of_children() - cpu, 2),
    )


@contextlib.contextmanager
def _server(work: Path, repository: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a Triton with its own empty folders."""
    port = free_port()
    copies = work / "copies"
    copies.mkdir()
    words = [f"--model-repository={repository}", f"--http-port={port}", "--allow-grpc=false", "--allow-metrics=false"]
    env = {**KEYS, "TRITON_AWS_MOUNT_DIRECTORY": str(copies), "TMPDIR": str(copies), "HOME": str(copies)}
    command = tritonserver.tritonserver_command(words, "127.0.0.1", work / "cache", env)
    with (work / "triton.log").open("wb") as log:
        process = subprocess.Popen(command.argv, env=command.env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(copies)


def _until_ready(process: subprocess.Popen[bytes], address: str) -> None:
    while True:
        assert process.poll() is None, "the server ended; see triton.log"
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/v2/models/big/ready", trust_env=False).status_code == 200:
                return
        time.sleep(0.02)


def _until_half_is_sent(url: str, before: int, gib: int) -> None:
    while _sent(url) - before < gib * GIB // 2:
        time.sleep(0.01)


def _peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return peak // 1024


def _cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    typer.run(main)
