"""The dashboards of the tested stacks, and the metrics in their queries."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from infra.platform.dashboards import Dashboard, dashboards
from tests.spec.prometheus.promql import metrics
from tests.spec.prometheus.stacks import BEHIND, SERVING, STACKS, settings

ALL = [*STACKS, SERVING, BEHIND]
BUILT_IN = {"__rate_interval": "2m"}


@cache
def boards(stack: str) -> dict[str, Dashboard]:
    return {board["title"]: board for board in dashboards(settings(stack))}


def panels(board: Dashboard) -> list[dict[str, Any]]:
    """Return the panels without headings."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(board: Dashboard) -> list[str]:
    """Return a dashboard's expressions, with a duration in place of Grafana's variables."""
    found = [target["expr"] for panel in panels(board) for target in panel["targets"]]
    return [re.sub(r"\$(\w+)", lambda match: BUILT_IN.get(match[1], match[0]), expression) for expression in found]


def read_by_dashboards() -> set[str]:
    """Return the metrics and recordings in all dashboards' queries, including queries of variables."""
    every = [query for stack in ALL for board in boards(stack).values() for query in queries(board)]
    lists = [variable["query"] for stack in ALL for board in boards(stack).values() for variable in variables(board)]
    return {name for query in [*every, *(listed_series(text) for text in lists)] for name in metrics(query)}


def variables(board: Dashboard) -> list[dict[str, Any]]:
    """Return the variables that Grafana fills from Prometheus; their `query` as text."""
    listed = [variable for variable in board["templating"]["list"] if variable["type"] == "query"]
    return [{**variable, "query": variable["query"]["query"]} for variable in listed]


def listed_series(query: str) -> str:
    match = re.fullmatch(r"label_values\((.+), \w+\)", query)
    assert match is not None, f"not a query for the values of a label: {query}"
    return match[1]
