"""Make a model repository of the models here and the files that packages have of them: `make models`.

The packages are pinned and hashed (requirements/models.txt) and lie in the environment without being importable from it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from spec.failure import Failure

HERE = Path(__file__).parent
PACKAGES = Path(sys.prefix) / "models"
"""Where `make models` puts them."""
FILES: Mapping[str, str] = {
    "filetype/1/model.onnx": "magika/models/standard_v3_3/model.onnx",
    "text_detection/1/model.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "text_direction/1/model.onnx": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "text_recognition/1/model.onnx": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
}
"""File of the repository to the file of a package that it is."""
CHARACTERS = "text_in_picture/1/characters.txt"
"""What the steps of text_recognition stand for, which the model file says in its metadata."""
LABELS = ("filetype/labels.txt", "magika/models/standard_v3_3/config.min.json")


class NotBuilt(Failure):
    """The repository could not be made; the text says why, and nothing of it was left."""


def build(target: Path) -> Path:
    """Make `target`, which must not exist, and return it. Raises NotBuilt."""
    if target.exists():
        raise NotBuilt(f"{target} is there already; remove it, or name another directory")
    packages = PACKAGES
    missing = [name for name in (*FILES.values(), LABELS[1]) if not (packages / name).is_file()]
    if missing:
        raise NotBuilt(f"{packages} lacks {', '.join(missing)}; `make models` puts the packages there that have them")
    try:
        for model in sorted(path.parent for path in HERE.glob("*/config.pbtxt")):
            shutil.copytree(model, target / model.name, ignore=shutil.ignore_patterns("__pycache__"))
        for here, source in FILES.items():
            (target / here).parent.mkdir(exist_ok=True)
            shutil.copyfile(packages / source, target / here)
        import onnxruntime  # slow, and needed by nothing else

        session = onnxruntime.InferenceSession(target / "text_recognition/1/model.onnx", providers=["CPUExecutionProvider"])
        characters = session.get_modelmeta().custom_metadata_map["character"]
        (target / CHARACTERS).write_text("\n".join(characters.splitlines()), encoding="utf-8")
        labels = json.loads((packages / LABELS[1]).read_text())["target_labels_space"]
        (target / LABELS[0]).write_text("".join(f"{label}\n" for label in labels))
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise NotBuilt(f"{target} could not be made: {error}") from None
    return target


def main() -> None:
    """Run the command."""
    target = Path(sys.argv[1])
    try:
        build(target)
    except NotBuilt as error:
        sys.exit(f"error: {error}")
    print(f"{target}: {', '.join(sorted(path.parent.name for path in target.glob('*/config.pbtxt')))}")


if __name__ == "__main__":
    main()
