"""Files that do not belong to a release: reported and left out, or refused with a remedy."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from modelctl.release.progress import Silent
from modelctl.release.publish import prepare
from modelctl.repository.load import load, validate

MODEL = "normalize"


def _messages(models: Path) -> list[str]:
    return [str(problem).removeprefix(f"{models}/") for problem in validate(models)]


def _files(models: Path) -> list[str]:
    return [str(file) for model in load(models) if model.name == MODEL for file in model.files]


def _write(path: Path, content: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


LEFT_OUT = [
    ".git/config",
    ".git",
    ".svn/entries",
    ".hg/store",
    "1/__pycache__/model.cpython-311.pyc",
    "1/model.pyc",
    ".DS_Store",
    "1/._model.py",
    "1/model.py~",
    "1/.model.py.swp",
    "1/#model.py#",
    "1/.#model.py",
    "1/model.py.bak",
    "1/weights.bin.part",
    "1/0123456789abcdef.incomplete",
    "1/events.out.tfevents.1764194400.host.1.0",
    "1/core.12345",
    "1/.ipynb_checkpoints/a.ipynb",
    ".idea/workspace.xml",
    ".vscode/settings.json",
    ".gitattributes",
    ".gitignore",
    "Thumbs.db",
    "1/__MACOSX/a",
    ".cache/huggingface/download",
]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_no_models_is_left_out_and_told(models: Path, name: str) -> None:
    before = _files(models)
    _write(models / MODEL / name)

    plan = prepare(models, 5 * 1024 * 1024, Silent())

    told = [str(path.relative_to(models / MODEL)) for path in plan.left_out]
    assert [name == path or name.startswith(f"{path}/") for path in told] == [True]
    assert _files(models) == before


@pytest.mark.parametrize("name", [".git/HEAD", ".env", ".dvc/config"])
def test_what_lies_beside_the_models_is_told_too(models: Path, name: str) -> None:
    _write(models / name)

    assert prepare(models, 5 * 1024 * 1024, Silent()).left_out == (models / name.partition("/")[0],)


@pytest.mark.parametrize("name", [".keep", ".gitkeep"])
def test_what_keeps_a_directory_is_released(models: Path, name: str) -> None:
    _write(models / MODEL / "1" / name)

    assert f"1/{name}" in _files(models)


SECRET_NAMES = [
    ".env",
    ".env.production",
    "production.env",
    ".netrc",
    ".aws/credentials",
    ".ssh/id_rsa",
    "id_ed25519",
    "credentials",
    "credentials.json",
    "kubeconfig",
    "client_secret_123.json",
    "kaggle.json",
    "password.txt",
    "prod.tfvars",
    "terraform.tfstate.backup",
    ".kube/config",
    ".dockercfg",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    "server.key",
    "store.p12",
    "store.JKS",
    "secrets.yaml",
    "service-account-prod.json",
    "terraform.tfstate",
]


@pytest.mark.parametrize("folder", ["", "1/", "shared/"])
@pytest.mark.parametrize("name", SECRET_NAMES)
def test_what_is_named_like_a_secret_is_refused(models: Path, folder: str, name: str) -> None:
    _write(models / MODEL / folder / name)

    first = name.partition("/")[0]
    assert _messages(models) == [
        f"{MODEL}/{folder}{first}: {first} may hold a secret, and everybody who reads the bucket would have it; "
        "keep it outside of the models, or rename it if it holds none"
    ]


SECRET_TEXTS = {
    "a private key": "-----BEGIN " + "RSA PRIVATE KEY-----",
    "an AWS access key": "AKIA" + "IOSFODNN7EXAMPLE",
    "an AWS secret key": "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "a token of GitHub": "ghp_" + "a" * 36,
    "a token of GitLab": "glpat-" + "a" * 20,
    "a token of Hugging Face": "hf_" + "a" * 34,
    "a key of NVIDIA": "nvapi-" + "a" * 64,
    "a token of Slack": "xoxb-" + "1" * 12,
    "a key of Google": "AIza" + "a" * 35,
    "a token of Pulumi": "pul-" + "0" * 40,
    "a token of npm": "npm_" + "a" * 36,
    "a key of Stripe": "sk_live_" + "a" * 24,
    "a key of OpenAI or Anthropic": "sk-proj-" + "a" * 40,
}


@pytest.mark.parametrize("what", SECRET_TEXTS)
def test_a_secret_in_a_text_is_refused_with_its_line_and_never_shown(models: Path, what: str) -> None:
    (models / MODEL / "notes.txt").write_text(f"one\ntoken: {SECRET_TEXTS[what]}\n")

    assert _messages(models) == [
        f"{MODEL}/notes.txt:2: has what looks like {what}, which everybody who reads the bucket would have; remove it"
    ]


def test_a_certificate_is_no_secret(models: Path) -> None:
    (models / MODEL / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")

    assert "ca.pem" in _files(models)


def _link(path: str, target: str) -> Callable[[Path], None]:
    def make(models: Path) -> None:
        place = models / path
        place.unlink(missing_ok=True)
        place.symlink_to(target.format(models=models))

    return make


def _linked_version(models: Path) -> None:
    (models / MODEL / "1").rename(models.parent / "version")
    (models / MODEL / "1").symlink_to(models.parent / "version")


def _linked_model(models: Path) -> None:
    (models / "other").symlink_to("/usr")


LINKS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a file elsewhere": (
        _link("normalize/data", "/etc/passwd"),
        "normalize/data: a link to /etc/passwd, out of {models}; put the file itself here",
    ),
    "a relative way out": (
        _link("normalize/1/data", "../../../outside"),
        "normalize/1/data: a link to ../../../outside, out of {models}; put the file itself here",
    ),
    "a directory elsewhere": (
        _link("normalize/data", "/etc"),
        "normalize/data: a link to /etc, out of {models}; put the file itself here",
    ),
    "a config": (
        _link("normalize/config.pbtxt", "../../outside"),
        "normalize/config.pbtxt: a link to ../../outside, out of {models}; put the file itself here",
    ),
    "a golden inference": (
        _link("normalize/1/golden.json", "{models}/../outside"),
        "normalize/1/golden.json: a link to {models}/../outside, out of {models}; put the file itself here",
    ),
    "a version": (
        _linked_version,
        "normalize/1: a link to {models.parent}/version, out of {models}; put the file itself here",
    ),
    "a model": (_linked_model, "other: a link to /usr, out of {models}; put the file itself here"),
    "itself": (
        _link("normalize/data", "data"),
        "normalize/data: a link to data, which cannot be followed (Too many levels of symbolic links); "
        "put the file itself here",
    ),
    "git-annex": (
        _link("normalize/1/data", "../../../.git/annex/objects/aa/bb/SHA256E-s1--00/SHA256E-s1--00"),
        "normalize/1/data: a link of git-annex to content that is not here; `git annex get` and `git annex unlock` it",
    ),
    "a secret beside the models": (
        _link("normalize/data", "../.env"),
        "normalize/data: a link to ../.env: .env may hold a secret, and everybody who reads the bucket would have it; "
        "keep it outside of the models, or rename it if it holds none",
    ),
    "version control": (
        _link("normalize/data", "../.git/config"),
        "normalize/data: a link to ../.git/config, and nothing of .git is released; put the file itself here",
    ),
    "a device": (
        _link("normalize/data", "/dev/null"),
        "normalize/data: a link to /dev/null, out of {models}; put the file itself here",
    ),
}


@pytest.mark.parametrize("to", LINKS)
def test_a_link_is_followed_to_files_of_the_repository_only(models: Path, to: str) -> None:
    change, expected = LINKS[to]
    (models.parent / "outside").write_text("x")
    (models / ".env").write_text("x")
    _write(models / ".git" / "config")
    change(models)

    assert expected.format(models=models) in _messages(models)


def test_a_link_to_a_file_of_another_model_is_followed(models: Path) -> None:
    (models / MODEL / "weights").symlink_to("../classify/1/model.py")

    assert "weights" in _files(models)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)  # a socket's path has at most 108 characters
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


@pytest.mark.parametrize("make", [_fifo, _socket])
@pytest.mark.parametrize("place", ["pipe", "normalize/pipe", "normalize/1/pipe"])
def test_what_is_no_file_is_refused(models: Path, make: Callable[[Path], None], place: str) -> None:
    make(models / place)

    assert _messages(models) == [f"{place}: neither a file nor a directory"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"caf\xe9", r"normalize/caf\udce9: its name is not UTF-8, and S3 has no other; rename it"),
        (b"a\nb", r"normalize/a\nb: its name has a control character; rename it"),
        (b"a\x1b[31m", r"normalize/a\x1b[31m: its name has a control character; rename it"),
        (b"a\\b", r"normalize/a\b: its name has a backslash, which separates directories elsewhere; rename it"),
    ],
)
def test_a_name_that_not_everybody_can_have_is_refused(models: Path, name: bytes, said: str) -> None:
    Path(os.fsdecode(os.fsencode(models / MODEL) + b"/" + name)).write_text("x")

    assert _messages(models) == [said]


@pytest.mark.parametrize(
    ("one", "other"), [("Labels.txt", "labels.txt"), ("stra\u00dfe", "STRASSE"), ("caf\u00e9", "cafe\u0301")]
)
def test_names_that_differ_in_case_only_are_refused(models: Path, one: str, other: str) -> None:
    for name in (one, other):
        _write(models / MODEL / name)

    first, second = sorted((one, other))
    assert _messages(models) == [
        f"normalize/{second}: differs from {first} in upper and lower case only, or in how an accent is written; rename it"
    ]


def test_models_that_differ_in_case_only_are_refused(models: Path) -> None:
    (models / "normalize").rename(models / "Classify")

    assert [line for line in _messages(models) if "upper and lower" in line] == [
        "classify: differs from Classify in upper and lower case only, or in how an accent is written; rename it"
    ]


def test_a_path_that_is_no_key_of_s3_is_refused(models: Path) -> None:
    folder = models / MODEL / "/".join(["d" * 200] * 4)
    longest = 1024 - len("releases/0123456789ab/normalize/") - 4 * 201
    _write(folder / ("f" * longest))
    assert _messages(models) == []

    (folder / ("f" * longest)).rename(folder / ("f" * (longest + 1)))
    assert [line.partition(": ")[2] for line in _messages(models)] == [
        "its key in the bucket would have 1025 bytes; S3 takes 1024, so shorten its path"
    ]


@pytest.mark.parametrize(("length", "count"), [(128, 0), (129, 1)])
def test_a_model_has_a_name_of_at_most_128_characters(models: Path, length: int, count: int) -> None:
    (models / MODEL).rename(models / ("n" * length))

    said = [line for line in _messages(models) if line.endswith(f"a name of {length} characters; a model's has at most 128")]
    assert len(said) == count


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("0", "not a version, the server ignores it; versions are named 1, 2, 3 …"),
        ("01", "not a version, the server ignores it; versions are named 1, 2, 3 …"),
        ("\u0663", "not a version, the server ignores it; versions are named 1, 2, 3 …"),
        (str(2**63), f"not a version, the server has none beyond {2**63 - 1}"),
        ("9" * 200, f"not a version, the server has none beyond {2**63 - 1}"),
    ],
)
def test_a_directory_that_is_nearly_a_version_is_refused(models: Path, name: str, said: str) -> None:
    (models / MODEL / name).mkdir()

    assert f"normalize/{name}: {said}" in _messages(models)


def test_the_largest_version_is_one(models: Path) -> None:
    (models / MODEL / "1").rename(models / MODEL / str(2**63 - 1))

    assert _messages(models) == []
