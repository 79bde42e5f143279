"""The tracked stack file and the twin's own additions, merged for the engine."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from twin.engine import stack_files
from twin.host.home import TwinHome


@pytest.fixture
def home(tmp_path: Path) -> TwinHome:
    return TwinHome(tmp_path / "home")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "program"
    (folder / "stacks").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: triton-eks\n")
    (folder / "stacks" / "Pulumi.local.yaml").write_text(
        "secretsprovider: awskms://alias/pulumi\n"
        "encryptedkey: abc\n"
        "config:\n"
        f"  triton-eks:models: {{oldReleaseDays: 90, release: {{id: aaaaaaaaaaaa{52 * '0'}, models: {{a: 1, b: 1}}}}}}\n"
    )
    return folder


def merged(home: TwinHome, program: Path) -> dict:
    return YAML(typ="safe").load(stack_files.write_merged(home, "local", program))


def test_a_pin_is_laid_over_the_tracked_file_and_leaves_its_other_keys(home: TwinHome, program: Path) -> None:
    stack_files.pin(home, "local", "triton-eks:models.s3Endpoint", "http://127.0.0.1:5000")
    assert merged(home, program)["config"]["triton-eks:models"] == {
        "oldReleaseDays": 90,
        "release": {"id": "aaaaaaaaaaaa" + 52 * "0", "models": {"a": 1, "b": 1}},
        "s3Endpoint": "http://127.0.0.1:5000",
    }


def test_a_pinned_release_replaces_the_tracked_one_whole(home: TwinHome, program: Path) -> None:
    stack_files.pin(home, "local", "triton-eks:models.release", {"id": "bbbbbbbbbbbb" + 52 * "0", "models": {"a": 2}})
    assert merged(home, program)["config"]["triton-eks:models"]["release"] == {
        "id": "bbbbbbbbbbbb" + 52 * "0",
        "models": {"a": 2},
    }


def test_a_section_that_is_a_list_is_pinned_whole(home: TwinHome, program: Path) -> None:
    for fleets in ([{"name": "a"}, {"name": "b"}], [{"name": "b"}]):
        stack_files.pin(home, "local", "triton-eks:fleets", fleets)
        assert merged(home, program)["config"]["triton-eks:fleets"] == fleets


def test_a_pin_of_none_takes_a_tracked_key_away(home: TwinHome, program: Path) -> None:
    assert stack_files.pin(home, "local", "triton-eks:models.oldReleaseDays", None) is True
    assert stack_files.pin(home, "local", "triton-eks:models.oldReleaseDays", None) is False
    assert "oldReleaseDays" not in merged(home, program)["config"]["triton-eks:models"]


def test_a_section_that_the_tracked_file_has_no_more_goes_with_its_last_pin(home: TwinHome, program: Path) -> None:
    stack_files.pin(home, "local", "triton-eks:worker.awsEndpoint", "http://127.0.0.1:5000")
    assert "triton-eks:worker" in merged(home, program)["config"]
    stack_files.pin(home, "local", "triton-eks:worker.awsEndpoint", None)
    assert merged(home, program)["config"].keys() == {"triton-eks:models"}


def test_pinning_says_whether_anything_changed(home: TwinHome) -> None:
    assert stack_files.pin(home, "local", "triton-eks:models.s3Endpoint", "http://127.0.0.1:5000") is True
    assert stack_files.pin(home, "local", "triton-eks:models.s3Endpoint", "http://127.0.0.1:5000") is False


def test_the_salt_that_the_engine_wrote_survives_and_the_tracked_secrets_provider_does_not(
    home: TwinHome, program: Path
) -> None:
    path = stack_files.write_merged(home, "local", program)
    path.write_text(path.read_text() + "encryptionsalt: v1:salt\n")
    document = merged(home, program)
    assert document["encryptionsalt"] == "v1:salt"
    assert {"secretsprovider", "encryptedkey"} & set(document) == set()


def test_the_tracked_file_is_never_written(home: TwinHome, program: Path) -> None:
    before = stack_files.tracked_file("local", program).read_text()
    stack_files.pin(home, "local", "triton-eks:models.oldReleaseDays", 1)
    stack_files.write_merged(home, "local", program)
    assert stack_files.tracked_file("local", program).read_text() == before


def test_the_project_file_lies_beside_the_merged_stacks(home: TwinHome, program: Path) -> None:
    path = stack_files.write_merged(home, "local", program)
    assert (path.parent.parent / "Pulumi.yaml").read_text() == "name: triton-eks\n"


def test_commands_that_write_the_merged_file_at_once_leave_it_whole(home: TwinHome, program: Path) -> None:
    """For example, `twin status` in one terminal while `make up` runs in another."""
    whole = merged(home, program)
    with ThreadPoolExecutor(4) as commands:
        assert list(commands.map(lambda _: merged(home, program), range(40))) == [whole] * 40
    assert [path.name for path in (home.path / "project" / "stacks").iterdir()] == ["Pulumi.local.yaml"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config: [1, 2]\n", ":1: config is not a mapping; give the mapping of all settings"),
        ("- config\n", ": a stack file is a mapping with a mapping `config` in it, and this is not"),
        ("config:\n  a: [1\n  b: 2\n", ":3:4: not valid YAML: did not find expected ',' or ']'"),
        ("config: {a: 1}\nconfig: {}\n", ":2:1: 'config' is there twice, first on line 1; keep one of them"),
    ],
)
def test_a_stack_file_that_cannot_be_read_is_one_sentence(home: TwinHome, program: Path, text: str, said: str) -> None:
    path = stack_files.tracked_file("local", program)
    path.write_text(text)
    with pytest.raises(stack_files.StackFileUnreadable) as error:
        stack_files.write_merged(home, "local", program)
    assert str(error.value).startswith(f"{path}{said}")


def test_a_mistake_in_the_place_of_a_pin_is_left_for_the_settings_to_tell(home: TwinHome, program: Path) -> None:
    stack_files.tracked_file("local", program).write_text("config:\n  triton-eks:models: all of them\n")
    stack_files.pin(home, "local", "triton-eks:models.s3Endpoint", "http://127.0.0.1:5000")
    assert merged(home, program)["config"] == {"triton-eks:models": "all of them"}
