"""Register so many ConfigMaps without content: what the engine, the SDK and the twin's plugins cost by themselves."""

import os
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

provider = kubernetes.Provider("cluster", kubeconfig=Path(os.environ["KUBECONFIG"]).read_text())
for number in range(pulumi.Config().require_int("resources") - 1):
    kubernetes.core.v1.ConfigMap(
        f"empty-{number}",
        metadata={"name": f"empty-{number}", "namespace": "default"},
        opts=pulumi.ResourceOptions(provider=provider),
    )
