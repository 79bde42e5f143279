"""Compares the table of connections (spec/reach.py) with one stack's registrations. Each check returns its findings."""

from __future__ import annotations

import ipaddress
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from spec.charts import CHARTS
from spec.names import INFERENCE_CLIENT_LABEL, TRITON_NAMESPACE
from spec.reach import (
    ALL_PODS,
    API_SERVER,
    AWS,
    AWS_CALLS,
    CLIENT_PODS,
    ENDPOINTS,
    HTTPS,
    INTERNET,
    LUSTRE,
    METADATA,
    NAME_LABEL,
    NODES,
    PEOPLE,
    POD_IDENTITY_ADDRESS,
    PODS,
    RESOLVER,
    ROLE_PODS,
    RUNNER,
    VPC,
    Connection,
    Pods,
    connections,
)
from spec.settings import Settings
from spec.settings.blue_green import SLOTS, helm_release
from tests.pod_requests import WORKLOADS
from tests.system.component.engine.recording import Recording, Registration
from tests.system.component.network_policies import MOST_PORTS, NetworkPolicies, Peer, selects

Object = Mapping[str, Any]
Edge = tuple[str, str, int, str]
"""Names of source and destination, port, protocol."""

ROWS = tuple(connections())
STRANGER, OUTSIDE = "any other pod", "203.0.113.9"
MANAGED_POLICIES: Mapping[str, tuple[str, ...]] = {
    "AmazonEKS_CNI_Policy": ("ec2",),
    "AmazonEBSCSIDriverPolicy": ("ec2",),
    "AmazonEBSCSIDriverEKSClusterScopedPolicy": ("ec2",),
    "AmazonEKSWorkerNodePolicy": ("ec2", "eks", "eks-auth"),
    "AmazonEC2ContainerRegistryPullOnly": ("ecr",),
    "AmazonSSMManagedInstanceCore": ("ssm", "ssmmessages"),
}
"""The services that AWS's policies of these names cover; `ec2messages` is retired."""
ENDPOINT_NAMES = {"ecr": "ecr.api", "aps": "aps-workspaces"}
"""IAM's prefix of a service -> the name of its endpoint, if they differ."""
_URL = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.cluster\.local)?:(\d+)")


class World:
    """The objects, pods, policies, roles and security groups of one registered stack."""

    def __init__(self, recording: Recording, settings: Settings) -> None:
        self.recording, self.settings = recording, settings
        self.objects: list[Object] = [
            {"kind": item.type.rpartition(":")[2], **(item.checked or item.inputs)}
            for item in recording.registrations
            if item.type.startswith("kubernetes:")
        ]

    def kind(self, *kinds: str) -> list[Object]:
        return [item for item in self.objects if item["kind"] in kinds]

    def aws(self, *types: str) -> list[Registration]:
        return self.recording.of_type(*types)

    @cached_property
    def parts(self) -> set[str]:
        """Return the charts and add-ons."""
        charts = {item["name"] for item in self.kind("Release")}
        return charts | {item.inputs["addonName"] for item in self.aws("aws:eks/addon:Addon")}

    @cached_property
    def peers(self) -> dict[str, list[Peer]]:
        """Return the pods of each workload of the stack, for our workloads with the labels of the registered template."""
        found: dict[str, list[Peer]] = {}
        for number, (name, pods) in enumerate(PODS.items(), start=10):
            address = f"{self.settings.network.cidr.network_address + number}"
            if pods.part:
                labels = [pods.labels] if pods.part in self.parts else []
                found[name] = [Peer(address, pods.namespace, one) for one in labels]
            else:
                found[name] = [_peer(address, one) for one in self.kind(*WORKLOADS) if _is_of(one, pods)]
        return {name: peers for name, peers in found.items() if peers}

    @cached_property
    def namespaces(self) -> dict[str, Mapping[str, str]]:
        return {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in self.kind("Namespace")}

    @cached_property
    def policies(self) -> NetworkPolicies:
        return NetworkPolicies(self.kind("NetworkPolicy"), self.namespaces)

    @cached_property
    def roles(self) -> dict[str, str]:
        """Return the pods with an IAM role, by name: `irsa` or `pod-identity`."""
        trusts = [json.loads(item.checked["assumeRolePolicy"]) for item in self.aws("aws:iam/role:Role")]
        return {
            source: way
            for trust in trusts
            for statement in trust["Statement"]
            for source, way in self.trusted(statement)
            if source in PODS
        }

    def trusted(self, statement: Object) -> Iterator[tuple[str, str]]:
        """Yield the source in the table that may assume a role, and the method."""
        accounts = {(pods.namespace, pods.account): name for name, pods in PODS.items() if pods.account}
        accounts |= {(TRITON_NAMESPACE, helm_release(slot)): "Triton" for slot in SLOTS}  # one slot may have no pods
        for item in self.kind(*WORKLOADS):
            account = item["spec"]["template"]["spec"].get("serviceAccountName")
            accounts[item["metadata"].get("namespace"), account] = _name_of(item)
        text = json.dumps(statement)
        takers = [(*one, "irsa") for one in re.findall(r"system:serviceaccount:([\w-]+):([\w-]+)", text)]
        tags = statement.get("Condition", {}).get("StringEquals", {})
        if "aws:RequestTag/kubernetes-service-account" in tags:
            named = [tags[f"aws:RequestTag/kubernetes-{one}"] for one in ("namespace", "service-account")]
            takers.append((*named, "pod-identity"))
        for namespace, account, way in takers:
            yield accounts.get((namespace, account), f"{namespace}/{account}"), way
        if '"ec2.amazonaws.com' in text:
            yield NODES, "instance"

    def resolve(self, name: str, row: Connection) -> Iterator[tuple[str, Peer]]:
        """Yield the peers for a name in the table, if NetworkPolicies can distinguish them."""
        first = self.settings.network.cidr.network_address
        if name == ALL_PODS:
            yield from ((one, peer) for one, peers in self.peers.items() if one != "warm pod" for peer in peers)
        elif name == ROLE_PODS:
            way = "pod-identity" if row.destination in PODS else "irsa"
            yield from ((one, peer) for one, how in self.roles.items() if how == way for peer in self.peers.get(one, ()))
        elif name == "Pod Identity agent":
            yield name, Peer(POD_IDENTITY_ADDRESS)
        elif name in PODS:
            yield from ((name, peer) for peer in self.peers.get(name, ()))
        elif name == CLIENT_PODS:
            clients = [one for one, labels in self.namespaces.items() if labels.get(INFERENCE_CLIENT_LABEL) == "true"]
            yield from ((CLIENT_PODS, Peer(f"{first + 5}", one)) for one in clients)
        elif name == INTERNET or name.startswith(AWS):
            yield INTERNET, Peer(OUTSIDE)
        elif name in (API_SERVER, NODES, RESOLVER, LUSTRE):
            yield name, Peer(f"{first + 2}")

    def active(self, row: Connection) -> bool:
        """Return whether the stack sets the key that the row depends on."""
        found: Any = self.settings
        for step in filter(None, row.when.split(".")):
            found = getattr(found, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", step).lower(), None)
        return bool(found)

    @cached_property
    def required(self) -> dict[Edge, list[tuple[Peer, Peer]]]:
        """Return the connections that the stack has to allow, with their ends; a workload may appear several times."""
        found: dict[Edge, list[tuple[Peer, Peer]]] = {}
        for row in filter(self.active, ROWS):
            ends = itertools.product(self.resolve(row.source, row), self.resolve(row.destination, row))
            for ((source, here), (destination, there)), port, protocol in itertools.product(ends, row.ports, row.protocols):
                found.setdefault((source, destination, port, protocol), []).append((here, there))
        return found


def blocked(world: World) -> list[str]:
    """Return the required connections that a NetworkPolicy forbids."""
    return [
        _words(edge)
        for edge, ends in world.required.items()
        if not all(world.policies.allow(*both, *edge[2:]) for both in ends)
    ]


def needless(world: World) -> list[str]:
    """Return the allowed connections from or to an isolated pod that have no row.

    For pods without a policy only the ports of the table count, because no program listens on other ports. Callers of AWS
    may open port 443 of every address, including the API server's, because AWS has no fixed addresses.
    """
    first = world.settings.network.cidr.network_address
    ends = [(name, peer) for name, peers in world.peers.items() for peer in peers]
    ends += [(STRANGER, Peer(f"{first + 6}", one, {NAME_LABEL: "x"})) for one in ("somewhere", "triton", "monitoring")]
    ends += [
        (INTERNET, Peer(OUTSIDE)),
        (METADATA, Peer("169.254.169.254")),
        ("Pod Identity agent", Peer(POD_IDENTITY_ADDRESS)),
    ]
    ends += [end for name in (CLIENT_PODS, NODES, API_SERVER) for end in world.resolve(name, ROWS[0])]
    clients = {peer.namespace for _, peer in world.resolve(CLIENT_PODS, ROWS[0])}
    named = {entry["port"] for policy in world.kind("NetworkPolicy") for entry in _entries(policy)}
    outside = {NODES: {22, 10250, *named} - {HTTPS}, API_SERVER: {HTTPS}, INTERNET: {22, 53, 80, HTTPS, *named}}
    found: dict[str, None] = {}
    for (source, here), (destination, there) in itertools.permutations(ends, 2):
        if not (world.policies.isolated(here, "Egress") or world.policies.isolated(there, "Ingress")):
            continue
        listened = {port for row in ROWS if row.destination == destination for port in row.ports}
        if world.policies.isolated(there, "Ingress"):
            listened |= named
        elif there.namespace is None:
            listened = outside.get(destination, {80})
        for port, protocol in itertools.product(sorted(listened), ("TCP", "UDP")):
            edges = [(source, destination, port, protocol)]
            edges += [(CLIENT_PODS, destination, port, protocol)] if here.namespace in clients else []
            edges += [(source, INTERNET, port, protocol)] if destination == API_SERVER else []
            # A policy cannot distinguish the API server's interfaces from other addresses of the VPC.
            edges += [(API_SERVER, destination, port, protocol)] if _is_in_vpc(here, world) else []
            if not any(edge in world.required for edge in edges) and world.policies.allow(here, there, port, protocol):
                found[_words(edges[0])] = None
    return list(found)


def unguarded(world: World) -> list[str]:
    """Return the workloads in the program's namespaces that no policy isolates. Clients of a load balancer reach Envoy."""
    return [
        name
        for name, peers in world.peers.items()
        if name != "Envoy" and any(one.namespace in world.namespaces for one in peers)
        if not all(world.policies.isolated(one, "Ingress") for one in peers)
    ]


def _is_in_vpc(peer: Peer, world: World) -> bool:
    return ipaddress.ip_address(peer.address) in ipaddress.ip_network(str(world.settings.network.cidr))


def beyond_limits(world: World) -> list[str]:
    """Return rules that AWS's policy engine does not enforce as written.

    It stores 24 ports for one address, over all policies of a pod. It decides egress before it replaces a Service's address
    by a pod's. So a Service that an isolated pod calls has to have the container's port.
    """
    found = []
    for name, peers in world.peers.items():
        for pod in peers:
            for other in (one for each in world.peers.values() for one in each):
                for direction in ("Ingress", "Egress"):
                    count = world.policies.entries(pod, other, direction)
                    if count > MOST_PORTS:
                        found.append(f"{name}: {count} ports in {direction} for one address; AWS enforces {MOST_PORTS}")
    for (source, destination, port, _), ends in world.required.items():
        for service, (here, there) in itertools.product(world.kind("Service"), ends):
            spec = service["spec"]
            passed = there.namespace == service["metadata"]["namespace"] and spec.get("clusterIP") != "None"
            if not passed or not world.policies.isolated(here, "Egress"):
                continue
            for one in spec["ports"] if selects({"matchLabels": spec["selector"]}, there.labels) else ():
                target = there.ports.get(str(one["targetPort"]), one["targetPort"])
                if target == port and one["port"] != port:
                    found.append(f"{source} → {destination}: the Service has port {one['port']}, the container {port}")
    return found


def unlisted(objects: list[Object], rows: tuple[Connection, ...] = ROWS) -> list[str]:
    """Return the ports without a row: of containers, probes, Services, webhooks and aggregated APIs."""
    listed = {(row.destination, port) for row in rows for port in row.ports}
    from_api = {(row.destination, port) for row in rows if row.source == API_SERVER for port in row.ports}
    found: list[str] = []
    ports: dict[str, dict[str, int]] = {}
    for item in objects:
        if item["kind"] not in WORKLOADS:
            continue
        name, pod = _name_of(item), item["spec"]["template"]["spec"]
        for container in pod["containers"]:
            numbers = {one.get("name"): one["containerPort"] for one in container.get("ports") or ()}
            ports[name] = ports.get(name, {}) | numbers
            probed = [
                asked["port"]
                for key in ("startupProbe", "readinessProbe", "livenessProbe")
                for asked in (container.get(key) or {}).values()
                if isinstance(asked, Mapping) and "port" in asked
            ]
            opened = [*numbers.values(), *(numbers.get(port, port) for port in probed)]
            found += [f"{name}: port {port}" for port in opened if (name, port) not in listed]
    services = {item["metadata"]["name"]: item for item in objects if item["kind"] == "Service"}
    targets = {}
    for service in services.values():
        name = _named(service["metadata"].get("namespace", ""), service["spec"].get("selector") or {})
        for port in service["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            number = ports.get(name, {}).get(target, target)
            targets[service["metadata"]["name"]] = (name, number)
            if (name, number) not in listed:
                found.append(f"{service['metadata']['name']}: leads to port {number} of {name}")
    asked = [
        (item["metadata"]["name"], hook["clientConfig"].get("service"))
        for item in objects
        if item["kind"].endswith("WebhookConfiguration")
        for hook in item.get("webhooks") or ()
    ]
    asked += [(item["metadata"]["name"], item["spec"].get("service")) for item in objects if item["kind"] == "APIService"]
    found += [
        f"{name}: no row from the API server" for name, one in asked if one and targets.get(one["name"]) not in from_api
    ]
    return sorted(set(found))


def unscraped(world: World) -> list[str]:
    """Return monitors without a row of Prometheus: PodMonitors, and charts whose values enable a ServiceMonitor."""
    scraped = {row.destination for row in ROWS if row.source == "Prometheus"}
    found = []
    for item in world.kind("PodMonitor"):
        (namespace,) = item["spec"]["namespaceSelector"]["matchNames"]
        if _named(namespace, item["spec"]["selector"]["matchLabels"]) not in scraped:
            found.append(f"PodMonitor {item['metadata']['name']}")
    parts = {PODS[name].part for name in scraped if name in PODS}
    monitored = [
        item["name"] for item in world.kind("Release") if '"serviceMonitor": {"enabled": true' in json.dumps(item["values"])
    ]
    return found + [f"chart {name}" for name in monitored if name not in parts]


def unnamed(world: World) -> list[str]:
    """Return charts and add-ons whose pods are missing from the table, and addresses in objects without a row."""
    known = {pods.part for pods in PODS.values()}
    found = [part for part in world.parts if part not in known and (part not in CHARTS or CHARTS[part].pods)]
    led = {(PODS[row.destination].namespace, port) for row in ROWS if row.destination in PODS for port in row.ports}
    for item in world.objects:
        for service, namespace, port in _URL.findall(json.dumps(item, default=str)):
            if (namespace, int(port)) not in led:
                found.append(f"{item['kind']}: {service}.{namespace}:{port}")
    return sorted(set(found))


def unlisted_calls(world: World) -> list[str]:
    """Return the AWS services that roles of pods and nodes have permissions for, without a row."""
    owners: dict[str, set[str]] = {}
    for item in world.aws("aws:iam/role:Role"):
        trust = json.loads(item.checked["assumeRolePolicy"])
        owners[item.outputs.get("name") or item.checked["name"]] = {
            source for statement in trust["Statement"] for source, _ in world.trusted(statement)
        }
    found = []
    for item in world.aws("aws:iam/rolePolicy:RolePolicy", "aws:iam/rolePolicyAttachment:RolePolicyAttachment"):
        for source in sorted(owners.get(str(item.checked["role"]), ())):
            # The node's agent gets the credentials of pods with Pod Identity.
            known = {*AWS_CALLS.get(source, ()), "sts", *(("eks-auth",) if source == NODES else ())}
            found += [f"{source}: {service} ({item.name})" for service in _services(item) if service not in known]
    return sorted(set(found))


def without_endpoint(world: World) -> list[str]:
    """Return the services that programs in a VPC without NAT call and that have no endpoint there."""
    if world.aws("aws:ec2/natGateway:NatGateway"):
        return []
    callers = {NODES, *world.peers}
    called = {service for source in callers for service in AWS_CALLS.get(source, ())}
    called |= {"sts"} if "irsa" in world.roles.values() else set()
    return sorted(called - {_service(item) for item in world.aws("aws:ec2/vpcEndpoint:VpcEndpoint")})


def groups(world: World) -> tuple[list[str], list[str]]:
    """Return the connections that security groups block, and our rules that are in no row.

    EKS's group, which nodes, pods and control plane share, allows traffic within the group and all egress.
    """
    own = {item.id: item.name for item in world.aws("aws:ec2/securityGroup:SecurityGroup")}
    open_rules = {
        edge: item.name
        for item in world.aws(
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
            "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        )
        for edge in _rule_edges(item, own, world.settings)
    }
    access = world.settings.cluster.api_access
    required: set[tuple[str, str, int]] = set()
    if any(name.endswith("endpoints-security-group") for name in own.values()):
        required.add((VPC, ENDPOINTS, HTTPS))
    if access is not None and (access.cidrs or access.security_groups):
        required.add((PEOPLE, API_SERVER, HTTPS))
    if access is not None and access.runner is not None:
        required |= {(RUNNER, API_SERVER, HTTPS), (RUNNER, INTERNET, HTTPS)}
    rows = {(row.source, row.destination, port) for row in ROWS for port in row.ports}
    assert required <= rows
    missing = [f"{source} → {destination}: {port}" for source, destination, port in sorted(required - open_rules.keys())]
    for item in world.aws("aws:ec2/launchTemplate:LaunchTemplate"):
        if item.checked.get("vpcSecurityGroupIds") or item.checked.get("networkInterfaces"):
            missing.append(f"{item.name}: its nodes are not in the group that EKS makes")
    extra = [f"{name}: {edge[0]} → {edge[1]}: {edge[2]}" for edge, name in open_rules.items() if edge not in rows]
    return missing, extra


def _rule_edges(item: Registration, own: Mapping[str, str], settings: Settings) -> Iterator[tuple[str, str, int]]:
    given = item.checked
    place = _place(own.get(given["securityGroupId"], ""))
    if "referencedSecurityGroupId" in given:
        peer = _place(own.get(given["referencedSecurityGroupId"], ""))
        if peer == API_SERVER and place == API_SERVER:
            peer = PEOPLE  # another owner's group, from the stack file
    else:
        cidr, access = str(given["cidrIpv4"]), settings.cluster.api_access
        named = {str(one) for one in access.cidrs} if access is not None else set()
        if place == API_SERVER:
            peer = PEOPLE if cidr in named else cidr
        else:
            peer = {str(settings.network.cidr): VPC, "0.0.0.0/0": INTERNET}.get(cidr, cidr)
    into = "Ingress" in item.type
    for port in range(given["fromPort"], given["toPort"] + 1):
        yield (peer, place, port) if into else (place, peer, port)


def _place(group: str) -> str:
    if group.startswith("runner"):
        return RUNNER
    return ENDPOINTS if group.endswith("endpoints-security-group") else LUSTRE if group else API_SERVER


def _services(item: Registration) -> Iterator[str]:
    """Yield the AWS services that a policy covers, except keys that another service uses."""
    if "policyArn" in item.checked:
        yield from (ENDPOINT_NAMES.get(one, one) for one in MANAGED_POLICIES[item.checked["policyArn"].rpartition("/")[2]])
        return
    for statement in json.loads(item.checked["policy"])["Statement"]:
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            service = action.partition(":")[0]
            if service != "kms" or "kms:ViaService" not in json.dumps(statement):
                yield ENDPOINT_NAMES.get(service, service)


def _service(endpoint: Registration) -> str:
    return str(endpoint.checked["serviceName"]).partition("com.amazonaws.")[2].partition(".")[2]


def _peer(address: str, workload: Object) -> Peer:
    template = workload["spec"]["template"]
    ports = {
        one["name"]: one["containerPort"]
        for container in template["spec"]["containers"]
        for one in container.get("ports") or ()
        if "name" in one
    }
    return Peer(address, workload["metadata"]["namespace"], template["metadata"]["labels"], ports)


def _is_of(workload: Object, pods: Pods) -> bool:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    return workload["metadata"].get("namespace") == pods.namespace and pods.labels.items() <= labels.items()


def _name_of(workload: Object) -> str:
    return _named(workload["metadata"].get("namespace", ""), workload["spec"]["template"]["metadata"]["labels"])


def _named(namespace: str, labels: Mapping[str, str]) -> str:
    """Return the table's name of pods, by their distinguishing label; "" if there is none."""
    for name, pods in PODS.items():
        if pods.namespace == namespace and pods.labels.items() <= labels.items():
            return name
    return ""


def _entries(policy: Object) -> Iterator[Object]:
    for rule in [*(policy["spec"].get("ingress") or ()), *(policy["spec"].get("egress") or ())]:
        yield from rule.get("ports") or ()


def _words(edge: Edge) -> str:
    source, destination, port, protocol = edge
    return f"{source} → {destination}: {port}/{protocol}"
