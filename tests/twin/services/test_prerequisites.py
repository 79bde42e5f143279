"""All missing prerequisites of a twin are reported at once, before any build or start."""

from __future__ import annotations

from pathlib import Path

import pytest

from console import program
from examples.packaged import build
from spec.failure import NOT_TRIED
from twin.charts.envoy_gateway import pods as envoy_pods
from twin.commands import up
from twin.host import room
from twin.host.home import TwinHome
from twin.host.tools import ToolError
from twin.services import prerequisites
from twin.services.servers import Servers
from twin.triton import tritonserver

NO_MODELS = (
    "{packages} lacks rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx, "
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx, "
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx; `make models` puts the packages there that have them"
)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the empty folder for the models' packages."""
    monkeypatch.setattr(build, "PACKAGES", tmp_path / "packages")
    return tmp_path / "packages"


def test_up_says_that_the_models_are_not_there_before_it_builds_or_starts_anything(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []
    monkeypatch.setenv("TWIN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(up, "programs", lambda *_: begun.append("programs"))
    monkeypatch.setattr(Servers, "start", lambda *_: begun.append("servers"))
    monkeypatch.setattr(up, "up", lambda *_: begun.append("up"))
    assert program.run("twin", ["up"]) == NOT_TRIED
    assert capsys.readouterr().err == f"error: {NO_MODELS.format(packages=packages)}\n"
    assert begun == []


def test_all_that_is_missing_is_told_at_once(tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_triton(cache: Path) -> None:
        raise tritonserver.TritonUnavailable("no Triton")

    monkeypatch.setattr(tritonserver, "locate", no_triton)
    with pytest.raises(prerequisites.Lacking) as refused:
        prerequisites.check(TwinHome(tmp_path))
    assert str(refused.value).splitlines() == ["no Triton", NO_MODELS.format(packages=packages)]
    assert refused.value.exit_code == NOT_TRIED


def test_without_room_nothing_is_written(tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(home: TwinHome) -> None:
        raise room.NoRoom("no room")

    monkeypatch.setattr(room, "check", no_room)
    with pytest.raises(prerequisites.Lacking) as refused:
        prerequisites.check(TwinHome(tmp_path))
    assert str(refused.value).splitlines() == ["no room", NO_MODELS.format(packages=packages)]
    assert list(tmp_path.iterdir()) == []


def test_only_what_the_options_ask_for_is_looked_for(
    tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If pods follow a load, no pictures are read; Envoy runs only behind a gateway."""

    def no_envoy() -> None:
        raise ToolError("no Envoy")

    monkeypatch.setattr(envoy_pods, "locate", no_envoy)
    prerequisites.check(TwinHome(tmp_path), pictures=False)
    with pytest.raises(prerequisites.Lacking, match=r"^no Envoy$"):
        prerequisites.check(TwinHome(tmp_path), pictures=False, gateway=True)
