"""Run `modelctl try`. It serves a model file on a real Triton of this machine, and prints an answer and a short load."""

from __future__ import annotations

import asyncio
import json
import shlex
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tritonclient.grpc import InferenceServerClient, InferResult
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from console.program import interruptible
from modelctl.importer.command import stack_lines, write_model
from modelctl.loadgen import RequestFailed, Schedule, grpc_sender, run
from modelctl.loadgen.requests import Values, tensor_of, values_of
from modelctl.repository.golden import FILE as GOLDEN_FILE
from modelctl.repository.golden import Golden, GoldenError, Request
from modelctl.trial.server import Server, running
from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.wording import one_of, printable

LOAD_SECONDS = 5.0
_LOADING_SECONDS = 300.0
_DEADLINE_SECONDS = 60.0
_FIRST = 5
"""Number of sequential requests, which warm the model up and measure the time of one."""
_SHARE = 0.5
"""Load as a share of the rate that sequential requests reach."""
_SLOWEST, _FASTEST = 1.0, 100.0
"""Limits of the load in requests/s. It is enough for a percentile, and no more than this generator sends on time."""
_SHOWN = 8
"""Maximum values of an output on the terminal."""
_LONGEST_BODY = 2000
"""Maximum characters of a request on the curl line. A longer one goes into a file."""
_NOT_IN_JSON = ("FP16", "BF16")
"""Types that Triton accepts and returns only in binary form (docs/your-model.md)."""


class UnusableRequest(Failure):
    """A request file does not fit the model; the text says what does."""

    exit_code = NOT_TRIED


class ModelFailed(Failure):
    """The server cannot load the model, or its answer is an error or wrong."""


def try_model(source: Path, name: str | None, max_batch_size: int | None, request: Path | None) -> None:
    """Serve the model of `source` until Ctrl-C, and print an answer and the figures of a load. Raises Failure.

    `request` is like golden.json; without it, the golden.json next to the file is used, else random values.
    """
    file = request or _beside(source)
    known = _read(file) if file is not None else None
    with interruptible("interrupted; nothing is left"), tempfile.TemporaryDirectory(prefix="modelctl-try-") as folder:
        directory, made = write_model(source, Path(folder) / "models", name, max_batch_size)
        model, inputs = directory.name, [tensor.name for tensor in made.config.input]
        if known is not None and (unknown := sorted(known.inputs.keys() - set(inputs))):
            raise UnusableRequest(f"{file}: {model} has no input {one_of(unknown)}; name its inputs: {', '.join(inputs)}")
        values = values_of(made.config, known, seed=1)
        print(f"{model}: starting tritonserver on this machine's CPU", flush=True)
        with running(directory.parent, Path(folder) / "triton.log") as server:
            _answer(server, model, values, known)
            asyncio.run(_load(server, model, values))
            _print_curl(server, model, values, Path(folder) / "request.json")
            print(stack_lines(model))
            print(f"Keep it: python3 -m modelctl import {shlex.quote(str(source))} --into my-models")
            print("The server runs until Ctrl-C, which also deletes its files.", flush=True)
            server.wait()


def _beside(source: Path) -> Path | None:
    file = (source if source.is_dir() else source.parent) / GOLDEN_FILE
    return file if file.is_file() else None


def _read(file: Path) -> Request:
    text = reading.text_file(file)
    kind = Golden if '"outputs"' in text else Request
    try:
        return kind.parse(str(file), text)
    except GoldenError as error:
        raise UnusableRequest(str(error)) from None


def _answer(server: Server, model: str, values: Mapping[str, Values], known: Request | None) -> None:
    """Load the model, print its answer to one request, and compare it with the expected one. Raises ModelFailed."""
    inputs = [tensor_of(*pair) for pair in values.items()]
    try:
        with InferenceServerClient(server.grpc) as client:
            client.load_model(model, client_timeout=_LOADING_SECONDS)
            started = time.monotonic()
            response = client.infer(model, inputs, client_timeout=_DEADLINE_SECONDS)
            milliseconds = (time.monotonic() - started) * 1000
    except InferenceServerException as error:
        raise ModelFailed(f"{model}: {printable(error.message() or str(error))}") from None
    outputs = [_output(response, tensor) for tensor in response.get_response().outputs]
    print(f"answer to a {'random' if known is None else 'known'} request, in {milliseconds:.1f} ms:")
    for output in outputs:
        shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in output["data"][:_SHOWN])
        more = f", … ({len(output['data'])} values)" if len(output["data"]) > _SHOWN else ""
        print(f"  {output['name']}  {output['datatype']} {output['shape']}  {printable(shown)}{more}")
    if isinstance(known, Golden):
        if difference := known.difference({"outputs": outputs}):
            raise ModelFailed(f"{model}: the answer is wrong: {difference}")
        print(f"  as expected (tolerance {known.tolerance:g})")


def _output(response: InferResult, tensor: Any) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "datatype": tensor.datatype,
        "shape": list(tensor.shape),
        "data": _listed(response.as_numpy(tensor.name)),
    }


def _listed(values: Values) -> list[Any]:
    return [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values.ravel().tolist()]


async def _load(server: Server, model: str, values: Mapping[str, Values]) -> None:
    """Send requests for a while, at half the rate of sequential requests, and print the latency."""
    inputs = [tensor_of(*pair) for pair in values.items()]
    async with grpc_sender([server.grpc], model, inputs, deadline_seconds=_DEADLINE_SECONDS) as send:
        times = []
        for number in range(_FIRST):
            started = time.monotonic()
            try:
                await send(number)
            except RequestFailed as failure:
                raise ModelFailed(f"{model}: a request failed with {failure.code}") from None
            times.append(time.monotonic() - started)
        rate = min(max(_SHARE / statistics.median(times), _SLOWEST), _FASTEST)
        result = await run(Schedule.poisson(rate, LOAD_SECONDS, seed=1), send, drain_seconds=_DEADLINE_SECONDS)
    figures = result.summary()
    failed = "".join(f", {count} {code}" for code, count in figures.errors.items())
    print(
        f"load of {figures.offered_rate:.0f} requests/s for {figures.seconds:.0f} s: "
        f"p50 {_ms(figures.p50_ms)}, p95 {_ms(figures.p95_ms)}; {figures.ok} answered{failed}"
    )


def _ms(value: float | None) -> str:
    return f"{value:.1f} ms" if value is not None else "failed"


def _print_curl(server: Server, model: str, values: Mapping[str, Values], file: Path) -> None:
    """Print the command that sends the same request again; a long request goes into `file`."""
    inputs = [
        {"name": name, "datatype": str(np_to_triton_dtype(value.dtype)), "shape": list(value.shape), "data": _listed(value)}
        for name, value in values.items()
    ]
    if any(tensor["datatype"] in _NOT_IN_JSON for tensor in inputs):
        print("curl cannot send FP16 or BF16: use a client (examples/README.md)")
        return
    body = json.dumps({"inputs": inputs})
    if len(body) > _LONGEST_BODY:
        file.write_text(body, encoding="utf-8")
        body = f"@{file}"
    print(f"curl -s {server.http}/v2/models/{model}/infer -d {shlex.quote(body)}")
