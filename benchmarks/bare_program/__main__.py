"""Register the resources of a file, one after the other: what they cost Pulumi, its SDK and the plugins by themselves."""

import contextlib
import gc
import importlib
import json
import os
from pathlib import Path

import pulumi
import pulumi_eks

KUBECONFIG = Path(os.environ["KUBECONFIG"]).read_text()


def load_class(kind: str) -> None:
    """Load the class of a type, as any program with such a resource does. The packages load theirs at the first use."""
    package, module, name = kind.split(":")
    group, *version = module.split("/")
    parts = [f"pulumi_{package}", group.split(".")[0], *(version if package == "kubernetes" else [])]
    with contextlib.suppress(ModuleNotFoundError, AttributeError):  # kinds that a chart brings have none
        getattr(importlib.import_module(".".join(parts)), name)


def options(state: dict, made: dict[str, pulumi.Resource]) -> pulumi.ResourceOptions:
    """Return what the resource had: parent, provider, and the resources that it waits for."""
    provider = made.get(state.get("provider", "").rpartition("::")[0])
    return pulumi.ResourceOptions(
        parent=made.get(state.get("parent", "")),
        provider=provider if isinstance(provider, pulumi.ProviderResource) else None,
        depends_on=[made[urn] for urn in state.get("dependencies", ()) if isinstance(made.get(urn), pulumi.CustomResource)],
        protect=state.get("protect"),
        retain_on_delete=state.get("retainOnDelete"),
    )


def register(state: dict, made: dict[str, pulumi.Resource]) -> pulumi.Resource:
    """Register one resource as the file has it; a provider of Kubernetes with the cluster that is there now."""
    kind, name, opts = state["type"], state.get("name", state["urn"].rpartition("::")[2]), options(state, made)
    if kind == "pulumi:providers:kubernetes":
        return pulumi.ProviderResource("kubernetes", name, {"kubeconfig": KUBECONFIG}, opts)
    if not state["custom"]:
        component = pulumi.ComponentResource(kind, name, None, opts)
        component.register_outputs({})
        return component
    load_class(kind)
    return pulumi.CustomResource(kind, name, state["inputs"], opts)


gc.set_threshold(50_000, 20, 100)  # as the stack's program
pulumi_eks.Provider("eks")  # its plugin makes the parts of a cluster, which are registered here like all others
resources: dict[str, pulumi.Resource] = {}
for one in json.loads(Path(pulumi.Config().require("file")).read_text()):
    resources[one["urn"]] = register(one, resources)
