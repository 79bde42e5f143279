import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twin.host.home import REPOSITORY, Endpoints, TwinBusy, TwinHome, read_json, write_json


def test_the_home_is_the_directory_that_twin_home_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TWIN_HOME", str(tmp_path / "one"))
    assert TwinHome.from_environment().path == tmp_path / "one"


def test_without_twin_home_it_is_the_checkouts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWIN_HOME", raising=False)
    assert TwinHome.from_environment().path == REPOSITORY / ".twin"


def test_endpoints_are_kept_and_changed_one_by_one(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    assert home.load_endpoints() == Endpoints(None, None, None)
    home.save_endpoints(aws_url="http://127.0.0.1:1")
    home.save_endpoints(api_server_url="https://127.0.0.1:2", kubeconfig="/k")
    assert home.load_endpoints() == Endpoints("http://127.0.0.1:1", "https://127.0.0.1:2", "/k")


def test_endpoints_of_a_newer_twin_are_read_by_an_older_one(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text(json.dumps({"aws_url": "u", "dashboards": {}}))
    assert TwinHome(tmp_path).load_endpoints() == Endpoints(aws_url="u")


def test_a_file_that_a_crash_cut_off_reads_as_absent(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": ')
    assert read_json(tmp_path / "x.json") is None


def test_a_written_file_is_private_and_leaves_no_partial_one(tmp_path: Path) -> None:
    write_json(tmp_path / "d" / "x.json", {"a": 1})
    assert [p.name for p in (tmp_path / "d").iterdir()] == ["x.json"]
    assert (tmp_path / "d" / "x.json").stat().st_mode & 0o777 == 0o600


def test_a_second_command_on_one_home_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    with home.lock("make up"):
        with pytest.raises(TwinBusy) as refused, home.lock("make down"):
            pass
        assert f"in use by `make up` (process {os.getpid()})" in str(refused.value)
        assert "TWIN_HOME" in str(refused.value)
    with home.lock("make down"):
        pass


def test_a_killed_command_lets_go_of_the_home(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from twin.host.home import TwinHome\n"
        f"with TwinHome(pathlib.Path({str(tmp_path)!r})).lock('make up'): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TwinBusy), TwinHome(tmp_path).lock("make up"):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with TwinHome(tmp_path).lock("make up"):
        pass
