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
}
"""File of the repository to the file of a package that it is."""
LABELS = ("filetype/labels.txt", "magika/models/standard_v3_3/config.min.json")


class NotBuilt(Failure):
    """The repository could not be made; the text says why, and nothing of it was left."""


def build(target: Path, packages: Path = PACKAGES) -> Path:
    """Make `target`, which must not exist, and return it. Raises NotBuilt."""
    if target.exists():
        raise NotBuilt(f"{target} is there already; remove it, or name another directory")
    missing = [name for name in (*FILES.values(), LABELS[1]) if not (packages / name).is_file()]
    if missing:
        raise NotBuilt(f"{packages} lacks {', '.join(missing)}; `make models` puts the packages there that have them")
    try:
        shutil.copytree(HERE, target, ignore=shutil.ignore_patterns("__pycache__", "*.py", "*.md"))
        for here, source in FILES.items():
            shutil.copyfile(packages / source, target / here)
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
