"""Run the real Pulumi engine on this checkout's program, with everything it touches inside one twin."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from console import loopback
from spec import reading
from spec.failure import Failure
from spec.stack_names import stack_file
from twin.engine import account, layout, stack_files
from twin.host import processes
from twin.host.environment import foreign
from twin.host.home import REPOSITORY, TwinHome

PROJECT = "triton-eks"
PASSPHRASE = "twin"
_UNCOMPILED = "PYTHONDONTWRITEBYTECODE"
"""Container images often set this variable. Each process of the engine would then compile all its imports in every run."""
_WITHOUT_DIGESTS = "metadata=skip"
"""An option of the state's directory (https://pkg.go.dev/gocloud.dev/blob/fileblob).

Without it, each file gets a second file with its digest, which is never read. `up` writes the whole state twice for each
resource.
"""
_DEFAULT_PROVIDER = re.compile(r"::pulumi:providers:[^:]+::default(_[\d_]+)?$")


class EngineError(Failure):
    """`pulumi` failed; its output was shown or is in the text.

    `output` is its standard output, if the program read it.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


@dataclass(frozen=True)
class Update:
    """An `up` or `destroy` in the history of a stack. `changes`: number of resources by operation (`create`, `same` …)."""

    began: str
    changes: Mapping[str, int]


@dataclass(frozen=True)
class Engine:
    """The `pulumi` program with the environment of one twin.

    `program` is the checkout whose `Pulumi.yaml` and code run; another revision's for `preview --against`.
    """

    home: TwinHome
    pulumi: Path
    environment: Mapping[str, str]
    program: Path = REPOSITORY

    def run(self, stack: str, arguments: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})) -> int:
        """Run `pulumi <arguments>` for `stack` with its own display on this terminal, and return its exit code.

        `variables` are added to the engine's environment. Raises KeyboardInterrupt after an engine that Ctrl-C interrupted
        has exited.
        """
        command = [str(self.pulumi), *arguments]
        interrupted = False
        with subprocess.Popen(command, cwd=self.program, env=self._prepare(stack) | dict(variables)) as process:
            while True:
                try:
                    # Do not take the exit code: `wait` loses it if a signal arrives as the engine exits, and returns 0.
                    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                    break
                except KeyboardInterrupt:
                    interrupted = True  # the engine got the same signal from the terminal, and cancels by itself
            code = process.wait()
        if interrupted and code != 0:
            raise KeyboardInterrupt
        return code

    def read(self, stack: str, arguments: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})) -> str:
        """Run `pulumi <arguments>` for `stack`, with `variables` added to the environment; return its standard output.

        Raises EngineError with its output, if it fails.
        """
        return self._capture(arguments, cwd=self.program, env=self._prepare(stack) | dict(variables))

    def outputs(self, stack: str) -> dict[str, Any]:
        """Return the stack's outputs by name; empty before the first `up`."""
        return reading.json_object(self.read(stack, ["stack", "output", "--json"]), reading.DEEPEST_OF_THE_ENGINE)

    def last_update(self, stack: str) -> Update:
        """Return the last `up` or `destroy` that the engine started."""
        last, *_ = reading.json_value(self.read(stack, ["stack", "history", "--json", "--page-size", "1"]))
        return Update(last["startTime"], last.get("resourceChanges") or {})

    def changes_since(self, stack: str, earlier: Update) -> Mapping[str, int]:
        """Return the changes of the last update; empty if there was none after `earlier`."""
        last = self.last_update(stack)
        return last.changes if last.began != earlier.began else {}

    def resources(self, stack: str) -> list[dict[str, Any]]:
        """Return the resources in the stack's state, as `pulumi stack export` prints them.

        The engine's default providers are left out, as in the engine's own counts.
        """
        resources: list[dict[str, Any]] = self.deployment(stack).get("resources") or []
        return [resource for resource in resources if not _DEFAULT_PROVIDER.search(resource["urn"])]

    def deployment(self, stack: str) -> dict[str, Any]:
        """Return the `deployment` of `pulumi stack export`: resources, and operations that began and did not finish."""
        deployment: dict[str, Any] = (
            reading.json_object(self.read(stack, ["stack", "export"]), reading.DEEPEST_OF_THE_ENGINE).get("deployment") or {}
        )
        return deployment

    def _prepare(self, stack: str) -> dict[str, str]:
        """Prepare a command on `stack`, and return its environment.

        `pulumi stack init` runs in a copy of the project, because it writes a salt into the stack file there.
        """
        merged = stack_files.write_merged(self.home, stack, self.program)
        account.create(self.environment["AWS_ENDPOINT_URL"], self.environment["AWS_REGION"], stack, merged)
        backend = self.home.path / "state"
        if not (backend / ".pulumi" / "stacks" / PROJECT / f"{stack}.json").exists():
            backend.mkdir(parents=True, exist_ok=True)
            self._capture(["stack", "init", stack, "--non-interactive"], cwd=merged.parent.parent, env=self.environment)
        own = {"PULUMI_STACK": stack, "PULUMI_OPTION_CONFIG_FILE": str(merged), processes.PROCESS: process_name(stack)}
        return {**self.environment, **own}

    def _capture(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> str:
        done = subprocess.run([str(self.pulumi), *arguments], cwd=cwd, env=env, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()
            raise EngineError(f"`pulumi {' '.join(arguments)}` ended with {done.returncode}:\n{said}", done.stdout)
        return done.stdout


def process_name(stack: str) -> str:
    """Return the mark of `pulumi`, its plugins and the program while they work on `stack` (twin/host/processes.py).

    The mark has the stack's name, so that a killed engine's processes are found, and a preview of another stack is not
    affected.
    """
    return f"engine-{stack}"


def environment(home: TwinHome, *, aws_endpoint: str, kubeconfig: Path) -> dict[str, str]:
    """Return the environment in which `pulumi`, `kubectl`, `aws` and `helm` reach only one twin.

    The caller's AWS, Kubernetes, Helm and Pulumi settings are removed from it, so that a person's real account is out of
    reach (the variables: docs/facts/pulumi.md#without-the-network).
    """
    inherited = {name: value for name, value in os.environ.items() if name not in (*foreign(os.environ), _UNCOMPILED)}
    mark = {processes.OWNER: str(home.path), processes.PROCESS: "command", "TMPDIR": str(home.temporary)}
    return {**inherited, **variables(home, aws_endpoint=aws_endpoint, kubeconfig=kubeconfig), **mark}


def variables(home: TwinHome, *, aws_endpoint: str, kubeconfig: Path) -> dict[str, str]:
    """Return only the variables that `environment` sets: the output of `python3 -m twin env`."""
    folders = [home.path / "bin", Path(sys.executable).parent]
    return {
        "TWIN_HOME": str(home.path),
        **loopback.direct(os.environ),
        "PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": str(REPOSITORY),
        "PULUMI_HOME": str(layout.pulumi_home(home)),
        "PULUMI_BACKEND_URL": f"file://{home.path / 'state'}?{_WITHOUT_DIGESTS}",
        "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
        "PULUMI_K8S_DELETE_UNREACHABLE": "false",
        "AWS_ENDPOINT_URL": aws_endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-west-2",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_PAGER": "",
        "KUBECONFIG": str(kubeconfig),
        "KUBECACHEDIR": str(home.kubectl_cache),
        "HELM_CACHE_HOME": str(home.path / "helm" / "cache"),
        "HELM_CONFIG_HOME": str(home.path / "helm" / "config"),
        "HELM_DATA_HOME": str(home.path / "helm" / "data"),
    }


def stack_of(arguments: Sequence[str], *, default: str) -> str:
    """Return the stack that `pulumi` arguments name (`--stack S`, `--stack=S`, `-s S`), else PULUMI_STACK or `default`."""
    for position, argument in enumerate(arguments):
        if argument in ("--stack", "-s") and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith("--stack="):
            return argument.removeprefix("--stack=")
    return os.environ.get("PULUMI_STACK") or default


_WRITING = frozenset({"set", "set-all", "rm", "rm-all", "cp", "refresh"})


def refuse_writes_of_configuration(arguments: Sequence[str], stack: str) -> None:
    """Raise EngineError for `pulumi config set` and similar commands.

    They would write the twin's copy of the stack file, which the next command overwrites.
    """
    writes = next((word for word in arguments if word in _WRITING), None) if "config" in arguments else None
    if writes is not None:
        raise EngineError(
            f"in the shell of a twin `pulumi config {writes}` would change a copy of the stack file that is made anew for "
            f"each command, and nothing was done; edit {stack_file(stack)} itself"
        )
