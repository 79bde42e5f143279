"""Send the same requests to the old and the new version of a model, and compare. No client uses the new version yet.

Clients get none of these responses. The requests come from a file, such as a client's log. A proxy cannot provide the
comparison: it drops the responses to mirrored requests
(https://gateway.envoyproxy.io/docs/tasks/traffic/http-request-mirroring/).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from modelctl import documents
from modelctl.documents import DocumentError
from modelctl.repository.golden import Golden, Tensor
from modelctl.rollout.fleet import Fleet, Pod
from modelctl.rollout.pod_client import PodClient, PodDown, PodHangs, PodOverloaded, PodProblem, PodRefuses
from modelctl.store.journal import Change
from modelctl.store.manifest import Manifest
from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable

_MOST_BYTES = 256 * 1024**2


class ReplayError(Failure):
    """A file of requests cannot be used; the text says where and why."""

    exit_code = NOT_TRIED


class Differs(PodProblem):
    """The answers of a new version differ from the old version's more often than allowed.

    The text has the share and the first difference.
    """


class Request(BaseModel):
    """One line of the file: a model, and its inputs as in golden.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    inputs: Annotated[dict[str, Tensor], Field(min_length=1)]

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the request, for all outputs."""
        return {"inputs": Golden(inputs=self.inputs, outputs=self.inputs).request()["inputs"]}


@dataclass(frozen=True)
class Replay:
    """The requests of a file by model, with line numbers. `may_differ` is the share of answers that may differ."""

    requests: Mapping[str, Sequence[tuple[int, Request]]]
    may_differ: float

    @classmethod
    def read(cls, path: Path, may_differ: float) -> Replay:
        """Read a file with one JSON object per line. Raises ReplayError with all mistakes, and Unreadable."""
        requests: dict[str, list[tuple[int, Request]]] = {}
        mistakes = []
        text = reading.text_file(path, _MOST_BYTES)
        try:
            lines = list(reading.json_lines(text))
        except Unreadable as error:
            raise ReplayError(error.within(path)) from None
        for line, found in lines:
            try:
                request = documents.read(Request, json.dumps(found).encode())
            except DocumentError as error:
                mistakes.append(f"{path}:{line}: {error}")
            else:
                requests.setdefault(request.model, []).append((line, request))
        if mistakes:
            raise ReplayError("\n".join(mistakes))
        if not requests:
            raise ReplayError(f'{path}: has no request; write one a line, like {{"model": "classify", "inputs": {{…}}}}')
        return cls(requests, may_differ)

    def refuse_unknown(self, manifest: Manifest) -> None:
        """Raise ReplayError with all requested models that the release does not have."""
        unknown = [
            f"line {requests[0][0]}: release {manifest.id} has no model {model!r}, but {', '.join(sorted(manifest.models))}"
            for model, requests in self.requests.items()
            if model not in manifest.models
        ]
        if unknown:
            raise ReplayError("the file of requests to replay:\n" + "\n".join(unknown))

    def compare(
        self,
        change: Change,
        tolerance: float,
        fleets: tuple[Fleet, Fleet],
        old_name: str,
        check: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        """Send the requests to both versions and report the comparison; `check` as in `Site`.

        `fleets`: the pods of the old and of the new version; the same if each pod serves both. `old_name`: the name of the
        old version for messages. Raises Differs, PodProblem, FleetError, and ReplayError if the old version refuses every
        request.
        """
        if change.old is None:
            return
        differing: list[str] = []
        compared = 0
        refused: list[str] = []
        old_ms, new_ms = [], []
        for line, request in self.requests.get(change.model, ()):
            check()
            asked = _ask_both(fleets, request, (change.old, change.new), turn=compared)
            if isinstance(asked.old, PodRefuses):
                refused.append(f"line {line}: {asked.old}")
                continue
            compared += 1
            old_ms.append(asked.old_ms)
            new_ms.append(asked.new_ms)
            if difference := _difference(request, asked.old, asked.new, tolerance):
                differing.append(f"line {line}: {difference}")
        if refused and not compared:
            raise ReplayError(
                f"{change.model}: {old_name} refuses all of its {len(refused)} requests to replay, or no pod has "
                f"time for them, so that nothing is compared; the first: {refused[0]}; mend the file, or wait, and run "
                "the same command again, it goes on, or undo the rollout with `modelctl rollout --back`"
            )
        if not compared:
            tell(f"{change.model}: no request to replay")
            return
        share = len(differing) / compared
        said = (
            f"{change.model} version {change.new} answers {len(differing)} of {compared} replayed requests otherwise than "
            f"{old_name}, {self.may_differ * 100:.3g}% may"
        )
        if share > self.may_differ:
            raise Differs(f"{said}; the first: {differing[0]}")
        why = f"{old_name} refused them, or the pods had no time"
        left_out = f"; {len(refused)} more are left out: {why}" if refused else ""
        tell(f"{said}; median {median(new_ms):.1f} ms, {old_name} {median(old_ms):.1f} ms{left_out}")


@dataclass(frozen=True)
class _Asked:
    old: dict[str, Any] | PodRefuses
    new: dict[str, Any] | PodRefuses
    old_ms: float
    new_ms: float


def _ask_both(fleets: tuple[Fleet, Fleet], request: Request, versions: tuple[int, int], turn: int) -> _Asked:
    """Send a request to the old and the new version, on one pod of each.

    Each turn uses other pods and changes which version comes first. An overloaded or hanging pod says nothing about its
    versions, so other pods are tried. If none has time, both answers are PodOverloaded.
    """
    pairs = _pairs(*fleets, request.model)
    down = PodDown("no pod answers")
    busy: PodOverloaded | None = None
    for number in range(len(pairs)):
        pods = pairs[(turn + number) % len(pairs)]
        answers: list[tuple[dict[str, Any] | PodRefuses, float]] = []
        order = (0, 1) if turn % 2 else (1, 0)
        try:
            for which in order:
                with PodClient(pods[which]) as client:
                    began = time.monotonic()
                    answer = _answer(client, versions[which], request)
                    answers.append((answer, (time.monotonic() - began) * 1000))
        except PodDown as error:
            down = error
            continue
        except (PodHangs, PodOverloaded) as error:
            busy = PodOverloaded(str(error))
            continue
        (old, old_ms), (new, new_ms) = answers[order[0]], answers[order[1]]
        return _Asked(old, new, old_ms, new_ms)
    if busy is not None:
        return _Asked(busy, busy, 0.0, 0.0)
    raise down


def _pairs(old: Fleet, new: Fleet, model: str) -> list[tuple[Pod, Pod]]:
    """Return pairs of pods that serve the model, one pod of each fleet. If each pod serves both versions, each with
    itself."""
    olds, news = ([pod for pod in fleet.pods() if pod.serves(model)] for fleet in (old, new))
    number = max(len(olds), len(news)) if olds and news else 0
    return [(olds[at % len(olds)], news[at % len(news)]) for at in range(number)]


def _answer(client: PodClient, version: int, request: Request) -> dict[str, Any] | PodRefuses:
    try:
        return client.infer(request.model, version, request.body())
    except PodOverloaded:
        raise
    except PodRefuses as refusal:
        return refusal


def _difference(request: Request, old: dict[str, Any], new: dict[str, Any] | PodRefuses, tolerance: float) -> str | None:
    if isinstance(new, PodRefuses):
        return str(new)
    try:
        outputs = {
            output["name"]: Tensor(datatype=output["datatype"], shape=tuple(output["shape"]), data=output["data"])
            for output in old["outputs"]
        }
    except ValidationError as error:
        return f"the old version's answer cannot be compared ({error.errors()[0]['msg']})"
    return Golden(inputs=request.inputs, outputs=outputs, tolerance=tolerance).difference(new)
