"""System shared memory between a client and a server in one pod: tensors are written once and never sent.

Off by default in Triton since 26.05 (`--allow-client-shm=true` enables it), because a client may then make the server map
memory. It works only inside one pod, whose containers mount the same /dev/shm. README.md says when it is worth it.

A dead client leaves a file in /dev/shm and a registration that keeps its memory in use. The next client that starts removes
them: each region's owner holds a lock on its file, which the kernel releases when the owner dies. Pod and process ids are
not used, so it works without a shared process namespace.

    python -m examples.shared_memory 127.0.0.1:8001 --admin-key "$(cat /run/triton/admin-key)"
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

from examples.failures import CallFailed, code_of, sentences

DIRECTORY = Path("/dev/shm")  # noqa: S108  (what shm_open uses)
PREFIX = "triton-eks-region-"
ADMIN_HEADER = "triton-grpc-protocol-admin-key"
"""The chart protects the shared memory API with a key, by default the pod's UID."""


@dataclass(frozen=True)
class Region:
    """A region that this process owns and the server has mapped."""

    name: str
    handle: Any


def _in_use(error: BaseException) -> bool:
    return isinstance(error, InferenceServerException) and "currently in use" in str(error.message())


class SharedMemory:
    """Regions of one server, for one client process."""

    def __init__(self, client: InferenceServerClient, admin_key: str | None = None) -> None:
        self._client = client
        self._headers = {ADMIN_HEADER: admin_key} if admin_key else None

    def registered(self) -> list[str]:
        """Return the names of all regions that the server has mapped. Raises CallFailed."""
        with _call_failures():
            return sorted(self._client.get_system_shared_memory_status(headers=self._headers).regions)

    def sweep(self) -> list[str]:
        """Remove dead clients' regions from the server and /dev/shm; return their names. Raises CallFailed."""
        with _lock(DIRECTORY / f"{PREFIX}lock"):
            return self._sweep()

    @contextmanager
    def region(self, byte_size: int) -> Iterator[Region]:
        """Yield a registered region of this size; the context removes it from server and /dev/shm. Raises CallFailed."""
        name = f"{PREFIX}{secrets.token_hex(8)}"
        # Sweeping and creating exclude each other, so a file is locked by its owner before a sweep sees it.
        with _lock(DIRECTORY / f"{PREFIX}lock"):
            self._sweep()
            handle = shm.create_shared_memory_region(name, name, byte_size, create_only=True)
            owned = os.open(DIRECTORY / name, os.O_RDWR)
            fcntl.flock(owned, fcntl.LOCK_EX)
        try:
            with _call_failures():
                self._client.register_system_shared_memory(name, name, byte_size, headers=self._headers)
            yield Region(name, handle)
        finally:
            with suppress(InferenceServerException):  # the server may have stopped, which also removes the registration
                self._unregister(name)
            shm.destroy_shared_memory_region(handle)
            os.close(owned)

    def _sweep(self) -> list[str]:
        files = {path.name for path in DIRECTORY.glob(f"{PREFIX}*")} - {f"{PREFIX}lock"}
        mapped = {name for name in self.registered() if name.startswith(PREFIX)}
        dead = sorted(name for name in files | mapped if not _has_owner(DIRECTORY / name))
        for name in dead:
            with _call_failures():
                self._unregister(name)
            (DIRECTORY / name).unlink(missing_ok=True)
        return dead

    @retry(retry=retry_if_exception(_in_use), wait=wait_fixed(0.01), stop=stop_after_delay(5), reraise=True)
    def _unregister(self, name: str) -> None:
        """Unregister a region; the server refuses this until the last request that uses it has ended.

        An answered request ends a moment later; a request that its client abandoned ends when the model has finished it.
        """
        self._client.unregister_system_shared_memory(name, headers=self._headers)


def to_gray(client: InferenceServerClient, region: Region, rgb: np.ndarray, deadline_seconds: float = 10.0) -> np.ndarray:
    """Call the sample model `to_gray`, with picture and answer in the region (4 bytes a pixel). Raises CallFailed.

    The result is a view into the region: copy it before the next call.
    """
    height, width, _ = rgb.shape
    shm.set_shared_memory_region(region.handle, [rgb])
    picture = InferInput("RGB", [height, width, 3], "UINT8")
    picture.set_shared_memory(region.name, rgb.nbytes)
    gray = InferRequestedOutput("GRAY")
    gray.set_shared_memory(region.name, height * width, offset=rgb.nbytes)
    with _call_failures():
        client.infer("to_gray", [picture], outputs=[gray], client_timeout=deadline_seconds)
    return shm.get_contents_as_numpy(region.handle, np.uint8, [height, width], offset=rgb.nbytes)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _has_owner(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


@contextmanager
def _call_failures() -> Iterator[None]:
    try:
        yield
    except InferenceServerException as error:
        raise CallFailed(code_of(error), error.message()) from None


def main(
    target: Annotated[str, typer.Argument(help="<host>:8001 of the server in this pod.")],
    admin_key: Annotated[str | None, typer.Option(envvar="TRITON_ADMIN_KEY", help="Key of the restricted APIs.")] = None,
    height: Annotated[int, typer.Option(min=1, max=8192, help="Lines of the picture.")] = 1080,
    width: Annotated[int, typer.Option(min=1, max=8192, help="Pixels of a line.")] = 1920,
) -> None:
    """Send a picture to `to_gray` through shared memory and print the mean of the answer."""
    rgb = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    with sentences(target), InferenceServerClient(target) as client:
        memory = SharedMemory(client, admin_key)
        with memory.region(height * width * 4) as region:
            mean = float(to_gray(client, region, rgb).mean())
        typer.echo(f"{width} x {height}: mean grey {mean:.3f}, {rgb.nbytes + height * width} bytes not sent")


if __name__ == "__main__":
    typer.run(main)
