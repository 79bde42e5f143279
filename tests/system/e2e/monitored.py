"""A twin with monitoring, and queries to its Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from tests.system.e2e.conftest import Twin
from twin.host import processes

T = TypeVar("T")


class Monitored(Twin):
    """A twin whose `local` stack has monitoring: its command line and its measurements."""

    @property
    def url(self) -> str:
        """Return the URL of its Prometheus, after Prometheus answers."""
        (url,) = self.until(lambda: self.servers().prometheus_urls(), "Prometheus to be ready", 60)
        return str(url)

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of a response of Prometheus's API."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=10)
        return answer.raise_for_status().json()["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the elements of an instant query."""
        result: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return result

    def blank(self, board: dict[str, Any]) -> set[str]:
        """Return the titles of a dashboard's panels without data in Prometheus. Raises if it refuses a query."""
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        data = [
            (panel["title"], [self.query(_filled_in(target["expr"])) for target in panel["targets"]]) for panel in panels
        ]
        return {title for title, answers in data if not any(answers)}

    def targets(self, pool: str) -> list[dict[str, Any]]:
        """Return the targets that Prometheus scrapes for one monitor."""
        return [target for target in self.ask("targets", state="active")["activeTargets"] if target["scrapePool"] == pool]

    def kubectl(self, command: str) -> str:
        """Run `kubectl <command>`, which must succeed, and return its output."""
        done = self.shell(f"kubectl {command}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def until(self, condition: Callable[[], T | None], what: str, seconds: float = 120) -> T:
        """Return the first true value. Prometheus may be unavailable meanwhile."""

        def answered() -> T | None:
            try:
                return condition()
            except httpx.TransportError:
                return None
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:  # it listens before it is ready
                    raise
                return None

        return processes.wait_until(answered, what, seconds, poll=0.5)  # type: ignore[return-value]


def _filled_in(expression: str) -> str:
    """Return a panel's query with the variables that Grafana would fill in: every model, and a rate over four scrapes."""
    return expression.replace("$model", ".*").replace("$__rate_interval", "1m")
