"""A Python model with its own packages, in an archive made as docs/serving.md says, on a real server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.system.serving import models
from tests.system.serving.pods import Kubelet
from tests.system.serving.test_bad_input import answer, ended

PARAMETER = (
    'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/environment.tar.gz" } }\n'
)


def recipe() -> list[str]:
    """Return the page's commands: the first creates the environment, the last two create the archive."""
    section = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8").partition("## Packages of Python models\n")[2]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1].strip().splitlines()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return an archive made by the page's own commands, with a module in place of pip's packages; its source is deleted."""
    make, _install, relocate, pack = recipe()
    (tmp_path / "my-models" / "mine").mkdir(parents=True)
    environment = tmp_path / "environment"
    for command in (make, relocate, pack):
        line = command.replace("/tmp/environment", str(environment)).replace("python3 ", f"{sys.executable} ")
        if command == relocate:
            packages = environment / sysconfig.get_path("purelib", vars={"base": "."})
            (packages / "answers.py").write_text("OFFSET = 40\n")
            # The stub needs numpy in its environment.
            (packages / "here.pth").write_text(sysconfig.get_path("purelib") + "\n")
        subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True, timeout=120)
    shutil.rmtree(environment)
    return tmp_path / "my-models" / "mine" / "environment.tar.gz"


def needing_a_package(repository: Path) -> Path:
    models.write(repository)
    model = repository / "echo" / "1" / "model.py"
    model.write_text(model.read_text().replace("import json\n", "import answers\nimport json\n", 1))
    model.write_text(model.read_text().replace("tensor + self.version", "tensor + answers.OFFSET + self.version"))
    return repository / "echo"


def test_a_model_finds_the_packages_of_its_archive(kubelet: Kubelet, repository: Path, archive: Path) -> None:
    model = needing_a_package(repository)
    shutil.move(archive, model / "environment.tar.gz")
    with (model / "config.pbtxt").open("a") as config:
        config.write(PARAMETER)

    pod = kubelet.pod({"echo": 1}, repository).start().until_ready()

    assert answer(pod) == 1.0 + 40 + 1


def test_without_it_the_server_does_not_start_and_says_why(kubelet: Kubelet, repository: Path) -> None:
    needing_a_package(repository)

    pod = kubelet.pod({"echo": 1}, repository).start()

    assert ended(pod) == 1
    assert "No module named 'answers'" in pod.log_text()


def test_the_archive_holds_no_path_of_the_machine_that_made_it(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        activate = packed.extractfile("./bin/activate")
        assert activate is not None
        text = activate.read().decode()
    assert str(tmp_path) not in text
