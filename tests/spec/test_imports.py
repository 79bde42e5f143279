"""`spec` imports the standard library, and the three packages for reading and checking a stack file."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.paths import ROOT

_LOADED_BY_SPEC_ALONE = """
import importlib, json, pkgutil, sys
import annotated_types, cryptography, pydantic, ruamel.yaml, yaml
packages = lambda: {
    top for name in sys.modules if not (top := name.partition(".")[0]).startswith("_")
} - sys.stdlib_module_names
before = packages()
import spec
for module in pkgutil.walk_packages(spec.__path__, "spec."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(json.dumps(sorted(packages() - before)))
"""


def test_spec_needs_neither_pulumi_nor_a_cloud_sdk_nor_another_package_of_this_project() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED_BY_SPEC_ALONE], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(done.stdout) == ["spec"]
