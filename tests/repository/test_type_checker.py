"""mypy reads the parts of Pulumi's AWS package that the programs use; it accepts any use of unread parts."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.paths import ROOT


def test_it_reads_every_service_that_the_programs_use() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    (read,) = [one["module"] for one in settings["overrides"] if one["follow_imports"] == "normal"]
    services = {name.split(".")[1] for name in read if name.endswith(".*")}
    files = [path for folder in settings["files"] for path in sorted((ROOT / folder).rglob("*.py"))]
    assert services == {service for path in files for service in _services(path)}


def _services(path: Path) -> Iterator[str]:
    """Return the services that a file uses, such as `s3` for `aws.s3.Bucket`."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if "pulumi_aws" in text else ():
        match node:
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="aws"), attr=service)):
                yield service
            case ast.ImportFrom(module=str(module)) if module.startswith("pulumi_aws."):
                yield module.split(".")[1]
