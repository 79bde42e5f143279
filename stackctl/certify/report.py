"""Write the report of a run: every claim with its verdict and evidence.

The claims come from docs/proven.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from stackctl.certify.outcome import Verdict
from stackctl.certify.run import Result


def summary(results: Sequence[Result]) -> str:
    """Return the number of claims by verdict: `9 agree, 1 differ, 34 not tried`."""
    return ", ".join(f"{sum(result.outcome.verdict is verdict for result in results)} {verdict}" for verdict in Verdict)


def document(facts: Mapping[str, str], results: Sequence[Result]) -> dict[str, Any]:
    """Return the report for a program: the run's facts and its claims.

    The claims are in the order of the page.
    """
    return {
        **facts,
        "claims": [
            {
                "section": result.claim.section,
                "claim": result.claim.text,
                "verdict": result.outcome.verdict.value,
                "evidence": list(result.outcome.evidence),
            }
            for result in results
        ],
    }


def markdown(facts: Mapping[str, str], results: Sequence[Result]) -> str:
    """Return the report as a page: the facts, then a table for each section."""
    lines = [f"# What an account showed: {summary(results)}", "", *(f"* {name}: {value}" for name, value in facts.items())]
    for section, found in groupby(results, key=lambda result: result.claim.section):
        lines += ["", f"## {section}", "", "| claim | verdict | evidence |", "|---|---|---|"]
        lines += [
            f"| {result.claim.text} | {_bold(result.outcome.verdict)} | {'<br>'.join(map(_cell, result.outcome.evidence))} |"
            for result in found
        ]
    return "\n".join(lines) + "\n"


def _bold(verdict: Verdict) -> str:
    return f"**{verdict}**" if verdict is Verdict.DIFFER else str(verdict)


def _cell(evidence: str) -> str:
    return " ".join(evidence.split()).replace("|", "\\|")
