"""The input sizes for which a plan is built, as arguments of trtexec."""

from __future__ import annotations

import re

from tritonclient.grpc.model_config_pb2 import ModelConfig

from spec.failure import NOT_TRIED, Failure
from spec.wording import one_of

_SAID = ("--shapes", "--minShapes", "--optShapes", "--maxShapes")
_SIZES = re.compile(r"[1-9]\d*(x[1-9]\d*)*")
_OURS = ("--onnx", "--saveEngine", "--loadEngine", "--skipInference")


class WrongArguments(Failure):
    """The arguments for trtexec are invalid; the text gives the remedy."""

    exit_code = NOT_TRIED


def arguments(model: str, config: ModelConfig, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of trtexec: the given ones, plus the config's batches if these name no shapes.

    A plan accepts only sizes within a profile: from one request to the largest batch, fastest at the largest that the config
    prefers. The program trtexec refuses shapes for a model without variable sizes, so a config without batches adds none
    (https://github.com/NVIDIA/TensorRT/blob/a892d22/samples/common/sampleEngines.cpp#L555-L563). Raises WrongArguments.
    """
    names = [argument.partition("=")[0] for argument in given]
    if taken := [name for name in names if name in _OURS]:
        raise WrongArguments(f"{', '.join(taken)} of trtexec is given by the Job itself; leave it out")
    if wrong := [argument for argument in given if not argument.startswith("--")]:
        raise WrongArguments(f"{wrong[0]!r} is no argument of trtexec; after -- they begin with --, like --minShapes=IN:1x3")
    if any(name in _SAID for name in names):
        _check_shapes(model, {tensor.name for tensor in config.input}, given)
        return given
    sizes = {
        tensor.name: list(tensor.reshape.shape) if tensor.HasField("reshape") else list(tensor.dims)
        for tensor in config.input
    }
    if open_ones := [f"{name} {shape}" for name, shape in sizes.items() if -1 in shape]:
        raise WrongArguments(
            f"the sizes of {', '.join(open_ones)} of {model} vary; say for which the plan is, like "
            "-- --minShapes=IN:1x16 --optShapes=IN:8x128 --maxShapes=IN:8x512, the batch first"
        )
    most = config.max_batch_size
    if not most:
        return given
    preferred = max(config.dynamic_batching.preferred_batch_size, default=most)
    profile = (("--minShapes", 1), ("--optShapes", preferred), ("--maxShapes", most))
    return (*(f"{option}={_shapes(sizes, batch)}" for option, batch in profile), *given)


def _check_shapes(model: str, inputs: set[str], given: tuple[str, ...]) -> None:
    """Raise WrongArguments for incomplete shapes, and for inputs that the model does not have."""
    for argument in given:
        option, _, shapes = argument.partition("=")
        if option not in _SAID:
            continue
        for shape in shapes.split(","):
            name, _, sizes = shape.rpartition(":")
            if name.strip("'") not in inputs or not _SIZES.fullmatch(sizes):
                raise WrongArguments(
                    f"{argument}: {shape!r} is not the shape of an input of {model}; write INPUT:1x3, "
                    f"for {one_of(sorted(inputs))}"
                )


def _shapes(sizes: dict[str, list[int]], batch: int) -> str:
    return ",".join(f"{name}:{'x'.join(map(str, (batch, *shape)))}" for name, shape in sizes.items())
