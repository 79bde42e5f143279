"""Put right what an engine leaves that was killed in the middle of an update."""

from pathlib import Path

from twin.engine.engine import PROJECT, Engine, EngineError, process_name
from twin.host import processes
from twin.host.home import TwinHome, read_json


def clear(home: TwinHome, engine: Engine, stack: str) -> None:
    """End what a killed engine of `stack` left running (plugins, the program); remove what it left half written or locked.

    Raises EngineError while a living engine holds the lock: somebody runs `pulumi` in the twin's shell.
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
    """Return the URNs of resources whose creation was begun and not recorded as done: they may or may not exist."""
    operations = engine.deployment(stack).get("pending_operations") or []
    return [operation["resource"]["urn"] for operation in operations if operation["type"] == "creating"]


def _remove_cut_off_attributes(state: Path) -> None:
    """Remove what the engine does not write in one step, unlike its state: attributes, without which it does well.

    A kill in between leaves them empty, and every later command ends with "failed to load checkpoint: EOF".
    """
    for attributes in state.rglob("*.attrs"):
        if read_json(attributes) is None:
            attributes.unlink()
