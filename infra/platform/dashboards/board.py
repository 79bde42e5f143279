"""The building blocks of Grafana dashboards, as mappings of Grafana's dashboard JSON.

Grafana itself is not involved: tests/spec/prometheus checks the format, and Grafana migrates older schema versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Dashboard = dict[str, Any]
Panel = dict[str, Any]
Variable = dict[str, Any]

SCHEMA_VERSION = 39
"""The schema of Grafana 10.3 to 11; newer versions migrate it on load."""
WINDOW = "$__rate_interval"
"""The window of every rate. Grafana makes it long enough for four scrapes at any zoom level."""
_COLUMNS, _HEIGHT = 24, 8
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """An expression and the legend of its series (`{{label}}`)."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Row:
    """A titled row of panels of equal width."""

    title: str
    panels: Sequence[Panel]


def timeseries(
    title: str, description: str, unit: str, *queries: Query, stacked: bool = False, zero_based: bool = True
) -> Panel:
    """Return a panel of values over time. `unit` is one of Grafana's, like `reqps`, `percentunit`, `µs`."""
    drawn = {
        "drawStyle": "line",
        "fillOpacity": 30 if stacked else 5,
        "lineWidth": 1,
        "showPoints": "never",
        # A pod that no longer exists appears as a gap, not as a slope.
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    limits = {"min": 0} if zero_based else {}
    return {
        **_panel("timeseries", title, description, queries),
        "fieldConfig": {"defaults": {"unit": unit, **limits, "custom": drawn}, "overrides": []},
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"], "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def number(title: str, description: str, unit: str, expression: str, *, bad_above: float | None = None) -> Panel:
    """Return a panel with one current number. It is red from `bad_above` on."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if bad_above is not None:
        steps.append({"color": "red", "value": bad_above})
    return {
        **_panel("stat", title, description, [Query(expression, "")], instant=True),
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
        },
    }


def table(title: str, description: str, expression: str, columns: Sequence[str]) -> Panel:
    """Return a panel with the labels of the current series as rows."""
    return {
        **_panel("table", title, description, [Query(expression, "")], instant=True, as_table=True),
        "fieldConfig": {"defaults": {"custom": {"align": "auto", "filterable": True}}, "overrides": []},
        "options": {"showHeader": True, "sortBy": [{"displayName": columns[0], "desc": False}]},
        "transformations": [
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True, "Value": True},
                    "indexByName": {column: index for index, column in enumerate(columns)},
                    "renameByName": {},
                },
            }
        ],
    }


def stages(title: str, description: str, by: str, parts: Mapping[str, str]) -> Panel:
    """Return a horizontal bar for each value of the label `by`. `parts` maps the parts' names to expressions in seconds."""
    queries = [Query(expression, part) for part, expression in parts.items()]
    names = {f"Value #{_ref(index)}": part for index, part in enumerate(parts)}
    return {
        **_panel("barchart", title, description, queries, instant=True, as_table=True),
        "fieldConfig": {"defaults": {"unit": "s", "min": 0, "custom": {"fillOpacity": 80, "lineWidth": 0}}, "overrides": []},
        "options": {
            "orientation": "horizontal",
            "stacking": "normal",
            "xField": by,
            "showValue": "auto",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
        "transformations": [
            {"id": "joinByField", "options": {"byField": by, "mode": "outer"}},
            # Each query adds its own time column, which the join numbers.
            {"id": "filterFieldsByName", "options": {"include": {"names": [by, *names]}}},
            {"id": "organize", "options": {"excludeByName": {}, "indexByName": {}, "renameByName": names}},
        ],
    }


def choice(name: str, label: str, query: str) -> Variable:
    """Return a variable with the values of a label; initially all of them."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"variable-{name}"},
        "refresh": 2,  # whenever the time range changes, because models change over time
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def dashboard(uid: str, title: str, description: str, rows: Sequence[Row], variables: Sequence[Variable] = ()) -> Dashboard:
    """Return the dashboard with placed and numbered panels. `uid` determines its address and links."""
    datasource: Variable = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "current": {"text": "Prometheus", "value": "prometheus"},
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["triton"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        # Changes in the browser would be lost with Grafana's pod, because these dashboards are code.
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [datasource, *variables]},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Triton",
                "tags": ["triton"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "panels": _placed(rows),
    }


def _placed(rows: Sequence[Row]) -> list[Panel]:
    placed: list[Panel] = []
    top = 0
    for row in rows:
        heading = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        placed.append({**heading, "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1}})
        top += 1
        width = _COLUMNS // len(row.panels)
        height = _HEIGHT // 2 if all(panel["type"] == "stat" for panel in row.panels) else _HEIGHT
        for index, panel in enumerate(row.panels):
            placed.append({**panel, "gridPos": {"x": index * width, "y": top, "w": width, "h": height}})
        top += height
    return [{"id": index, **panel} for index, panel in enumerate(placed, start=1)]


def _panel(
    kind: str, title: str, description: str, queries: Sequence[Query], *, instant: bool = False, as_table: bool = False
) -> Panel:
    targets = [
        {
            "refId": _ref(index),
            "datasource": _DATASOURCE,
            "expr": query.expression,
            "legendFormat": query.legend or "__auto",
            "instant": instant,
            "range": not instant,
            "format": "table" if as_table else "time_series",
        }
        for index, query in enumerate(queries)
    ]
    return {"type": kind, "title": title, "description": description, "datasource": _DATASOURCE, "targets": targets}


def _ref(index: int) -> str:
    return chr(ord("A") + index)
