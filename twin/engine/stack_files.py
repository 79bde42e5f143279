"""The stack files that the twin hands to the engine: the tracked ones, plus what only one twin knows.

`stacks/Pulumi.<stack>.yaml` is tracked by git and stays untouched. What a twin adds (the address of its S3, the release
that `make up` has just made) stands in `TWIN_HOME/pins/Pulumi.<stack>.yaml`, in the form of a stack file. Between the two
lie `gateway.yaml`, `autoscaling.yaml` and `karpenter.yaml` beside this module, where `make up GATEWAY=1 AUTOSCALING=1
KARPENTER=1` has asked for them. The engine reads them merged, from `TWIN_HOME/project/stacks/`, where it also keeps the salt
of the stack's secrets.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec import reading, stack_file, yaml_writer
from spec.failure import NOT_TRIED, Failure
from spec.files import write_whole
from spec.reading import Unreadable
from spec.settings import Settings, load
from spec.settings.fleets import Fleet
from spec.stack_file import StackFile, StackFileError
from twin.host.home import REPOSITORY, TwinHome

STACK = "local"
"""The stack that a twin brings up."""
AUTOSCALING_FILE = Path(__file__).with_name("autoscaling.yaml")
"""The changes of an autoscaled twin to STACK: `config`, as a JSON merge patch (RFC 7396)."""
GATEWAY_FILE = Path(__file__).with_name("gateway.yaml")
"""The changes of a twin with a gateway to the same stack, before those of AUTOSCALING_FILE."""
KARPENTER_FILE = Path(__file__).with_name("karpenter.yaml")
"""The changes of a twin whose nodes Karpenter starts, after those of AUTOSCALING_FILE."""
_SECRETS_KEYS = ("secretsprovider", "encryptedkey", "encryptionsalt")
"""The keys of `pulumi stack init`. A tracked file's own (AWS KMS) is left out: the twin has no KMS to open it with."""


class StackFileUnreadable(Failure):
    """A stack file is no YAML, or not one of a stack; the text says where and why."""

    exit_code = NOT_TRIED


def tracked_file(stack: str, program: Path = REPOSITORY) -> Path:
    """Return the stack file of `stack` in the checkout `program`."""
    return program / "stacks" / f"Pulumi.{stack}.yaml"


def pins_file(home: TwinHome, stack: str) -> Path:
    """Return where this twin keeps what it adds to `stack`; it may not exist."""
    return home.path / "pins" / f"Pulumi.{stack}.yaml"


def sections(stack: str, program: Path = REPOSITORY) -> frozenset[str]:
    """Return the keys below `config` of the tracked file, e.g. `triton-eks:models`."""
    return frozenset(read(tracked_file(stack, program)))


def pin(home: TwinHome, stack: str, key: str, value: Any) -> bool:
    """Set the dotted `key` (below `config`, e.g. `triton-eks:models.s3Endpoint`) for this twin; say whether it changed.

    None takes away what the tracked file says.
    """
    path = pins_file(home, stack)
    pins = read(path)
    node = pins
    *parents, last = key.split(".")
    for parent in parents:
        node = node.setdefault(parent, {})
    if last in node and node[last] == value:
        return False
    node[last] = value
    _write(path, {"config": pins})
    return True


def ask_for_autoscaling(home: TwinHome, wanted: bool) -> None:
    """Make this twin's stack the tracked one with AUTOSCALING_FILE laid over it, or from now on the tracked one alone.

    The pinned release goes when that changes: its configs were made from what the other one wants of the models.
    """
    if wanted == autoscaling(home):
        return
    path = pins_file(home, STACK)
    pins = read(path)
    (pins.get("triton-eks:models") or {}).pop("release", None)
    _write(path, {"config": pins})
    mark = _mark(home, AUTOSCALING_FILE)
    if wanted:
        mark.touch()
    else:
        mark.unlink()


def autoscaling(home: TwinHome) -> bool:
    """Return whether the last `make up` asked for autoscaling."""
    return _mark(home, AUTOSCALING_FILE).exists()


def ask_for_gateway(home: TwinHome, wanted: bool) -> None:
    """Make this twin's stack one with GATEWAY_FILE laid over the tracked one, or from now on one without."""
    _ask_for(home, GATEWAY_FILE, wanted)


def ask_for_karpenter(home: TwinHome, wanted: bool) -> None:
    """Make this twin's stack one with KARPENTER_FILE laid over the tracked one, or from now on one without."""
    _ask_for(home, KARPENTER_FILE, wanted)


def _ask_for(home: TwinHome, changes: Path, wanted: bool) -> None:
    mark = _mark(home, changes)
    if wanted:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    else:
        mark.unlink(missing_ok=True)


def gateway(home: TwinHome) -> bool:
    """Return whether the last `make up` asked for a gateway."""
    return _mark(home, GATEWAY_FILE).exists()


def pinned_release(home: TwinHome, stack: str) -> dict[str, Any] | None:
    """Return the release that this twin serves in `stack` (`id`, `bytes`, `models`); None before `make up` has made one."""
    models = read(pins_file(home, stack)).get("triton-eks:models") or {}
    return models.get("release")


def config(home: TwinHome, stack: str, program: Path = REPOSITORY) -> dict[str, Any]:
    """Return what stands below `config` in the file that the engine reads for `stack`."""
    tracked = read(tracked_file(stack, program))
    if stack == STACK:
        for changes in (GATEWAY_FILE, AUTOSCALING_FILE, KARPENTER_FILE):
            if _mark(home, changes).exists():
                tracked = _merge_patch(tracked, read(changes))
    return _lay_over(tracked, read(pins_file(home, stack)))


def fleets(home: TwinHome, stack: str, program: Path = REPOSITORY) -> tuple[Fleet[Settings], ...]:
    """Return the fleets of Triton that the file has which the engine reads. Raises SettingsError."""
    return load(config(home, stack, program), stack).each_fleet


def write_merged(home: TwinHome, stack: str, program: Path = REPOSITORY) -> Path:
    """Write the file that the engine reads for `stack`, and the project file beside it, and return its path."""
    project = home.path / "project"
    merged_file = project / "stacks" / f"Pulumi.{stack}.yaml"
    write_whole(project / "Pulumi.yaml", (program / "Pulumi.yaml").read_bytes(), mode=0o644)
    tracked = _read(tracked_file(stack, program)).rest
    document = {key: value for key, value in tracked.items() if key not in _SECRETS_KEYS}
    document["config"] = config(home, stack, program)
    salt = _read(merged_file).rest.get("encryptionsalt")
    if salt:
        document["encryptionsalt"] = salt
    _write(merged_file, document)
    return merged_file


def _mark(home: TwinHome, changes: Path) -> Path:
    """Return the file that is there when the last `make up` asked for these changes."""
    return pins_file(home, STACK).with_name(changes.stem)


def _merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    below = target if isinstance(target, dict) else {}
    merged = {key: _merge_patch(below.get(key), value) for key, value in patch.items() if value is not None}
    return {**{key: value for key, value in below.items() if key not in patch}, **merged}


def _lay_over(config: dict[str, Any], pins: dict[str, Any]) -> dict[str, Any]:
    """`config` with the properties of `pins`, each replaced whole: a release with fewer models keeps none of the old.

    A property that a pin says is None goes, and so does a section of which nothing is left, if the tracked file has it not.
    """
    laid = dict(config)
    for key, value in pins.items():
        tracked = config.get(key)
        if not isinstance(value, dict):  # a section that is a list: fleets
            laid[key] = value
        elif isinstance(tracked, dict | None):  # what else stands there is a mistake, and the settings say so
            kept = {name: given for name, given in ((tracked or {}) | value).items() if given is not None}
            if kept or key in config:
                laid[key] = kept
    return laid


def read(path: Path) -> dict[str, Any]:
    """Return what stands below `config` in a stack file, by the full names of its keys; nothing where there is no file.

    Raises StackFileUnreadable.
    """
    return _read(path).config or {}


def _read(path: Path) -> StackFile:
    try:
        return stack_file.read(reading.file(path) if path.exists() or path.is_symlink() else b"")
    except StackFileError as error:
        raise StackFileUnreadable("\n".join(mistake.within(path) for mistake in error.mistakes)) from None
    except (OSError, Unreadable) as error:
        raise StackFileUnreadable(str(error)) from None


def _write(path: Path, document: Mapping[str, Any]) -> None:
    write_whole(path, yaml_writer.dump(document), mode=0o644)
