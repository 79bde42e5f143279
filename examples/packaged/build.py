"""Make a model repository of the models here and the files that packages have of them: `make models`.

The packages are pinned and hashed (requirements/models.txt, requirements/pictures.txt), and lie in the environment without
being importable from it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from spec.failure import NOT_TRIED, Failure

HERE = Path(__file__).parent
PACKAGES = Path(sys.prefix) / "models"
"""Where `make models` puts them."""
FILES: Mapping[str, str] = {
    "filetype/1/model.onnx": "magika/models/standard_v3_3/model.onnx",
    "speech/1/model.onnx": "silero_vad/data/silero_vad_16k_op15.onnx",
    "text_detection/1/model.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "text_direction/1/model.onnx": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "text_recognition/1/model.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}
"""File of the repository to the file of a package that it is."""
CHARACTERS = "text_in_picture/1/characters.txt"
"""The characters that the steps of text_recognition stand for, as the metadata of the model file has them."""
LABELS = ("filetype/labels.txt", "magika/models/standard_v3_3/config.min.json")


class NotBuilt(Failure):
    """The repository could not be made; the text says why, and nothing of it was left."""

    exit_code = NOT_TRIED


MODELS = tuple(sorted(path.parent.name for path in HERE.glob("*/config.pbtxt")))


def build(target: Path, models: Sequence[str] = MODELS) -> Path:
    """Make `target`, which must not exist, of these models and return it. Raises NotBuilt."""
    if target.exists():
        raise NotBuilt(f"{target} is there already; remove it, or name another directory")
    sources = files_of_packages(models)
    try:
        with tempfile.TemporaryDirectory(prefix=".models-", dir=target.parent) as building:
            _fill(Path(building) / target.name, models, sources)
            (Path(building) / target.name).rename(target)
    except OSError as error:
        raise NotBuilt(f"{target} could not be made: {error}") from None
    return target


def files_of_packages(models: Sequence[str]) -> Mapping[str, Path]:
    """Return what these models take of packages, by file of the repository. Raises NotBuilt where a package is not there."""
    sources = {here: PACKAGES / name for here, name in FILES.items() if here.partition("/")[0] in models}
    missing = [str(path.relative_to(PACKAGES)) for path in sources.values() if not path.is_file()]
    if missing:
        raise NotBuilt(f"{PACKAGES} lacks {', '.join(missing)}; `make models` puts the packages there that have them")
    return sources


def _fill(target: Path, models: Sequence[str], sources: Mapping[str, Path]) -> None:
    for model in models:
        shutil.copytree(HERE / model, target / model, ignore=shutil.ignore_patterns("__pycache__"))
    for here, source in sources.items():
        (target / here).parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target / here)
    if "text_in_picture" in models:
        _write_characters(target)
    if "filetype" in models:
        labels = json.loads((PACKAGES / LABELS[1]).read_text(encoding="utf-8"))["target_labels_space"]
        (target / LABELS[0]).write_text("".join(f"{label}\n" for label in labels))


def _write_characters(target: Path) -> None:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # it would report to Microsoft (docs/twin.md)
    import onnxruntime  # slow, and needed by nothing else

    session = onnxruntime.InferenceSession(target / "text_recognition/1/model.onnx", providers=["CPUExecutionProvider"])
    characters = session.get_modelmeta().custom_metadata_map["character"]
    (target / CHARACTERS).write_text("\n".join(characters.splitlines()), encoding="utf-8")


def main(target: Annotated[Path, typer.Argument(help="The directory of the repository, which is not there yet.")]) -> None:
    """Make a model repository of the packaged models."""
    try:
        build(target)
    except NotBuilt as error:
        sys.exit(f"error: {error}")
    print(f"{target}: {', '.join(sorted(path.parent.name for path in target.glob('*/config.pbtxt')))}")


if __name__ == "__main__":
    typer.run(main)
