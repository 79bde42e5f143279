"""Rules about pods: their privileges, images and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from triton_policies.findings import Finding, Violation, each, is_true, require
from triton_policies.nodes import GPU_KEY
from triton_policies.pods import KINDS, containers, namespace_of, object_name, pod_labels, pod_spec, selects
from triton_policies.policy import Policy, ResourcePolicy, Settings, StackPolicy, strings, switch
from triton_policies.reading import Property
from triton_policies.resources import Resource, Stack

NAMESPACE = "kubernetes:core/v1:Namespace"
CLUSTER_ROLE = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_TAG = re.compile(r":(?P<tag>[^:/@]+)$")
_SECRET_NAME = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN(?!S|IZ)|CREDENTIAL|ACCESS_KEY|API_?KEY|PRIVATE_KEY", re.IGNORECASE)
_REFERS = re.compile(r"_(FILE|PATH|DIR|ARN)$", re.IGNORECASE)
"""Name endings of variables that refer to a secret's place."""
_AGENT = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials")
"""The address of EKS's Pod Identity agent on every node. The agent returns credentials only for the pod's token:
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html"""
_ECR = ["*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn"]
_ENFORCE = "pod-security.kubernetes.io/enforce"


def _privileges(workload: Resource, settings: Settings) -> Iterator[Finding]:
    spec = pod_spec(workload)
    for key, what in (("hostNetwork", "network"), ("hostPID", "processes"), ("hostIPC", "shared memory")):
        yield from require(
            spec[key], lambda value: not value, f"is {{value}}: the pod sees the node's {what}", fix=f"leave {key} out"
        )
    yield from each(spec["volumes"].elements, _host_path)
    yield from each(containers(spec), lambda container: _container(container, spec))


def _host_path(volume: Property) -> Iterator[Finding]:
    if volume["hostPath"].given:
        yield Violation(volume["hostPath"].path, "is set: the pod reads and writes the node's files", fix="use an emptyDir")


def _container(container: Property, spec: Property) -> Iterator[Finding]:
    own, shared = container["securityContext"], spec["securityContext"]
    yield from require(own["privileged"], lambda value: not value, "is {value}: the pod is the node", fix="leave it out")
    yield from require(
        own["allowPrivilegeEscalation"],
        lambda value: value is False,
        "is {value}: a program in it may become root",
        fix="set it to false",
    )
    root = own["runAsNonRoot"] if own["runAsNonRoot"].given else shared["runAsNonRoot"]
    yield from require(root, is_true, "is {value}: programs run as root", fix="set it to true")
    drops = own["capabilities"]["drop"]
    yield from require(
        drops,
        lambda value: isinstance(value, list) and "ALL" in value,
        "is {value}: capabilities of root are left",
        fix="set it to [ALL]",
    )
    added = own["capabilities"]["add"]
    yield from require(
        added,
        lambda value: value in (None, [], ["NET_BIND_SERVICE"]),
        "is {value}: no workload of ours needs them",
        fix="leave it out",
    )
    profile = own["seccompProfile"] if own["seccompProfile"].given else shared["seccompProfile"]
    yield from require(
        profile["type"],
        lambda value: value in ("RuntimeDefault", "Localhost"),
        "is {value}: every system call is open",
        fix="set it to RuntimeDefault",
    )


def _resources(workload: Resource, settings: Settings) -> Iterator[Finding]:
    def check(container: Property) -> Iterator[Finding]:
        resources = container["resources"]
        for path, problem in (
            ("requests.cpu", "the scheduler counts the pod as nothing"),
            ("requests.memory", "the scheduler counts the pod as nothing"),
            ("limits.memory", "one leak ends other pods of the node"),
        ):
            at = resources.at(path)
            if not at.given:
                yield Violation(at.path, f"is not set: {problem}", fix=f"set resources.{path}")

    yield from each(containers(pod_spec(workload)), check)


def _images(workload: Resource, settings: Settings) -> Iterator[Finding]:
    def check(container: Property) -> Iterator[Finding]:
        at = container["image"]
        image = str(at.value)
        registry = image.partition("/")[0]
        if not any(fnmatchcase(registry, pattern) for pattern in settings["registries"]):
            yield Violation(
                at.path, f"is of {registry}, which is not among {', '.join(settings['registries'])}", fix="mirror it"
            )
        if _DIGEST.search(image):
            return
        tag = _TAG.search(image.partition("@")[0])
        if settings["digest"]:
            yield Violation(
                at.path, f"is {image}, without a digest: what runs may change", fix="name its digest (@sha256:…)"
            )
        elif tag is None or tag["tag"] == "latest":
            yield Violation(
                at.path, f"is {image}, without a version: what runs may change", fix="name a version or a digest"
            )

    yield from each(containers(pod_spec(workload)), check)


def _gpu(workload: Resource, settings: Settings) -> Iterator[Finding]:
    spec = pod_spec(workload)

    def check(container: Property) -> Iterator[Finding]:
        for name, wanted in container["resources"]["limits"].entries.items():
            if not name.startswith(GPU_KEY):
                continue
            requested = container["resources"]["requests"][name]
            if requested.given and str(requested.value) != str(wanted.value):
                yield Violation(
                    requested.path,
                    f"is {requested.value}, the limit {wanted.value}: Kubernetes refuses the pod",
                    fix="make them equal",
                )
            if not any(one["key"].value in (GPU_KEY, None) for one in spec["tolerations"].elements):
                yield Violation(
                    spec["tolerations"].path, f"has no {GPU_KEY}: the pod asks for a GPU and no GPU node takes it"
                )

    yield from each(containers(spec), check)


def _secrets(workload: Resource, settings: Settings) -> Iterator[Finding]:
    def check(container: Property) -> Iterator[Finding]:
        for variable in container["env"].elements:
            name, value = str(variable["name"].value), variable["value"]
            # $(NAME) refers to another variable.
            secret = _SECRET_NAME.search(name) and not _REFERS.search(name) and (name, value.value) != _AGENT
            if secret and value.given and not str(value.value).startswith("$("):
                yield Violation(variable.path, f"{name} has its value in the text: whoever may read the object knows it")

    yield from each(containers(pod_spec(workload)), check)


def _account(workload: Resource, settings: Settings) -> Iterator[Finding]:
    if object_name(workload) in settings["apiClients"]:
        return
    mounts = pod_spec(workload)["automountServiceAccountToken"]
    yield from require(mounts, lambda value: value is False, "is {value}: the pod gets a token of the Kubernetes API")


def _namespace(namespace: Resource, settings: Settings) -> Iterator[Finding]:
    level = namespace["metadata.labels"][_ENFORCE]
    name = str(namespace["metadata.name"].value)
    if level.value == "privileged" and name not in settings["privileged"]:
        yield Violation(level.path, f"is privileged; only {', '.join(settings['privileged']) or 'none'} may")
    if level.value not in ("restricted", "baseline", "privileged"):
        yield Violation(level.path, "is not set: any pod may do anything in it")


def _network_policies(stack: Stack, settings: Settings) -> Iterator[Finding]:
    policies = list(stack.of(NETWORK_POLICY))

    def check(workload: Resource) -> Iterator[Finding]:
        namespace, labels = namespace_of(workload), pod_labels(workload)
        for policy in policies:
            if namespace_of(policy) == namespace and selects(policy["spec.podSelector"], labels):
                return
        yield Violation(
            "", f"has no NetworkPolicy in {namespace}: every pod of the cluster reaches it, and it reaches all", workload
        )

    yield from each(stack.of(*KINDS), check)


def _cluster_role(role: Resource, settings: Settings) -> Iterator[Finding]:
    for rule in role["rules"].elements:
        reads = {str(verb) for verb in rule["verbs"].value or ()} & {"get", "list", "watch", "*"}
        groups = {str(group) for group in rule["apiGroups"].value or ()}
        for resource in map(str, rule["resources"].value or ()):
            if reads and groups & {"", "*"} and resource in ("secrets", "*"):
                yield Violation(rule.path, f"reads {resource} of every namespace, and so every Secret")


def _default_namespace(workload: Resource, settings: Settings) -> Iterator[Finding]:
    if namespace_of(workload) == "default":
        yield Violation("metadata.namespace", "is default: nothing bounds what is there")


POLICIES: tuple[Policy, ...] = (
    ResourcePolicy(
        id="pod-privileges",
        says="Pods have no power over their node: no host namespaces or paths, no root, no capabilities.",
        severity="high",
        controls=("CIS EKS 4.2.1", "CIS EKS 4.2.2", "CIS EKS 4.2.3", "CIS EKS 4.2.4", "CIS EKS 4.2.5"),
        fix="see the restricted level of the Pod Security Standards",
        types=KINDS,
        judge=_privileges,
    ),
    ResourcePolicy(
        id="pod-resources",
        says="Containers say what they need, and how much memory is the most.",
        severity="medium",
        controls=(),
        fix="set requests and limits",
        types=KINDS,
        judge=_resources,
    ),
    ResourcePolicy(
        id="pod-images",
        says="Images come from registries that you trust and are pinned.",
        severity="high",
        controls=("CIS EKS 5.1.4",),
        fix="pin the image",
        settings={
            "registries": strings(
                "patterns of registries that images may come from",
                _ECR,
                dev=[*_ECR, "nvcr.io"],
            ),
            "digest": switch("whether a digest is asked for, or a version is enough", True, local=False, dev=False),
        },
        types=KINDS,
        judge=_images,
    ),
    ResourcePolicy(
        id="pod-gpu-toleration",
        says="A pod that asks for a GPU can be scheduled on a GPU node.",
        severity="medium",
        controls=(),
        fix=f"tolerate {GPU_KEY}=present:NoSchedule",
        types=KINDS,
        judge=_gpu,
    ),
    ResourcePolicy(
        id="pod-no-plain-secrets",
        says="No secret stands in the text of a workload.",
        severity="critical",
        controls=("CIS EKS 4.4.1",),
        fix="read it from a mounted Secret, or take a role",
        types=KINDS,
        judge=_secrets,
    ),
    ResourcePolicy(
        id="pod-no-api-token",
        says="Pods that do not talk to the Kubernetes API have no token for it.",
        severity="medium",
        controls=("CIS EKS 4.1.5", "CIS EKS 4.1.6"),
        fix="set automountServiceAccountToken to false, or put the workload into `apiClients` of this policy",
        settings={"apiClients": strings("names of workloads that talk to the Kubernetes API", ["triton-parity"])},
        types=KINDS,
        judge=_account,
    ),
    ResourcePolicy(
        id="pod-namespace",
        says="No workload is in the namespace `default`.",
        severity="medium",
        controls=("CIS EKS 4.5.2",),
        fix="give it a namespace",
        types=KINDS,
        judge=_default_namespace,
    ),
    ResourcePolicy(
        id="namespace-pod-security",
        says="Every namespace enforces a level of the Pod Security Standards, `privileged` only where drivers are.",
        severity="medium",
        controls=("CIS EKS 4.2.1",),
        fix=f"label it {_ENFORCE}=restricted",
        settings={
            "privileged": strings("namespaces that may be privileged", ["nvidia-device-plugin", "monitoring", "logging"])
        },
        types=(NAMESPACE,),
        judge=_namespace,
    ),
    ResourcePolicy(
        id="rbac-no-cluster-secrets",
        says="No ClusterRole reads the Secrets of all namespaces.",
        severity="high",
        controls=("CIS EKS 4.1.2", "CIS EKS 4.1.3"),
        fix="use a Role in the namespace that has them",
        types=(CLUSTER_ROLE,),
        judge=_cluster_role,
    ),
    StackPolicy(
        id="pod-network-policy",
        says="Every workload is behind a NetworkPolicy.",
        severity="medium",
        controls=("CIS EKS 4.3.2", "CIS EKS 5.4.4"),
        fix="make a NetworkPolicy that selects its pods",
        judge=_network_policies,
    ),
)
