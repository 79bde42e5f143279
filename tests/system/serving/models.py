"""A model with a configurable speed: it answers its input plus its version's number."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

MODEL = '''
import json
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, arguments):
        """Sleeps for `load_seconds`, and waits for the file `load_gate`; `seconds` is how long each batch takes."""
        self.version = int(arguments["model_version"])
        parameters = json.loads(arguments["model_config"])["parameters"]
        self.seconds = float(parameters["seconds"]["string_value"])
        self.gate = parameters.get("gate", {}).get("string_value")
        time.sleep(float(parameters["load_seconds"]["string_value"]))
        self.wait_for(parameters.get("load_gate", {}).get("string_value"))

    def execute(self, requests):
        """Refuses an input below zero, and breaks down at one below minus one."""
        time.sleep(self.seconds)
        self.wait_for(self.gate)
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        if any((tensor < -1).any() for tensor in tensors):
            raise ValueError("broken down")
        return [self.answer(tensor) for tensor in tensors]

    def wait_for(self, file):
        if file and not Path(file).exists():
            Path(file + ".reached").touch()
        while file and not Path(file).exists():
            time.sleep(0.005)

    def answer(self, tensor):
        if (tensor < 0).any():
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("below zero"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor + self.version)])
'''


@dataclass(frozen=True)
class Timing:
    """The model's speed and queue length. The capacity is batch x instances / seconds requests per second.

    `queue` is max_queue_size; the server rejects requests beyond it. 0 is the unbounded queue. `delay_us`: the time for
    which a request waits for others. `gate` and `load_gate` are files: no batch is answered before the first exists, and the
    model is not loaded before the second exists. `reached` exists as soon as something waits for that file.
    """

    seconds: float = 0.0
    load_seconds: float = 0.0
    batch: int = 1
    instances: int = 1
    queue: int = 0
    delay_us: int = 0
    gate: Path | None = None
    load_gate: Path | None = None


def reached(gate: Path) -> bool:
    """Return whether a batch in execution, or a load, waits for the closed gate."""
    return reached_file(gate).exists()


def reached_file(gate: Path) -> Path:
    """Return the file that marks a reached gate; delete it to check again."""
    return gate.with_name(f"{gate.name}.reached")


def write(repository: Path, name: str = "echo", version: int = 1, timing: Timing = Timing()) -> None:
    """Write the model into the repository; another version is added to the first (the server serves all of them)."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODEL)
    (folder.parent / "config.pbtxt").write_text(config(timing))


def config(timing: Timing) -> str:
    return textwrap.dedent(f"""\
        backend: "python"
        max_batch_size: {timing.batch}
        input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
        output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
        instance_group [ {{ kind: KIND_CPU count: {timing.instances} }} ]
        dynamic_batching {{
          max_queue_delay_microseconds: {timing.delay_us}
          default_queue_policy {{ timeout_action: REJECT max_queue_size: {timing.queue} }}
        }}
        version_policy {{ all {{ }} }}
        parameters {{ key: "seconds" value {{ string_value: "{timing.seconds}" }} }}
        parameters {{ key: "load_seconds" value {{ string_value: "{timing.load_seconds}" }} }}
        parameters {{ key: "gate" value {{ string_value: "{timing.gate or ""}" }} }}
        parameters {{ key: "load_gate" value {{ string_value: "{timing.load_gate or ""}" }} }}
    """)
