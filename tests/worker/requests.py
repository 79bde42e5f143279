"""Messages for the model `echo` of tests.system.serving.models."""

from typing import Any


def echo(number: float, **changes: Any) -> dict[str, Any]:
    """Return a request whose answer is `number` + 1."""
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [number]}
    return {"model": "echo", "inputs": [tensor], **changes}


def key(message_id: str) -> str:
    """Return the key of a message's result."""
    return f"results/echo/{message_id}.json"
