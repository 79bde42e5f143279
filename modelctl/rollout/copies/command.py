"""Run `modelctl compare`. Raises Failure with the problem."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from console.program import interruptible
from console.terminal import progress
from modelctl import metrics_server
from modelctl.rollout.copies import receiver
from modelctl.rollout.copies.asked import AskedRelease
from modelctl.rollout.copies.comparer import Comparer
from modelctl.rollout.misused import Misused

_URL = re.compile(r"http://[^/\s]+")
_TARGET = re.compile(r"(dns://[^/\s]*/)?[^/\s]+:[0-9]{1,5}")


@dataclass(frozen=True)
class Addresses:
    """The HTTP and gRPC addresses of a release."""

    http: str
    grpc: str


@dataclass(frozen=True)
class Listen:
    """The addresses that listen for copies over HTTP and gRPC, and for Prometheus."""

    http: str
    grpc: str
    metrics: str


def compare(
    release: Addresses,
    candidate: Addresses,
    tolerances: Sequence[str],
    listen: Listen,
    seconds: float,
    http_proxy: str | None,
) -> NoReturn:
    """Compare the responses of two releases to copies until interrupted. Raises Misused and WrongAddress."""
    wanted = _tolerances(tolerances)
    for protocol in ("http", "grpc"):
        address = getattr(release, protocol)
        if address == getattr(candidate, protocol):
            raise Misused(
                f"--release-{protocol} and --candidate-{protocol} are both {address!r}, so a release would be compared with "
                "itself; give the candidate's own address"
            )
    addresses = {
        option: metrics_server.address(option, text)
        for option, text in {"--http": listen.http, "--grpc": listen.grpc, "--serve": listen.metrics}.items()
    }
    both = (_asked("release", release, seconds, http_proxy), _asked("candidate", candidate, seconds, http_proxy))
    console = progress()
    comparer = Comparer(*both, wanted, lambda line: console.print(line, markup=False, soft_wrap=True))
    with (
        interruptible("interrupted; no release was changed"),
        comparer.working(),
        metrics_server.serving(comparer, "--serve", *addresses["--serve"]),
        receiver.over_grpc(comparer, "--grpc", *addresses["--grpc"]),
        receiver.http(comparer, "--http", *addresses["--http"]),
    ):
        threading.Event().wait()
    raise AssertionError("it waits for ever")


def _asked(name: str, addresses: Addresses, seconds: float, http_proxy: str | None) -> AskedRelease:
    if not _URL.fullmatch(addresses.http):
        raise Misused(
            f"--{name}-http {addresses.http!r} is no URL of a server; write one like http://triton-blue.triton:8000"
        )
    if not _TARGET.fullmatch(addresses.grpc):
        raise Misused(
            f"--{name}-grpc {addresses.grpc!r} is no target of gRPC; write one like dns:///triton-blue-headless.triton:8001"
        )
    if http_proxy is not None and not _URL.fullmatch(http_proxy):
        raise Misused(f"--http-proxy {http_proxy!r} is no URL; write one like http://127.0.0.1:8888")
    return AskedRelease(addresses.http, addresses.grpc, seconds, http_proxy)


def _tolerances(texts: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        model, separator, number = text.rpartition("=")
        try:
            tolerance = float(number)
        except ValueError:
            tolerance = -1.0
        if not separator or not model or not 0 <= tolerance < 1:
            raise Misused(f"--tolerance {text!r}: write MODEL=NUMBER, with a number from 0 to below 1, like classify=1e-5")
        if model in found:
            raise Misused(f"--tolerance: {model} has two tolerances, {found[model]:g} and {tolerance:g}; give one")
        found[model] = tolerance
    return found
