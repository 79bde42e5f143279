"""`release` accepts every suggestion of `import`."""

import io
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import onnx
import yaml
from hypothesis import assume, event, given
from hypothesis import strategies as st
from onnx.helper import make_node

from modelctl.importer.command import import_model
from modelctl.importer.mlflow_model import NotImported
from modelctl.release.progress import Silent
from modelctl.release.publish import prepare
from modelctl.store.bucket import PART_BYTES
from tests import onnx_models
from tests.modelctl.stacks import write_stack

_TYPES = ["FLOAT", "FLOAT16", "DOUBLE", "INT8", "INT32", "INT64", "UINT8", "BOOL", "STRING"]
_SIZES = st.integers(1, 64) | st.sampled_from(["batch", "tokens", "width", None])
_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,12}", fullmatch=True)


@st.composite
def _models(draw: st.DrawFn) -> onnx.ModelProto:
    """Draw a model with up to four inputs, each copied to an output; sizes are fixed, variable or unknown."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    shapes = st.lists(_SIZES, max_size=4)
    if draw(st.booleans()):
        shapes = shapes.map(lambda sizes: ["batch", *sizes])
    tensors = {name: (draw(st.sampled_from(_TYPES)), draw(shapes)) for name in names}
    outputs = {f"{name}_out": tensor for name, tensor in tensors.items()}
    assume(not outputs.keys() & tensors.keys())
    nodes = [make_node("Identity", [name], [f"{name}_out"]) for name in names]
    return onnx_models.model(nodes, tensors, outputs)


def _suggestion(output: str) -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(output[output.index("in a stack file:") :])
    return document["in a stack file"]["triton-eks:models"]["serving"]


@given(_models())
def test_a_release_takes_what_import_suggests(model: onnx.ModelProto) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, models, output = Path(folder) / "net.onnx", Path(folder) / "models", io.StringIO()
        file.write_bytes(model.SerializeToString())
        try:
            with redirect_stdout(output):
                import_model(file, models, None, None)
        except NotImported:
            event("not imported")
            return
        serving = _suggestion(output.getvalue())
        write_stack(Path(folder) / "stacks", serving)

        plan = prepare(models, PART_BYTES, Silent(), Path(folder) / "stacks")

        assert "net/configs/dev.pbtxt" in plan.objects
        assert list(serving["net"].values()).count(None) == 0
        event(f"{len(plan.warnings)} warnings")
