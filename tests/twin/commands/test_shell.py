"""Effects of `eval "$(python3 -m twin env)"` on a shell, in real shells."""

import shutil
import subprocess
from pathlib import Path

import pytest

from twin.commands import shell
from twin.engine import engine
from twin.host import environment
from twin.host.home import TwinHome

PERSON = {
    "PATH": "/usr/bin:/bin",
    "AWS_PROFILE": "it's production",
    "AWS_ENDPOINT_URL_S3": "https://real.example",
    "AWS_SESSION_TOKEN": "real",
    "AWS_REGION": "eu-central-1",
    "HELM_NAMESPACE": "default",
    "KUBECTL_EXTERNAL_DIFF": "diff",
    "PULUMI_ACCESS_TOKEN": "real",
}


def entering(home: TwinHome, before: dict[str, str]) -> str:
    variables = engine.variables(home, aws_endpoint="http://127.0.0.1:1", kubeconfig=home.kubeconfig)
    return shell.enter(home, variables, before)


def environment_after(program: str, lines: str) -> dict[str, str]:
    done = subprocess.run(
        [program, "-c", f"{lines}\nenv -0"], env=PERSON, capture_output=True, text=True, check=True, timeout=30
    )
    found = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    return {name: value for name, value in found.items() if name not in ("_", "PWD", "SHLVL", "OLDPWD")}


@pytest.fixture(params=["bash", "dash"])
def program(request: pytest.FixtureRequest) -> str:
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"no {request.param} here")
    return found


def test_nothing_of_the_persons_own_accounts_and_clusters_is_left(program: str, tmp_path: Path) -> None:
    home = TwinHome(tmp_path / "a home")
    found = environment_after(program, entering(home, PERSON))
    own = engine.variables(home, aws_endpoint="http://127.0.0.1:1", kubeconfig=home.kubeconfig)
    assert set(environment.foreign(found)) == set(environment.foreign(own))
    assert "real" not in found.values()
    assert (found["AWS_ENDPOINT_URL"], found["TWIN_HOME"]) == ("http://127.0.0.1:1", str(home.path))


def test_leaving_gives_back_what_the_shell_had(program: str, tmp_path: Path) -> None:
    lines = entering(TwinHome(tmp_path), PERSON)
    assert environment_after(program, f"{lines}\n{shell.LEAVE}") == PERSON


def test_leaving_gives_back_the_shells_path_not_that_of_a_python_launcher(program: str, tmp_path: Path) -> None:
    lines = entering(TwinHome(tmp_path), {**PERSON, "PATH": f"/opt/launcher:{PERSON['PATH']}"})
    assert environment_after(program, f"{lines}\n{shell.LEAVE}") == PERSON


def test_entering_twice_and_leaving_once_gives_back_what_the_shell_had(program: str, tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    first = entering(home, PERSON)
    second = entering(home, environment_after(program, first))
    assert environment_after(program, f"{first}\n{second}\n{shell.LEAVE}") == PERSON


def test_a_refusal_is_said_and_is_false(program: str) -> None:
    line = shell.refuse("no twin is up at /x; start it with `make up`, don't wait")
    script = 'eval "$LINE" && echo went on; echo after'
    done = subprocess.run([program, "-c", script], env={**PERSON, "LINE": line}, capture_output=True, text=True, check=False)
    assert done.stdout == "after\n"
    assert done.stderr == "error: no twin is up at /x; start it with `make up`, don't wait\n"
