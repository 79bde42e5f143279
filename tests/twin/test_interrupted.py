"""What a killed engine leaves in its state, put right before the next one."""

from pathlib import Path

from twin import interrupted
from twin.engine import Engine
from twin.home import TwinHome


def test_attributes_that_a_kill_cut_off_are_removed_and_whole_ones_stay(tmp_path: Path) -> None:
    home = TwinHome(tmp_path)
    stacks = tmp_path / "state" / ".pulumi" / "stacks" / "triton-eks"
    stacks.mkdir(parents=True)
    (stacks / "local.json").write_text("{}")
    (stacks / "local.json.attrs").write_text("")
    (stacks / "dev.json.attrs").write_text('{"md5": "')
    (stacks / "prod.json.attrs").write_text('{"md5": "eA=="}')

    interrupted.clear(home, Engine(home, Path("no-engine-is-needed"), {}), "local")

    assert sorted(path.name for path in stacks.iterdir()) == ["local.json", "prod.json.attrs"]
