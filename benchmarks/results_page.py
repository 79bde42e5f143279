"""Write benchmarks/RESULTS.md from the records in benchmarks/results; `make bench` ends with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks import autoscaling, canary_gate, contention, shared_gpu  # noqa: E402
from benchmarks.measurement import RESULTS, interval  # noqa: E402
from spec.files import rewrite  # noqa: E402

PAGE = REPOSITORY / "benchmarks" / "RESULTS.md"
_NONE = "There is no record yet of the protocol that the program has now."

_WAYS = {"pod": "straight to the pods", "proxy": "through a bare Envoy", "gateway": "through the gateway"}

Record = dict[str, Any]


def page(results: Path) -> str:
    """Return the page: the newest record of each kind as a table, and all records.

    For deliveries, the newest of each pace; for autoscaling, the newest of each comparison.
    """
    records = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))}
    lines = [
        "# Results",
        "",
        "From the records in `results/`. What they mean, how far they go and which `make bench` makes: "
        "[benchmarks](README.md).",
    ]
    for title, kind in (
        ("Batching", "batching"),
        ("Rollouts under load", "rollout"),
        ("Canaries", "canary gate"),
        ("From a bucket to a served release", "delivery"),
        ("Previews and updates", "engine"),
        ("Time that the gateway adds", "gateway"),
        ("Throughput through the gateway", "gateway throughput"),
        ("Faults and rollouts under load", "soak"),
        ("Models on a GPU", "gpu"),
        ("Models that share a device", "contention"),
        ("Autoscaling rules, simulated", "autoscaling"),
        ("Autoscaling of models that share GPUs, simulated", "shared-gpu"),
    ):
        lines += ["", f"## {title}"]
        shown = _newest(records, kind)
        if not shown:
            lines += ["", _NONE]
        for name in shown:
            lines += ["", f"`results/{name}`: {_made(records[name])}", "", *tables(records[name])]
    lines += ["", "## All records", "", "| record | how it was made |", "|---|---|"]
    lines += [f"| `results/{name}` | {_made(record)} |" for name, record in records.items()]
    return "\n".join(lines) + "\n"


def tables(record: Record) -> list[str]:
    """Return the page's lines for one record; empty for a report of a single tuning."""
    rows = {
        "batching": _batching,
        "rollout": _rollouts,
        "canary gate": _canaries,
        "delivery": _deliveries,
        "engine": _engine,
        "gateway": _gateway,
        "gateway throughput": _gateway_throughput,
        "soak": _soak,
        "autoscaling": _autoscaling,
        "gpu": _gpu,
        "contention": _contention,
        "shared-gpu": _shared_gpu,
    }.get(record["kind"])
    return [*rows(record)] if rows is not None else []


def _newest(records: dict[str, Record], kind: str) -> list[str]:
    by_series: dict[Any, str] = {}
    for name in sorted(records, key=lambda name: str(records[name]["started"])):
        if records[name]["kind"] == kind:
            record = records[name]
            models = tuple(comparison["model"] for comparison in record.get("comparisons", ()))
            loads = tuple((row["seconds"], row["gpus"]) for row in record.get("rows", ()) if "gpus" in row)
            by_series[record.get("megabytes_per_connection"), record.get("compared"), models, loads] = name
    return list(by_series.values())


def _made(record: Record) -> str:
    revision = record.get("revision") or record.get("versions", {}).get("revision") or "unknown"
    said = [f"{record['started'][:10]}, revision {revision}"]
    if machine := record.get("machine"):
        load = f"load average {machine['load_before']:g} before, {machine['load_after']:g} after"
        server = record.get("server") or record["versions"]["server"]
        said.append(f"server {server}, {machine['cpus']} CPUs, {load}")
    if made := record.get("conditions"):
        said.append(f"`{made['command']}` with {made['scheduling']}{', **on a busy machine**' if made['busy'] else ''}")
    elif command := record.get("command"):
        said.append(f"`{command}`")
    elif machine:
        said.append("command and priority not recorded")
    return "; ".join(said)


def _batching(record: Record) -> Iterator[str]:
    yield "| model | SLO p95 | configuration | holds, requests/s by round | tuned is (95 % interval) |"
    yield "|---|---:|---|---|---|"
    for comparison in record["comparisons"]:
        for variant in comparison["variants"]:
            held = ", ".join(f"{climb['rate']:g}" for climb in variant["climbs"])
            times = variant["times"]
            ratio = f"{times[0]:g} times that ({times[1]:g} to {times[2]:g})" if times else ""
            yield f"| `{comparison['model']}` | {comparison['slo_p95_ms']:g} ms | {variant['name']} | {held} | {ratio} |"


def _rollouts(record: Record) -> Iterator[str]:
    yield "| way | requests | answered | failed | shed | wrong version | width in ms, by round |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for way in dict.fromkeys(run["way"] for run in record["runs"]):
        runs = [run for run in record["runs"] if run["way"] == way]
        sums = [str(sum(run[key] for run in runs)) for key in ("requests", "answered", "failed", "shed", "wrong")]
        widths = ", ".join(f"{run['width_ms']:g}" for run in runs)
        yield f"| {way} | {' | '.join(sums)} | {widths} |"


def _deliveries(record: Record) -> Iterator[str]:
    pace = record["megabytes_per_connection"]
    limit = f"{pace} MB/s for each connection" if pace else "No limit for a connection"
    alone = f"{record['plain_megabytes_per_second']} MB/s to {record['connections']} of them"
    yield f"{limit}; the store alone gave {alone}. [How it was measured](delivery.md)."
    yield ""
    yield "| GiB | way | seconds | MB/s beyond the starts | CPU seconds of the reader | peak memory in MiB | sent, in GiB |"
    yield "|---:|---|---|---|---|---|---|"
    whole = [run for run in record["runs"] if not run["killed"]]

    def speeds(gib: float, way: str, seconds: str = "seconds") -> list[float]:
        starts = {run["round"]: run[seconds] for run in whole if (run["gib"], run["way"]) == (0, way)}
        runs = [run for run in whole if (run["gib"], run["way"]) == (gib, way)]
        return [gib * 1024**3 / 1e6 / (run[seconds] - starts[run["round"]]) for run in runs]

    for gib, way, killed in dict.fromkeys((run["gib"], run["way"], run["killed"]) for run in record["runs"]):
        runs = [run for run in record["runs"] if (run["gib"], run["way"], run["killed"]) == (gib, way, killed)]
        columns: tuple[list[float], ...] = (
            [run["seconds"] for run in runs],
            [round(speed) for speed in speeds(gib, way)] if gib and not killed else [],
            [run["cpu_seconds"] for run in runs],
            [run["fetch_mib"] or run["mib"] for run in runs if run["mib"] is not None],
            [round(run["sent"] / 1024**3, 2) for run in runs],
        )
        values = " | ".join(", ".join(f"{value:g}" for value in column) for column in columns)
        yield f"| {gib} | `{way}`{', killed' if killed else ''} | {values} |"
    yield ""
    plain = sorted({run["way"] for run in whole} - {"fetch", "triton"})
    for gib in dict.fromkeys(run["gib"] for run in whole if run["gib"]):
        yield _as_quick(gib, "`fetch`", "triton", speeds(gib, "fetch"), speeds(gib, "triton"), digits=1)
        for way in plain:
            by_itself = speeds(gib, "fetch", "fetch_seconds")
            yield _as_quick(gib, "`fetch` without the server", way, by_itself, speeds(gib, way), digits=2)


def _as_quick(gib: int, what: str, other: str, ours: list[float], theirs: list[float], *, digits: int) -> str:
    ratios = [log(our / their) for our, their in zip(ours, theirs, strict=True)]
    mean, low, high = (f"{exp(value):.{digits}f}" for value in interval(ratios))
    return f"Of {gib} GiB {what} is {mean} times as quick as `{other}` (95 % interval: {low} to {high})."


def _engine(record: Record) -> Iterator[str]:
    yield "CPU seconds and memory of all processes of the engine together. [How it was measured](engine.md)."
    yield ""
    bare = any(point.get("bare") for point in record["points"])
    columns = (
        "number",
        "resources",
        "CPU seconds",
        "as many empty ones",
        "times",
        *(("bare", "times") if bare else ()),
    )
    yield f"| | {' | '.join(columns)} | seconds | peak MiB | empty |"
    yield f"|---|{'---:|' * (len(columns) + 3)}"
    series: dict[str, list[Record]] = {}
    for point in record["points"]:
        series.setdefault(f"{point['action']}, {point['kind']}", []).append(point)
        own, empty = point["stack"], point["empty"]
        beside = " | ".join(
            f"{other['cpu_seconds']:g} | {own['cpu_seconds'] / other['cpu_seconds']:.2f}"
            for other in (empty, point.get("bare"))
            if other
        )
        yield (
            f"| {point['action']}, {point['kind']} | {point['number']} | {own['resources']} | {own['cpu_seconds']:g} | "
            f"{beside} | {own['seconds']:g} | {own['peak_mib']} | {empty['peak_mib']} |"
        )
    yield ""
    yield "| | each further resource, in CPU milliseconds | empty | times |"
    yield "|---|---|---|---|"
    for name, points in series.items():
        growths = [_growth([point[whose] for point in points]) for whose in ("stack", "empty")]
        own, empty = (", ".join(f"{value:.1f}" for value in growth) for growth in growths)
        times = ", ".join(f"{one / other:.2f}" for one, other in zip(*growths, strict=True))
        yield f"| {name} | {own} | {empty} | {times} |"
    yield from _parts(record["points"])


def _parts(points: list[Record]) -> Iterator[str]:
    """Yield the processor time of each engine part; nothing for earlier records, which have only the sum."""
    parts = list(dict.fromkeys(part for point in points for part in point["stack"].get("cpu_seconds_by_part", ())))
    if not parts:
        return
    yield ""
    yield f"| CPU seconds of | {' | '.join(parts)} |"
    yield f"|---|{'---:|' * len(parts)}"
    for point in points:
        for name, cost in (
            (f"{point['action']}, {point['number']} {point['kind']}", point["stack"]),
            ("as many empty ones", point["empty"]),
            ("bare", point.get("bare")),
        ):
            if cost:
                seconds = (f"{cost['cpu_seconds_by_part'].get(part, 0):g}" for part in parts)
                yield f"| {name} | {' | '.join(seconds)} |"


def _growth(costs: list[Record]) -> list[float]:
    """Return the CPU milliseconds per additional resource between consecutive costs."""
    return [
        1000 * (after["cpu_seconds"] - before["cpu_seconds"]) / (after["resources"] - before["resources"])
        for before, after in pairwise(costs)
    ]


def _canaries(record: Record) -> list[str]:
    return canary_gate.tables(canary_gate.Report.model_validate(record))


def _gateway(record: Record) -> Iterator[str]:
    load = f"{record['rate']:g} requests/s of a way for {record['seconds']:g} s in each load"
    yield f"{load}; {record['method']}. The goal is {record['goal_ms']:g} ms at p99."
    yield ""
    yield f"| protocol | | {' | '.join(f'{words}, ms by round' for words in _WAYS.values())} |"
    yield f"|---|---|{'---|' * len(_WAYS)}"
    for protocol, percentile in dict.fromkeys((added["protocol"], added["percentile"]) for added in record["added"]):
        runs = [run for run in record["runs"] if run["protocol"] == protocol]
        columns = (", ".join(f"{run[f'{percentile}_ms']:.2f}" for run in runs if run["way"] == way) for way in _WAYS)
        yield f"| {protocol} | {percentile} | {' | '.join(columns)} |"
    yield ""
    yield "| protocol | | longer | than | ms (95 % interval) |"
    yield "|---|---|---|---|---|"
    for added in record["added"]:
        which = f"{added['protocol']} | {added['percentile']} | {_WAYS[added['way']]} | {_WAYS[added['beside']]}"
        yield f"| {which} | {_with_interval(added['ms'])} |"


def _gateway_throughput(record: Record) -> Iterator[str]:
    yield (
        f"{record['in_flight']} requests open at any time, for {record['seconds']:g} s each way in each round. Envoy's time "
        "is the processor time of all Envoys of a way for each request; the ends of a 95 % interval are in brackets. "
        f"{sum(run['answered'] for run in record['runs'])} requests were answered, and "
        f"{sum(run['refused'] for run in record['runs'])} refused by a server whose queue had held them too long."
    )
    yield ""
    yield "| protocol | | requests/s by round | of straight to the pods | Envoy, ms a request |"
    yield "|---|---|---|---:|---:|"
    beside = {(one["protocol"], one["way"]): one for one in record["beside"]}
    for protocol, way in dict.fromkeys((run["protocol"], way) for run in record["runs"] for way in _WAYS):
        runs = [run for run in record["runs"] if (run["protocol"], run["way"]) == (protocol, way)]
        found = beside.get((protocol, way))
        said = [_with_interval(found["times"]), _with_interval(found["envoy_ms"])] if found is not None else ["", ""]
        rates = ", ".join(f"{run['rate']:.0f}" for run in runs)
        yield f"| {protocol} | {_WAYS[way]} | {rates} | {' | '.join(said)} |"


def _with_interval(figures: list[float]) -> str:
    mean, low, high = figures
    return f"{mean:.2f} ({low:.2f} to {high:.2f})"


def _soak(record: Record) -> Iterator[str]:
    requests = ", ".join(f"{number} {what}" for what, number in record["requests"].items())
    results = ", ".join(f"{number} {times}" for times, number in record["results"].items())
    yield f"{record['seconds']:g} s. Requests: {requests}; {record['retried']} tried again."
    yield f"Messages: {record['messages']}, {results}. [How it was made](../docs/faults.md#hours-of-it)."
    yield ""
    yield "| what | all was well again after, in seconds |"
    yield "|---|---|"
    for what in dict.fromkeys(what for _, what, _ in record["done"]):
        yield f"| {what} | {', '.join(f'{took:g}' for _, done, took in record['done'] if done == what)} |"
    yield ""
    yield "| processes, at the beginning and at the end | number | MiB | descriptors | threads |"
    yield "|---|---|---|---|---|"
    first, last = (record["looks"][end]["usage"] for end in (0, -1))
    for name in sorted(first.keys() & last.keys()):
        pairs = (f"{first[name][key]:g}, {last[name][key]:g}" for key in ("processes", "rss_mib", "descriptors", "threads"))
        yield f"| {name} | {' | '.join(pairs)} |"


def _gpu(record: Record) -> Iterator[str]:
    together = record["together"]
    golden = ", ".join(f"{name} {wrong or 'right'}" for name, wrong in together["golden"].items())
    yield f"{record['gpu']}, driver {record['driver']}, onnxruntime {record['onnxruntime']}, stack {record['stack']}."
    yield (
        f"MiB: server without models {record['server_mib']}, process before a model {record['context_mib']}, all models "
        f"together {together['used_mib']}. Golden answers: {golden}. [What it means](../docs/facts/gpu-memory.md)."
    )
    yield ""
    yield "| model | largest request | MiB loaded | MiB after it | p50, p95 of it in ms | differs from a CPU's |"
    yield "|---|---|---|---|---|---|"
    for model in record["models"]:
        shape = " x ".join(map(str, model["largest"]))
        latency = f"{model['latency']['p50_ms']:g}, {model['latency']['p95_ms']:g}"
        memory = f"{model['loaded_mib']} | {model['largest_mib']}"
        yield f"| {model['model']} | {shape} | {memory} | {latency} | {model['difference']:.1%} |"


def _autoscaling(record: Record) -> Iterator[str]:
    yield "Requests that miss the SLO, and hours of GPUs. [What is compared](autoscaling.md)."
    tables = autoscaling.Report.model_validate(record).tables
    for table in tables:
        yield from autoscaling.markdown(table)
        yield from autoscaling.goals(table)
    yield from autoscaling.goals_met(tables)


def _contention(record: Record) -> Iterator[str]:
    yield "A 95 % interval is in brackets. [What is compared](../docs/replay.md#models-on-one-gpu)."
    yield ""
    yield from contention.markdown(contention.Report.model_validate(record))


def _shared_gpu(record: Record) -> Iterator[str]:
    yield "The least and the most of the seeds; a goal that one misses is in bold. [What is compared](autoscaling.md)."
    for row in shared_gpu.Report.model_validate(record).rows:
        yield from shared_gpu.markdown(row)


def main() -> None:
    """Rewrite benchmarks/RESULTS.md from the records in benchmarks/results."""
    rewrite(PAGE, page(RESULTS).encode())
    print(f"written: {PAGE.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    typer.run(main)
