"""The directory of a twin before its engine first runs."""

import os
import subprocess
from pathlib import Path

from rich.console import Console

from twin.engine import layout
from twin.host import tools
from twin.host.home import TwinHome


def test_the_engine_runs_and_keeps_no_log_of_what_it_does(tmp_path: Path) -> None:
    home = TwinHome(tmp_path / "twin")
    home.path.mkdir()
    pulumi = layout.lay_out(home, tools.ensure(["pulumi"], Console(stderr=True))["pulumi"])
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "person"),
        "PULUMI_HOME": str(layout.pulumi_home(home)),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    for _ in range(2):
        done = subprocess.run(
            [pulumi, "whoami"],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert [path for path in tmp_path.rglob("*.log")] == []
