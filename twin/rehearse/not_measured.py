"""Say why nothing was asked of the stack whose state is rehearsed: what it needs that the twin has not."""

from __future__ import annotations

from twin.engine.stack_files import STACK
from twin.rehearse import serving
from twin.rehearse.serving import Server
from twin.rehearse.state import State

_MADE = (
    f"With `--from REV` too, where REV is the git revision that the stack was deployed from, a twin of `{STACK}` is "
    "changed from REV to this checkout under load, in the same run"
)


def sentence(found: State, *, alone: bool) -> str:
    """Return what stands in the place of figures about requests; `alone`: no other stack is asked either."""
    return f"no request was sent: {_why(found)}" + (f". {_MADE}" if alone else "")


def _why(found: State) -> str:
    if found.stack == STACK:
        return (
            "a state says which resources there are, and not from which models and settings they were made, without which "
            "no pod answers"
        )
    servers = serving.servers(found)
    if not servers:
        return "the state has no Deployment of Triton, so that nobody would answer"
    gpus = ", and the GPUs" if any(one.gpus for one in servers) else ""
    return f"{'; '.join(map(_told, servers))}. This machine lacks the models, which are in that account's bucket{gpus}"


def _told(server: Server) -> str:
    serves = f"release {server.release}" if server.release is not None else "what the last rollout has put into the bucket"
    return f"{server.name} serves {serves}{f' on {server.gpus} a pod' if server.gpus else ''}"
