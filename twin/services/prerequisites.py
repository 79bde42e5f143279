"""Refuse a machine on which a twin with pods cannot come up, before anything is built or started."""

from __future__ import annotations

from collections.abc import Callable

from spec.failure import NOT_TRIED, Failure
from twin.charts.envoy_gateway import pods as envoy_pods
from twin.host import room
from twin.host.home import TwinHome
from twin.services import release_sources
from twin.triton import tritonserver


class Lacking(Failure):
    """This machine lacks something that the twin needs; the text gives a remedy for each."""

    exit_code = NOT_TRIED


def check(home: TwinHome, *, pictures: bool = True, gateway: bool = False) -> None:
    """Raise Lacking with all that is missing: disk space, Triton, Python packages of the released models, and Envoy.

    `home` is already a twin's directory: Triton's backends are prepared in it. `pictures`: models that read pictures are
    released.
    """
    lacks = _lacks(lambda: room.check(home))
    if not lacks:  # it writes, which needs disk space
        lacks += _lacks(lambda: tritonserver.locate(home.cache))
    if pictures:
        lacks += _lacks(release_sources.check)
    if gateway:
        lacks += _lacks(envoy_pods.locate)
    if lacks:
        raise Lacking("\n".join(lacks))


def _lacks(look: Callable[[], object]) -> list[str]:
    try:
        look()
    except Failure as failure:
        return [str(failure)]
    return []
