"""Write what pages say from the code, diagrams and tables, anew: `.venv/bin/python -m docs.generate`.

What stands between `<!-- generated: NAME -->` and `<!-- end -->` is replaced. The parts of a stack come from its recorded
registrations (tests/snapshots.py), the arrows between packages from their imports.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grimp
import typer

from spec import reach
from spec.charts import CHARTS
from tests import snapshots

ROOT = Path(__file__).resolve().parents[1]
PAGES = tuple(ROOT / "docs" / name for name in ("architecture.md", "chart-registry.md", "security.md"))
STACK = "prod"
"""The stack that is drawn: the one with the most components."""

PACKAGES = ("spec", "console", "infra", "stackctl", "modelctl", "twin", "triton_policies", "worker", "bootstrap")
FOLDERS = {"triton_policies": "policies"}
"""Where a package has another name than its folder."""

_COMPONENT = re.compile(r"triton:[a-z]+:[A-Z]\w+")
_REFERENCE = re.compile(r"<([^<>\"]+?)\.[\w.\[\]]+>")
_BLOCK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Arrows = dict[str, set[str]]


@dataclass(frozen=True)
class Resource:
    """One registered resource: `key` is `name (type)`, as the snapshots have it."""

    key: str
    inputs: Mapping[str, Any]
    parent: str
    depends_on: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.key.rpartition(" (")[0]

    @property
    def type(self) -> str:
        return self.key.rpartition(" (")[2].removesuffix(")")

    @property
    def parent_type(self) -> str:
        return self.parent.rpartition(" (")[2].removesuffix(")")

    @property
    def kind(self) -> str:
        return self.type.rpartition(":")[2]


Resources = dict[str, Resource]


def generated(text: str) -> str:
    """Return a page with each generated block as the code has it now.

    Raises KeyError where the page asks for a block that there is not.
    """
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


def registered(stack: str) -> Resources:
    """Read what a stack registers."""
    return {
        key: Resource(key, entry["inputs"], entry.get("parent", ""), tuple(entry.get("dependsOn", ())))
        for key, entry in snapshots.resources(stack).items()
    }


# The arrows between packages.


def imports() -> Arrows:
    """Return which package imports which."""
    sys.path[:0] = [str(ROOT), str(ROOT / "policies")]
    try:
        graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    finally:
        del sys.path[:2]
    arrows: Arrows = {package: set() for package in PACKAGES}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            if (package := imported.partition(".")[0]) != (importer := module.partition(".")[0]):
                arrows[importer].add(package)
    return arrows


def _packages() -> str:
    arrows = imports()
    labels = [f'  {package}["{FOLDERS.get(package, package)}/"]' for package in PACKAGES]
    return _mermaid("flowchart BT", [*labels, *_lines(arrows)])


# The components of a stack.


def owners(resources: Resources) -> dict[str, str]:
    """Return of each resource the outermost component that it belongs to, by their keys."""

    def outermost(key: str) -> str:
        while (parent := resources[key].parent) in resources:
            key = parent
        return key

    return {key: outermost(key) for key in resources}


def needs(resources: Resources) -> Arrows:
    """Return which outermost component waits for which, without the arrows that follow from others."""
    owner = owners(resources)
    by_name: dict[str, set[str]] = defaultdict(set)
    for key, resource in resources.items():
        by_name[resource.name].add(owner[key])
    arrows: Arrows = {component: set() for component in owner.values()}
    for key, resource in resources.items():
        waits = {owner[dependency] for dependency in resource.depends_on if dependency in resources}
        for name in _REFERENCE.findall(json.dumps(resource.inputs)):
            waits |= by_name[name]
        arrows[owner[key]] |= waits - {owner[key]}
    return reduced(arrows)


def reduced(arrows: Arrows) -> Arrows:
    """Drop each arrow that another way leads along. The arrows must not go in circles."""

    @cache
    def reach(start: str) -> frozenset[str]:
        return frozenset(arrows.get(start, set())).union(*(reach(step) for step in arrows.get(start, set())))

    return {
        start: {end for end in ends if not any(end in reach(other) for other in ends - {end})}
        for start, ends in arrows.items()
    }


@cache
def sources() -> dict[str, str]:
    """Return the text of each module of infra/."""
    tracked = subprocess.run(["git", "ls-files", "infra/*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in tracked.stdout.split()}


@cache
def modules() -> dict[str, str]:
    """Return of each component type (`triton:platform:Keda`) the file that defines it.

    Raises ValueError where two files name one type.
    """
    found: dict[str, str] = {}
    for path, text in sources().items():
        for token in set(re.findall(rf'"({_COMPONENT.pattern})"', text)):
            if token in found:
                raise ValueError(f"{token} is named in {found[token]} and in {path}")
            found[token] = path
    return found


def _components() -> str:
    resources = registered(STACK)
    arrows = needs(resources)
    rooms: dict[str, list[str]] = defaultdict(list)
    for key in arrows:
        rooms[str(Path(modules()[resources[key].type]).parent)].append(key)
    names = {key: _identifier(resources[key].name) for key in arrows}
    lines = []
    for room, keys in sorted(rooms.items()):
        lines.append(f'  subgraph {_identifier(room)}["{room}/"]')
        lines += [
            f'    {names[key]}["{resources[key].name}<br/><small>{resources[key].kind}</small>"]' for key in sorted(keys)
        ]
        lines.append("  end")
    return _mermaid(
        "flowchart BT", [*lines, *_lines({names[key]: {names[end] for end in ends} for key, ends in arrows.items()})]
    )


def _index() -> str:
    stacks = [registered(stack) for stack in sorted(snapshots.STACKS)]
    found = {(one.type, one.name): one.parent_type for resources in stacks for one in resources.values()}
    types = {token for token, _ in found}
    # A type that only examples have, by its names there.
    examples = [one for example in snapshots.EXAMPLES for one in registered(example).values() if one.type not in types]
    found |= {(one.type, one.name): one.parent_type for one in examples}
    parents: dict[str, set[str]] = defaultdict(set)
    for (token, _), parent in found.items():
        parents[token].add(parent)
    # Of a type that several components have, like a role, the code is where it is made.
    shared = {token for token in modules() if len(parents[token]) > 1}
    names: dict[tuple[str, str], set[str]] = {
        (token, path): set() for token, path in modules().items() if token not in shared
    }
    for (token, name), parent in found.items():
        if token in shared:
            names.setdefault((token, modules().get(parent) or _made_in(token, name)), set()).add(name)
        elif token in modules():
            names[token, modules()[token]].add(name)
    table = ["| names in a preview | type | code |", "|---|---|---|"]
    for (token, path), here in sorted(names.items(), key=lambda row: (modules()[row[0][0]], row[0])):
        listed = ", ".join(f"`{name}`" for name in sorted(here))
        places = dict.fromkeys((path, modules()[token]))
        table.append(f"| {listed} | `{token}` | {'; class: '.join(f'[{place}](../{place})' for place in places)} |")
    return "\n".join(table)


def _made_in(token: str, name: str) -> str:
    """Return the module that makes the component of this name: it has the name, and calls the class.

    Raises ValueError where that is not one module.
    """
    called = re.compile(rf"\b{token.rpartition(':')[2]}\(\n")
    found = [path for path, text in sources().items() if called.search(text) and f'"{name}"' in text]
    if len(found) != 1:
        raise ValueError(f"{name}, a {token}, is made in {', '.join(found) or 'no module'}; it should be one")
    return found[0]


# Where charts come from.


def _chart_hosts() -> str:
    hosts: dict[str, list[str]] = defaultdict(list)
    for chart in CHARTS.values():
        hosts[urlsplit(chart.repository).netloc].append(f"`{chart.name}`")
    rows = [f"| `{host}` | {', '.join(sorted(charts))} |" for host, charts in sorted(hosts.items())]
    return "\n".join(["| host | charts |", "|---|---|", *rows])


# Connections.


def _connections() -> str:
    rows: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in reach.connections():
        ports = ", ".join(map(str, row.ports)) or "of its address"
        ports += "" if row.protocols == ("TCP",) else f" ({', '.join(row.protocols)})"
        purpose = row.purpose + (f"; only with `{row.when}`" if row.when else "")
        rows[row.destination, ports, purpose].append(row.source)
    table = [
        f"| {', '.join(sources)} | {destination} | {ports} | {purpose} |"
        for (destination, ports, purpose), sources in rows.items()
    ]
    return "\n".join(["| source | destination | port | purpose |", "|---|---|---|---|", *table])


def _places() -> str:
    return "\n".join(
        ["| name | meaning |", "|---|---|", *(f"| {name} | {meaning} |" for name, meaning in reach.PLACES.items())]
    )


# The way of a request.


def _request() -> str:
    resources = registered(STACK)
    lines: list[str] = []
    [gateway] = _of(resources, "Gateway")
    [load_balancer] = _of(resources, "EnvoyProxy")
    service = load_balancer.inputs["spec"]["provider"]["kubernetes"]["envoyService"]
    ports = {listener["name"]: listener["port"] for listener in gateway.inputs["spec"]["listeners"]}
    scheme = service["annotations"]["service.beta.kubernetes.io/aws-load-balancer-scheme"]
    lines += [
        '  client(["client"])',
        f'  nlb["load balancer<br/><small>{scheme} NLB, TLS ends here</small>"]',
        f'  envoy["Envoy<br/><small>{gateway.inputs["metadata"]["namespace"]}, a pod for each request</small>"]',
        f'  client -- "HTTPS {ports["http"]}, gRPC {ports["grpc"]}" --> nlb --> envoy',
    ]
    targets: dict[str, set[int]] = defaultdict(set)
    for route in [*_of(resources, "HTTPRoute"), *_of(resources, "GRPCRoute")]:
        for rule in route.inputs["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                targets[backend["name"]].add(backend["port"])
    (server,) = targets  # a Service has the name of its Deployment
    lines.append(f'  triton["Triton<br/><small>Deployment {server}</small>"]')
    for name, numbers in sorted(targets.items()):
        lines.append(f'  envoy -- "Service {name}: {", ".join(map(str, sorted(numbers)))}" --> triton')
    deployments = {resource.inputs["metadata"]["name"]: resource for resource in _of(resources, "Deployment")}
    arguments = dict(re.findall(r"^--([a-z-]+)=(.*)", "\n".join(_container(deployments[server])["args"]), re.MULTILINE))
    prefix = re.sub(r"^s3://[^/]+/|[^/]+$", "", arguments["model-repository"])
    lines += [
        '  models[("model bucket")]',
        f'  triton -- "at start: {prefix}…" --> models',
    ]
    worker = {entry["name"]: entry.get("value", "") for entry in _container(deployments["triton-worker"])["env"]}
    lines += [
        '  queue[["request queue<br/><small>SQS</small>"]]',
        '  worker["worker"]',
        '  results[("results bucket")]',
        '  client -. "requests that can wait" .-> queue -.-> worker',
        f'  worker -. "{worker["WORKER_TRITON_URL"].rpartition("/")[2].partition(".")[0]}: '
        f'{worker["WORKER_TRITON_URL"].rpartition(":")[2]}" .-> triton',
        "  worker -.-> results",
    ]
    lines += ['  prometheus["Prometheus"]', '  keda["KEDA"]']
    scraped = sorted(monitor.inputs["metadata"]["name"] for monitor in _of(resources, "PodMonitor"))
    known = {"triton": "triton", "worker": "worker", "envoy": "envoy"}
    lines += [f"  prometheus == scrapes ==> {known[name]}" for name in scraped if name in known]
    for scaled in _of(resources, "ScaledObject"):
        name = scaled.inputs["spec"]["scaleTargetRef"]["name"]
        target = "triton" if name == server else name.removeprefix("triton-")
        lines.append(f"  keda == scales ==> {target}")
        for source in sorted({trigger["type"] for trigger in scaled.inputs["spec"]["triggers"]}):
            lines.append(f"  keda == asks ==> {'prometheus' if source == 'prometheus' else 'queue'}")
    return _mermaid("flowchart TB", lines)


def _of(resources: Resources, kind: str) -> list[Resource]:
    """Return the Kubernetes objects of a kind, by name."""
    return [
        resource
        for key, resource in sorted(resources.items())
        if resource.kind == kind and resource.type.startswith("kubernetes")
    ]


def _container(deployment: Resource) -> dict[str, Any]:
    """Return the first container of a Deployment."""
    container: dict[str, Any] = deployment.inputs["spec"]["template"]["spec"]["containers"][0]
    return container


# Mermaid.


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _lines(arrows: Arrows) -> Iterator[str]:
    for start, ends in sorted(arrows.items()):
        if ends:
            yield f"  {start} --> {' & '.join(sorted(ends))}"


def _mermaid(kind: str, lines: Iterable[str]) -> str:
    return "\n".join(["```mermaid", kind, *lines, "```"])


BLOCKS: dict[str, Callable[[], str]] = {
    "packages": _packages,
    "components": _components,
    "request": _request,
    "index": _index,
    "chart-hosts": _chart_hosts,
    "connections": _connections,
    "places": _places,
}


def main() -> None:
    """Write the blocks between `<!-- generated: … -->` and `<!-- end -->` of the pages anew from the code."""
    for page in PAGES:
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
