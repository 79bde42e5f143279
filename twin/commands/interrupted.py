"""Clean up after an engine that was killed during an update."""

from pathlib import Path

from twin.engine.engine import PROJECT, Engine, EngineError, process_name
from twin.host import processes
from twin.host.home import TwinHome, read_json


def clear(home: TwinHome, engine: Engine, stack: str) -> None:
    """Stop leftover processes of a killed engine of `stack` (plugins, the program); remove its partial files and locks.

    Raises EngineError while a running engine holds the lock, for example `pulumi` in the twin's shell.
    """
    state, name = home.path / "state" / ".pulumi", process_name(stack)
    locks = sorted((state / "locks" / "organization" / PROJECT / stack).glob("*.json"))
    for lock in locks:
        pid = int((read_json(lock) or {}).get("pid", 0))
        if pid in processes.marked(home, name):
            raise EngineError(f"`pulumi` (process {pid}) is working on the stack {stack}; run this again when it is done")
    processes.end_marked(home, name)
    _remove_cut_off_attributes(state)
    if locks:
        engine.read(stack, ["cancel", "--yes"])


def creations_in_doubt(engine: Engine, stack: str) -> list[str]:
    """Return the URNs of resources whose creation began and was not recorded as done; they may or may not exist."""
    operations = engine.deployment(stack).get("pending_operations") or []
    return [operation["resource"]["urn"] for operation in operations if operation["type"] == "creating"]


def _remove_cut_off_attributes(state: Path) -> None:
    """Delete truncated attribute files, which the engine does not write atomically, unlike its state, and does not need.

    A kill while they are written leaves them empty. Every later command then fails with "failed to load checkpoint: EOF".
    """
    for attributes in state.rglob("*.attrs"):
        if read_json(attributes) is None:
            attributes.unlink()
