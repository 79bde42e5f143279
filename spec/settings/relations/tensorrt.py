"""The TensorRT of a stack's server, and the plans of its release.

TensorRT loads a plan only in the version that built it. A version-compatible plan also loads in newer versions if the server
allows it: https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/engine-compatibility.html.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from spec.problem import Problem
from spec.settings.chart_values import pod_values
from spec.settings.model import Document
from spec.settings.relations.subject import Subject, of_each_fleet
from spec.settings.rule import rule

_COMPATIBLE = "--backend-config=tensorrt,version-compatible=true"


@dataclass(frozen=True)
class Runtime:
    """The TensorRT of a server: its version as far as known (`11`, `11.1.0`), and whether it loads older plans."""

    version: str
    compatible: bool = False


def runtime(document: Document) -> Runtime | None:
    """Return the TensorRT of a stack, from its file or from the facts of its Triton release; None if unknown."""
    version = document.triton.tensorrt or document.triton.ngc_release.tensorrt
    if version is None:
        return None
    return Runtime(version, _COMPATIBLE in pod_values(document.environment).extra_args)


def mistake(built: str, runs: Runtime) -> str | None:
    """Return why this server does not load a plan of TensorRT `built`; None if it does, or if that is unknown."""
    one, other = _parts(built), _parts(runs.version)
    known = min(len(one), len(other))
    if one[:known] == other[:known] or (runs.compatible and one[:known] < other[:known]):
        return None
    return f"was built by TensorRT {built} and the server has {runs.version}, which loads plans of its own version alone"


@rule
@of_each_fleet
def _plans_are_of_the_servers_tensorrt(subject: Subject) -> Iterator[Problem]:
    """Require plans that the server's TensorRT built. Another image needs a release with other plans."""
    release, runs, image = subject.document.models.release, runtime(subject.document), subject.document.triton.version
    for model, versions in (release.tensorrt if release is not None else {}).items():
        for built in versions:
            if runs is not None and (why := mistake(built, runs)):
                yield Problem(
                    f"models.release.tensorrt.{model}",
                    f"a plan {why}; build it in the image of triton.version {image} and release it"
                    f"{_or_say(subject.document)}",
                )


def _or_say(document: Document) -> str:
    return "" if document.triton.tensorrt else ", or say triton.tensorrt where the image has another"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
