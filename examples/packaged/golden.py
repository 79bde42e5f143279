"""Write golden.json of the models here, with the packages that they come from: their own features, their own answers.

Not needed to serve them. Run by hand when requirements/models.txt has another version of a package, in an environment of its
own, as the packages bring others along (OpenCV, Shapely):

    uv run --no-project --python 3.11 --with-requirements requirements/models.in --with "numpy<2" examples/packaged/golden.py
"""

from __future__ import annotations

import argparse
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before a package loads onnxruntime, which would report to Microsoft
HERE = Path(__file__).parent
FILE = b"def main() -> None:\n    print('hello')\n\n\nif __name__ == '__main__':\n    main()\n"
_DATATYPES = {"int32": "INT32", "float32": "FP32", "uint8": "UINT8"}


def write(model: str, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], tolerance: float) -> None:
    """Write the golden.json of the version 1 of a model."""
    _write(model, {"inputs": _tensors(inputs), "outputs": _tensors(outputs), "tolerance": tolerance})


def _write(model: str, document: Mapping[str, Any]) -> None:
    (HERE / model / "1" / "golden.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: _tensor(array) for name, array in arrays.items()}


def _tensor(array: np.ndarray) -> dict[str, Any]:
    data = [float(f"{value:.6g}") if array.dtype == np.float32 else int(value) for value in array.flat]
    return {"datatype": _DATATYPES[str(array.dtype)], "shape": list(array.shape), "data": data}


def filetype() -> None:
    """Write what magika makes of a file in Python."""
    from magika import Magika
    from magika.types import Seekable

    magika = Magika()
    config = magika._model_config
    features = magika._extract_features_from_seekable(
        Seekable(io.BytesIO(FILE)),
        config.beg_size,
        config.mid_size,
        config.end_size,
        config.padding_token,
        config.block_size,
        config.use_inputs_at_offsets,
    )
    scores = magika._get_raw_predictions([(Path("main.py"), features)])
    given = np.array([[*features.beg, *features.mid, *features.end]], dtype=np.int32)
    write("filetype", {"bytes": given}, {"target_label": np.asarray(scores, dtype=np.float32)}, 1e-3)


def text_in_picture() -> None:
    """Write what rapidocr-onnxruntime reads in a small picture."""
    from PIL import Image, ImageDraw, ImageFont
    from rapidocr_onnxruntime import RapidOCR

    image = Image.new("RGB", (112, 40), "white")
    ImageDraw.Draw(image).text((16, 2), "EKS", "black", ImageFont.load_default(30))
    picture = np.array(image)
    lines, _ = RapidOCR()(picture[:, :, ::-1])
    texts = {"TEXT": {"datatype": "BYTES", "shape": [len(lines)], "data": [text for _, text, _ in lines]}}
    _write("text_in_picture", {"inputs": _tensors({"PICTURE": picture}), "outputs": texts})


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    filetype()
    text_in_picture()
