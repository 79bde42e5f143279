"""The stack files that the twin gives to the engine: the tracked ones, plus the twin's own settings.

`stacks/Pulumi.<stack>.yaml` is tracked by git and never changed. The twin's additions (the address of its S3, the last
release of `make up`) are in `TWIN_HOME/pins/Pulumi.<stack>.yaml`, in the form of a stack file. Between the two come
`gateway.yaml`, `autoscaling.yaml` and `karpenter.yaml` next to this module, if `make up GATEWAY=1 AUTOSCALING=1 KARPENTER=1`
requested them. The engine reads the merged file in `TWIN_HOME/project/stacks/`, where it also keeps the salt of the stack's
secrets.
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
"""The changes of a twin with a gateway to the same stack, applied before AUTOSCALING_FILE."""
KARPENTER_FILE = Path(__file__).with_name("karpenter.yaml")
"""The changes of a twin whose nodes Karpenter starts, applied after AUTOSCALING_FILE."""
_SECRETS_KEYS = ("secretsprovider", "encryptedkey", "encryptionsalt")
"""The keys of `pulumi stack init`. A tracked file's own (AWS KMS) are left out, because the twin has no such KMS."""


class StackFileUnreadable(Failure):
    """The file is not YAML, or not a stack file; the text says where and why."""

    exit_code = NOT_TRIED


def tracked_file(stack: str, program: Path = REPOSITORY) -> Path:
    """Return the stack file of `stack` in the checkout `program`."""
    return program / "stacks" / f"Pulumi.{stack}.yaml"


def pins_file(home: TwinHome, stack: str) -> Path:
    """Return the file with this twin's additions to `stack`; it may not exist."""
    return home.path / "pins" / f"Pulumi.{stack}.yaml"


def sections(stack: str, program: Path = REPOSITORY) -> frozenset[str]:
    """Return the keys below `config` of the tracked file, e.g. `triton-eks:models`."""
    return frozenset(read(tracked_file(stack, program)))


def pin(home: TwinHome, stack: str, key: str, value: Any) -> bool:
    """Set the dotted `key` (below `config`, e.g. `triton-eks:models.s3Endpoint`) for this twin; return whether it changed.

    None removes the value of the tracked file.
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
    """Turn AUTOSCALING_FILE on or off for this twin's stack; on means that it changes the tracked file.

    If this changes, the pinned release is removed, because its configs were made for other model requirements.
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
    """Return whether the last `make up` requested autoscaling."""
    return _mark(home, AUTOSCALING_FILE).exists()


def ask_for_gateway(home: TwinHome, wanted: bool) -> None:
    """Turn GATEWAY_FILE on or off for this twin's stack; on means that it changes the tracked file."""
    _ask_for(home, GATEWAY_FILE, wanted)


def ask_for_karpenter(home: TwinHome, wanted: bool) -> None:
    """Turn KARPENTER_FILE on or off for this twin's stack; on means that it changes the tracked file."""
    _ask_for(home, KARPENTER_FILE, wanted)


def _ask_for(home: TwinHome, changes: Path, wanted: bool) -> None:
    mark = _mark(home, changes)
    if wanted:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    else:
        mark.unlink(missing_ok=True)


def gateway(home: TwinHome) -> bool:
    """Return whether the last `make up` requested a gateway."""
    return _mark(home, GATEWAY_FILE).exists()


def pinned_release(home: TwinHome, stack: str) -> dict[str, Any] | None:
    """Return this twin's release in `stack` (`id`, `bytes`, `models`); None before the first one of `make up`."""
    models = read(pins_file(home, stack)).get("triton-eks:models") or {}
    return models.get("release")


def config(home: TwinHome, stack: str, program: Path = REPOSITORY) -> dict[str, Any]:
    """Return the section `config` of the file that the engine reads for `stack`."""
    tracked = read(tracked_file(stack, program))
    if stack == STACK:
        for changes in (GATEWAY_FILE, AUTOSCALING_FILE, KARPENTER_FILE):
            if _mark(home, changes).exists():
                tracked = _merge_patch(tracked, read(changes))
    return _lay_over(tracked, read(pins_file(home, stack)))


def fleets(home: TwinHome, stack: str, program: Path = REPOSITORY) -> tuple[Fleet[Settings], ...]:
    """Return the fleets of Triton in the file that the engine reads. Raises SettingsError."""
    return load(config(home, stack, program), stack).each_fleet


def write_merged(home: TwinHome, stack: str, program: Path = REPOSITORY) -> Path:
    """Write the file that the engine reads for `stack`, with the project file next to it, and return its path."""
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
    """Return the file that exists if the last `make up` requested these changes."""
    return pins_file(home, STACK).with_name(changes.stem)


def _merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch by RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    below = target if isinstance(target, dict) else {}
    merged = {key: _merge_patch(below.get(key), value) for key, value in patch.items() if value is not None}
    return {**{key: value for key, value in below.items() if key not in patch}, **merged}


def _lay_over(config: dict[str, Any], pins: dict[str, Any]) -> dict[str, Any]:
    """Return `config` with the properties of `pins`.

    Each is replaced as a whole, so a new release keeps no model of the old one. A property whose pin is None is removed. A
    section that is then empty is removed too, unless the tracked file has it.
    """
    laid = dict(config)
    for key, value in pins.items():
        tracked = config.get(key)
        if not isinstance(value, dict):  # a section that is a list: fleets
            laid[key] = value
        elif isinstance(tracked, dict | None):  # any other value is a mistake that the settings report
            kept = {name: given for name, given in ((tracked or {}) | value).items() if given is not None}
            if kept or key in config:
                laid[key] = kept
    return laid


def read(path: Path) -> dict[str, Any]:
    """Return the section `config` of a stack file, by the full names of its keys; empty without a file.

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
